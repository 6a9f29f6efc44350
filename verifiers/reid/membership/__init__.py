"""Membership inference: whether a patient's images trained a model."""
