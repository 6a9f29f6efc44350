"""Explanations by example (Campos et al. 2024): what else does a classifier see as it sees this image?"""
