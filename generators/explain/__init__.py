"""Explanation by example (Campos et al. 2024): similar cases for a classifier's prediction."""
