"""Patient re-identification: models, indexes, dataset comparison and attacks."""
