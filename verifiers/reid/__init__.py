"""Whether images show the same patient: models, indexes, comparison, attacks."""
