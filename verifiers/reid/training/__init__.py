"""Training: from a table of images and patients to a model folder. Importing these modules imports torch."""
