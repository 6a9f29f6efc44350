"""Attacks that turn what a training shares, gradients or embeddings, back into images."""
