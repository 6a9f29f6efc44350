"""Overlap of datasets: equal images, near-duplicates, matches of patients, and the verdict."""
