"""Re-identification models: model folders, networks, packaged models."""
