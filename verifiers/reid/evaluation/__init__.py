"""Evaluation of re-identification models: metrics, confidence intervals, subgroups and an HTML report."""
