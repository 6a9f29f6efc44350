"""Synthetic images: phantoms, a diffusion model, the gate that judges privacy, quality, explanations."""
