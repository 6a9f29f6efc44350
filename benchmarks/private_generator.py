"""What differential privacy costs a generator: distance of its images from new patients, by epsilon.

    python benchmarks/private_generator.py OUT [--patients 400] [--steps 1600] [--epsilon 1 8]

Trains small generators of phantoms (64 pixels, one or two images a patient) on the same patients, once
without differential privacy and once with each epsilon at delta 1e-5, and compares their images with those
of other phantoms. Prints one row per generator, and first the distance between two halves of these phantoms.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from common import fresh
from medsanitize.generators.diffusion.generator import open_generator
from medsanitize.generators.diffusion.recipes import Autoencoding, Recipe, recipe_for
from medsanitize.generators.diffusion.train import train_generator
from medsanitize.generators.phantoms.chest import chest_phantom
from medsanitize.generators.phantoms.cohorts import write_chests
from medsanitize.generators.quality.feature_network import features_of
from medsanitize.generators.quality.frechet_distance import frechet_distance
from medsanitize.progress import Cancellation, NoProgress
from medsanitize.verifiers.reid.labels import read_labels
from medsanitize.verifiers.reid.training.privacy_accounting import PrivacyBudget

SIZE, SAMPLES, NEW = 64, 120, 10_000


def recipe(steps: int) -> Recipe:
    """A recipe that learns phantoms of 64 pixels in minutes on one core."""
    demo = recipe_for("demo-128")
    how = replace(demo.denoiser, channels=(16, 32), batch=16, steps=steps, copies=2)
    autoencoder = Autoencoding((16,), 1, 8, 20, 1e-3, kl=0.0, latents=16, patch=8)
    return replace(demo, name="phantoms-64", size=SIZE, autoencoder=autoencoder, denoiser=how)


def halves(real: np.ndarray, other: np.ndarray, *, same: bool) -> float:
    """Mean Fréchet distance of halves of the real features and as many others, over five draws."""
    found = []
    for draw in range(5):
        random = np.random.default_rng(draw)
        shuffled = real[random.permutation(len(real))]
        half = len(real) // 2
        against = shuffled[half:] if same else other[random.permutation(len(other))[:half]]
        found.append(frechet_distance(shuffled[:half].astype(float), against.astype(float)))
    return float(np.mean(found))


def features(images: np.ndarray) -> np.ndarray:
    """Features of images, in the packaged network."""
    quiet = NoProgress()
    return features_of(images, quiet, Cancellation())


def main() -> None:
    """Train, sample, compare, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--patients", type=int, default=400)
    parser.add_argument("--steps", type=int, default=1600, help="without privacy; a quarter with it")
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0, 8.0])
    parser.add_argument("--delta", type=float, default=1e-5)
    given = parser.parse_args()
    torch.set_num_threads(1)
    out = fresh(given.out)
    table = write_chests(out / "images", range(given.patients), visits=(1, 2), size=SIZE)
    new = [chest_phantom(NEW + one, 0, size=SIZE) for one in range(SAMPLES)]
    real = features(np.rint(np.clip(np.stack(new), 0, 1) * 255).astype(np.uint8))
    print(
        json.dumps({"images": "other phantoms", "frechet_halves": halves(real, real, same=True)}), flush=True
    )
    labels = read_labels(table, out / "images")
    for epsilon in [None, *reversed(given.epsilon)]:
        budget = None if epsilon is None else PrivacyBudget(epsilon, given.delta)
        began = time.process_time()
        model = out / f"epsilon-{epsilon}"
        made = train_generator(
            labels, None, recipe(given.steps), None, model, NoProgress(), Cancellation(), budget
        )
        spent = time.process_time() - began
        images = open_generator(model).sample([0] * SAMPLES, range(SAMPLES))
        row = {
            "images": "no privacy" if epsilon is None else f"epsilon {epsilon:g}",
            "frechet_halves": halves(real, features(images), same=False),
            "cpu_seconds": round(spent),
            "privacy": made.privacy,
        }
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
