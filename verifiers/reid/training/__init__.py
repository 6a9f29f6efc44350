"""From a table of images and patients to a model folder. These modules import torch at once."""
