"""Latent diffusion: training on the holder's images, sampling."""
