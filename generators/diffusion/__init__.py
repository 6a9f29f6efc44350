"""Latent diffusion: training on the data controller's images, and sampling."""
