"""Synthetic images: phantoms, a diffusion model, the privacy gate, quality metrics, export, explanations."""
