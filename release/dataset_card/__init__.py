"""The dataset card: tables about the patients of a release, with differential privacy."""
