"""Heads before and after the removal of the face: found again by slices, and recognised by renderings.

    python benchmarks/heads.py OUT [--people N] [--others N] [--recogniser PYTHON]

Makes head phantoms in MR (`medsanitize.generators.phantoms.heads`), two scans of each, and removes the faces
as a run does. Prints how often a slice of the second scan finds the first one by the packaged features for MR
of the head, and how often a face recogniser finds a rendering of the second scan among those of the first:
with the face, without it, and with a face put back by a regression that learned from other heads what face
belongs to what is left (the linear counterpart of re-facing by diffusion, arXiv 2501.18834).

PYTHON has dlib-bin and face-recognition-models installed (network and weights of dlib, CC0); without it the
packaged features recognise the renderings. Exits 1 if a face is found more than twice as often as by chance.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from common import fresh, machine, table
from medsanitize.generators.phantoms.heads import Visit, head_of
from medsanitize.sanitize.context import FaceCut
from medsanitize.sanitize.faces.deface import pixels_to_blank
from medsanitize.sanitize.faces.series import assess_series
from medsanitize.sanitize.faces.slice_geometry import Plane
from numpy.typing import NDArray

Values = NDArray[np.floating[Any]]
AXIAL, SAGITTAL = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0)), ((0.0, 1.0, 0.0), (0.0, 0.0, -1.0))
SEED = 5
# Values from here on are tissue in a rendering.
TISSUE = 150.0
# Renderings: mm per pixel, and the sides of a dlib chip.
FINE, CHIP = 2.5, 150
# In a Python of its own: the packages are for this measurement only.
DESCRIBE = """
import sys, dlib, numpy as np, face_recognition_models as models
network = dlib.face_recognition_model_v1(models.face_recognition_model_location())
chips = np.load(sys.argv[1])
found = [np.array(network.compute_face_descriptor(np.ascontiguousarray(chip))) for chip in chips]
np.save(sys.argv[2], np.array(found, np.float32))
"""


@dataclass(frozen=True)
class Scan:
    """What is compared of one scan: slices and depth of the front, with the face and without."""

    slices: dict[str, tuple[Values, Values]]
    front: Values
    left: Values


def plane_of(axes: tuple[Any, Any], corner: tuple[float, float, float], pixel: float, size: int) -> Plane:
    """Return a square plane from its corner."""
    return Plane(corner, *axes, (pixel, pixel), size, size)


def points_of(plane: Plane) -> Values:
    """Return the LPS coordinates of every pixel."""
    across, down, start = (np.array(axis) for axis in (plane.across, plane.down, plane.position))
    rows, columns = np.arange(plane.rows) * plane.pitch[1], np.arange(plane.columns) * plane.pitch[0]
    points = start + rows[:, None, None] * down + columns[None, :, None] * across
    return np.asarray(points, np.float32)


def scan_of(visit: Visit, *, with_slices: bool = True) -> Scan:
    """Make a scan, remove its face, and keep slices and depth maps."""
    planes = [plane_of(AXIAL, (-126.0, -130.0, -170.0 + 5.0 * k), 4.0, 64) for k in range(55)]
    face = assess_series(
        planes, lambda k: visit.values(points_of(planes[k])), "MR", elsewhere=False, cutting=True
    )
    if face.verdict != "possible" or not face.cuts:
        sys.exit("A face was not removed")
    wanted = {
        "axial, through the eyes": plane_of(AXIAL, (-120.0, -120.0, -26.0), 1.25, 192),
        "sagittal, the middle": plane_of(SAGITTAL, (0.0, -125.0, 95.0), 1.25, 192),
    }
    slices = {name: both(visit, plane, face.cuts) for name, plane in wanted.items() if with_slices}
    return Scan(slices, *front_of(visit, face.cuts))


def both(visit: Visit, plane: Plane, cuts: Sequence[FaceCut]) -> tuple[Values, Values]:
    """A slice with the face and without."""
    values = visit.values(points_of(plane))
    mask = pixels_to_blank(cuts, plane)
    return values, values if mask is None else np.where(mask, values.min(), values)


def front_of(visit: Visit, cuts: Sequence[FaceCut]) -> tuple[Values, Values]:
    """Depth of the first tissue from the front in mm, (rows, columns), with the face and without."""
    depths: list[list[Values]] = [[], []]
    for z in np.arange(50.0, -160.0, -FINE):
        plane = Plane((-95.0, -135.0, float(z)), *AXIAL, (FINE, 1.5), 75, 77)
        for rows, values in zip(depths, both(visit, plane, cuts), strict=True):
            seen = values > TISSUE
            rows.append(np.where(seen.any(axis=0), seen.argmax(axis=0) * 1.5, 115.0))
    return np.array(depths[0], np.float32), np.array(depths[1], np.float32)


# -- renderings ---------------------------------------------------------------------------------


def chip_of(depth: Values) -> NDArray[np.uint8]:
    """A gray rendering of a depth map, lit from above, as a chip of the recogniser."""
    from PIL import Image
    from scipy.ndimage import gaussian_filter

    smooth = gaussian_filter(depth, 1.0)
    down, across = np.gradient(smooth, FINE)
    normal = np.stack([across, down, np.ones_like(smooth)]) / np.sqrt(1 + across**2 + down**2)
    light = np.array([0.25, -0.45, 0.86])
    shade = np.clip(np.tensordot(light / np.linalg.norm(light), normal, 1), 0, 1) * (smooth < 105)
    # From the brow to below the chin, as faces fill a chip.
    part = shade[14:]
    picture = Image.fromarray(np.uint8(40 * (part > 0) + 210 * part)).resize((CHIP, CHIP))
    return np.repeat(np.asarray(picture)[..., None], 3, axis=2)


def refaced(left: Values, left_of_others: Values, front_of_others: Values) -> Values:
    """Predict the front of heads from what is left, by ridge regression on other heads."""
    x, y = (part[:, ::2, ::2].reshape(len(part), -1) for part in (left_of_others, left))
    mean, answer = x.mean(0), front_of_others.reshape(len(x), -1)
    kernel, spread = (x - mean) @ (x - mean).T, answer.mean(0)
    tried = np.trace(kernel) / len(x) * np.logspace(-4, 1, 12)

    def missed(penalty: float) -> float:
        """Error of leaving one head out, in closed form."""
        hat = kernel @ np.linalg.inv(kernel + penalty * np.eye(len(x)))
        return float((((answer - spread) - hat @ (answer - spread)) / (1 - np.diag(hat))[:, None]).std())

    chosen = min(tried, key=missed)
    weights = np.linalg.solve(kernel + chosen * np.eye(len(x)), answer - spread)
    return np.asarray(((y - mean) @ (x - mean).T) @ weights + spread).reshape(-1, *left.shape[1:])


def described(chips: NDArray[np.uint8], python: str | None, out: Path) -> Values:
    """Descriptors of renderings by dlib's network, or by the packaged features."""
    if python is None:
        return embedded([chip[..., 0] / np.float32(255) for chip in chips])
    np.save(out / "chips.npy", chips)
    subprocess.run([python, "-c", DESCRIBE, out / "chips.npy", out / "found.npy"], check=True)
    return np.asarray(np.load(out / "found.npy"))


def embedded(pictures: Sequence[Values]) -> Values:
    """Packaged features for MR of the head."""
    from medsanitize.verifiers.reid.images.grayscale import rescale_intensity
    from medsanitize.verifiers.reid.images.image import ImageArray, Modality
    from medsanitize.verifiers.reid.models.pretrained import packaged_retrieval

    model = packaged_retrieval(Modality.MR_HEAD)
    images = [ImageArray(rescale_intensity(picture), Modality.MR_HEAD) for picture in pictures]
    return np.concatenate([model.embed(images[start : start + 16]) for start in range(0, len(images), 16)])


# -- figures --------------------------------------------------------------------------------


def found_again(gallery: Values, probes: Values) -> tuple[float, float, float, float]:
    """Share of probes whose nearest in the gallery is the same head, its 95 % interval (exact), and AUC."""
    from scipy.stats import beta

    distance = np.linalg.norm(probes[:, None] - gallery[None], axis=2)
    count, hits = len(distance), int((distance.argmin(axis=1) == np.arange(len(distance))).sum())
    low = float(beta.ppf(0.025, hits, count - hits + 1)) if hits else 0.0
    high = float(beta.ppf(0.975, hits + 1, count - hits)) if hits < count else 1.0
    own = np.eye(count, dtype=bool)
    wins = (distance[own][:, None] < distance[~own][None]).mean()
    return hits / count, low, high, float(wins)


def rows_of(
    scans: Sequence[tuple[Scan, Scan]], others: Sequence[Scan], python: str | None, out: Path
) -> Iterator[tuple[str, str, tuple[float, float, float, float]]]:
    """Yield what was compared, in which state, and the figures."""
    for name in scans[0][0].slices:
        gallery = embedded([first.slices[name][0] for first, _ in scans])
        for number, what in enumerate(("with the face", "without")):
            probes = embedded([second.slices[name][number] for _, second in scans])
            yield f"slice: {name}", what, found_again(gallery, probes)
    made = refaced(
        np.stack([second.left for _, second in scans]),
        np.stack([one.left for one in others]),
        np.stack([one.front for one in others]),
    )
    kinds = {
        "with the face": [second.front for _, second in scans],
        "without": [second.left for _, second in scans],
        "put back by regression": list(made),
    }
    gallery = described(np.stack([chip_of(first.front) for first, _ in scans]), python, out)
    for what, depths in kinds.items():
        chips = np.stack([chip_of(depth) for depth in depths])
        save(out, what, chips)
        yield "rendering", what, found_again(gallery, described(chips, python, out))


def save(out: Path, name: str, chips: NDArray[np.uint8]) -> None:
    """Write six renderings next to each other."""
    from PIL import Image

    Image.fromarray(np.concatenate(list(chips[:6]), axis=1)).save(out / f"{name}.png")


def main() -> None:
    """Run the benchmark."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("out", type=Path)
    asked.add_argument("--people", type=int, default=40)
    asked.add_argument("--others", type=int, default=60)
    asked.add_argument("--recogniser", metavar="PYTHON")
    options = asked.parse_args()
    out, start = fresh(options.out), time.process_time()
    heads = [head_of(patient, seed=SEED) for patient in range(options.people + options.others)]
    scans = [(scan_of(Visit(one, 0)), scan_of(Visit(one, 1))) for one in heads[: options.people]]
    others = [scan_of(Visit(one, 0), with_slices=False) for one in heads[options.people :]]
    found = list(rows_of(scans, others, options.recogniser, out))
    told = [
        (where, what, f"{rate:.2f} ({low:.2f} to {high:.2f})", f"{auc:.3f}")
        for where, what, (rate, low, high, auc) in found
    ]
    print(machine())
    print(table(("compared", "face", "found again", "AUC"), told))
    print(f"Chance: {1 / options.people:.3f}. CPU time: {time.process_time() - start:.0f} s.")
    limit = 2 / options.people
    faces = [rate for where, what, (rate, *_) in found if where == "rendering" and what != "with the face"]
    sys.exit(0 if max(faces) <= limit else 1)


if __name__ == "__main__":
    main()
