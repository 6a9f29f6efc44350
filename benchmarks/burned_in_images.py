"""Cost of the search for burned-in text, and what it blanks in images without text.

    python benchmarks/burned_in_images.py OUT [FOLDER ...] [--half report] [--tesseract] [--peers PYTHON]
    python benchmarks/burned_in_images.py OUT --without-text 1000 [--seed 1]

Without a folder, draws images of several sizes, without text and full of text, and prints the CPU time per
megapixel, with --tesseract also that of Tesseract on the same images. With folders of DICOM, PNG or JPEG
files, cleans the frames of those of one half (by the digest of their names) without known identifiers,
prints the CPU time per megapixel and how many frames change, and writes these to OUT, to be looked at: what
was blanked that is no text is a false detection. With --without-text, cleans so many generated images that
have no text (chest and tissue phantoms, simulated ultrasound and X-ray images, parts of a CT and an MR
slice at another size and contrast), and prints how many change, with the bounds of Clopper and Pearson (95
%).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from io import BytesIO
from pathlib import Path

import numpy as np
from burned_in import GROUNDS, Frame, Mask, blanker
from common import fresh, table
from medsanitize.tools.text_detector.prepare import gray_images, half_of
from PIL import Image, ImageDraw, ImageFont

SIZES = ((256, 256), (512, 512), (1024, 1024), (2048, 2048))
SCREEN = (2487, 2048)
LINE = "Grzbowska Anna 1961-04-07 Klinikum Weidental MRN 44719026 kVp 120 Gain 52%"
ROUNDS = 3


def main(arguments: Sequence[str] | None = None) -> int:
    """Clean images, print; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("folders", type=Path, nargs="*")
    parser.add_argument("--half", choices=("train", "report"), default="report")
    parser.add_argument("--tesseract", action="store_true")
    parser.add_argument("--peers", type=Path, help="an interpreter with the peers: see burned_in_peers.py")
    parser.add_argument("--without-text", type=int, default=0, metavar="IMAGES")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    out, blank = fresh(given.out), blanker()
    blank(np.zeros((64, 64), np.uint8))
    if given.without_text:
        no_text(given.without_text, given.seed, blank, out)
    elif given.folders:
        real_images(given.folders, given.half, blank, out)
    else:
        drawn_images(out, tesseract=given.tesseract, peers=given.peers)
    return 0


def drawn_images(out: Path, *, tesseract: bool, peers: Path | None) -> None:
    """Print the CPU time per megapixel by size, without and with text."""
    rng, rows = np.random.default_rng(1), []
    frames = list(_frames(rng))
    others = _peers(peers, out, [frame for _, frame in frames]) if peers else []
    for number, (name, frame) in enumerate(frames):
        cells = [f"{_median(lambda frame=frame: _own(frame)) / frame.size * 1e6:.2f}"]
        if tesseract:
            cells.append(f"{_median(lambda frame=frame: _tesseract(frame)) / frame.size * 1e6:.2f}")
        cells += [f"{one / frame.size * 1e6:.2f}" for one in others[number].values()] if others else []
        rows.append((name, f"{frame.shape[1]} x {frame.shape[0]}", *cells))
    heads = ("image", "size", "CPU s a megapixel", *(["Tesseract"] if tesseract else []))
    heads += tuple(others[0]) if others else ()
    print(table(heads, rows), flush=True)


def _peers(python: Path, out: Path, frames: Sequence[Frame]) -> list[dict[str, float]]:
    """CPU seconds of the peers for each frame, by program."""
    for number, frame in enumerate(frames):
        Image.fromarray(frame).save(out / f"{number:02}.png")
    command = [str(python), str(Path(__file__).with_name("burned_in_peers.py")), str(out)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = json.loads(said.splitlines()[-1])
    return [found[f"{number:02}"] for number in range(len(frames))]


def _frames(rng: np.random.Generator) -> Iterator[tuple[str, Frame]]:
    for rows, columns in SIZES:
        for ground in ("X-ray", "CT", "ultrasound"):
            yield f"{ground}, no text", GROUNDS[ground](rng, rows, columns)
        frame = GROUNDS["X-ray"](rng, rows, columns)
        yield "X-ray, six lines", _written(frame, 6)
    yield "screen full of text", _written(np.zeros(SCREEN, np.uint8), 75)


def _written(frame: Frame, lines: int) -> Frame:
    picture = Image.fromarray(frame)
    pen, size = ImageDraw.Draw(picture), max(12, frame.shape[1] // 60)
    for line in range(lines):
        text = LINE[line % 20 :] + LINE[: line % 20]
        pen.text((10, 10 + line * frame.shape[0] // lines), text[:40], 230, font=ImageFont.load_default(size))
    return np.asarray(picture).copy()


def _median(measure: Callable[[], float]) -> float:
    return float(np.median([measure() for _ in range(ROUNDS)]))


def _own(frame: Frame) -> float:
    blank = blanker()  # one that has seen nothing, since it remembers texts
    start = time.process_time()
    blank(frame)
    return time.process_time() - start


def _tesseract(frame: Frame) -> float:
    stream = BytesIO()
    Image.fromarray(frame).save(stream, "PNG")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        ["tesseract", "stdin", "stdout", "--psm", "11"],
        input=stream.getvalue(),
        capture_output=True,
        check=True,
        env={"OMP_THREAD_LIMIT": "1", "PATH": "/usr/bin:/bin"},
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def no_text(count: int, seed: int, blank: Callable[[Frame], Mask], out: Path) -> None:
    """Clean generated images without text; print by kind how many change, and write these."""
    from medsanitize.verifiers.reid.calibration import clopper_pearson

    changed: dict[str, int] = dict.fromkeys(EMPTY, 0)
    drawn = dict.fromkeys(EMPTY, 0)
    pixels, start = 0, time.process_time()
    for number in range(count):
        kind = list(EMPTY)[number % len(EMPTY)]
        frame = EMPTY[kind](np.random.default_rng([seed, number]), number)
        covered = blank(frame)
        pixels, drawn[kind] = pixels + frame.size, drawn[kind] + 1
        if covered.any():
            changed[kind] += 1
            shown = np.hstack([frame, np.where(covered, np.uint8(90), frame)])
            Image.fromarray(shown).save(out / f"{kind}-{number}.png")
    took = time.process_time() - start
    print(table(("kind", "images", "changed"), [(kind, drawn[kind], changed[kind]) for kind in EMPTY]))
    low, high = clopper_pearson(sum(changed.values()), count)
    print(f"{sum(changed.values())} of {count} images change: {100 * low:.2f} to {100 * high:.2f} %")
    print(f"{pixels / 1e6:.1f} megapixels, {took / pixels * 1e6:.2f} s of CPU a megapixel, drawing included")


def _ground(kind: str) -> Callable[[np.random.Generator, int], Frame]:
    def drawn(rng: np.random.Generator, _: int) -> Frame:
        rows, columns = (int(side) for side in rng.integers(200, 640, 2))
        return GROUNDS[kind](rng, rows, columns)

    return drawn


def _part(kind: str) -> Callable[[np.random.Generator, int], Frame]:
    """A part of an enlarged slice, mirrored or turned, at another contrast."""

    def drawn(rng: np.random.Generator, _: int) -> Frame:
        whole = GROUNDS[kind](rng, 512, 512)
        side = int(rng.integers(128, 480))
        top, left = (int(at) for at in rng.integers(0, 512 - side, 2))
        part = np.rot90(whole[top : top + side, left : left + side], int(rng.integers(4)))
        shade = 255 * (part / 255) ** rng.uniform(0.5, 2) * rng.uniform(0.4, 1)
        return np.ascontiguousarray(shade[:, :: int(rng.choice([1, -1]))], np.uint8)

    return drawn


def _chest(rng: np.random.Generator, number: int) -> Frame:
    from medsanitize.generators.phantoms.chest import chest_phantom

    values = chest_phantom(number, 0, size=int(rng.choice([256, 384, 512])), seed=int(rng.integers(1000)))
    return np.asarray(255 * (values - values.min()) / np.ptp(values), np.uint8)


def _tissue(rng: np.random.Generator, number: int) -> Frame:
    from medsanitize.generators.phantoms.tissue import tissue_phantom

    colors = tissue_phantom(number, 0, 0, int(rng.integers(6)), size=384, seed=int(rng.integers(1000)))
    return np.asarray(colors.mean(axis=2), np.uint8)


EMPTY: dict[str, Callable[[np.random.Generator, int], Frame]] = {
    "X-ray": _ground("X-ray"),
    "ultrasound": _ground("ultrasound"),
    "CT": _part("CT"),
    "MR": _part("MR"),
    "chest phantom": _chest,
    "tissue phantom": _tissue,
}


def real_images(folders: Sequence[Path], half: str, blank: Callable[[Frame], Mask], out: Path) -> None:
    """Clean one half of the images; print the cost, and write those that change."""
    seen: set[str] = set()
    frames = pixels = changed = lost = 0
    took = 0.0
    for path in sorted(one for folder in folders for one in folder.rglob("*") if one.is_file()):
        for number, values in enumerate(gray_images(path) if half_of(path) == half else ()):
            digest = hashlib.sha256(values.tobytes()).hexdigest()
            if digest in seen:
                continue
            seen.add(digest)
            low, high = np.percentile(values, (0.1, 99.9))
            frame = np.clip((values - low) / max(high - low, 1e-6) * 255, 0, 255).astype(np.uint8)
            start = time.process_time()
            covered = blank(frame)
            took += time.process_time() - start
            frames, pixels = frames + 1, pixels + frame.size
            if covered.any():
                changed, lost = changed + 1, lost + int(covered.sum())
                shown = np.hstack([frame, np.where(covered, np.uint8(90), frame)])
                Image.fromarray(shown).save(out / f"{path.stem[:40]}-{number}.png")
    print(f"{frames} frames, {pixels / 1e6:.1f} megapixels, {took / pixels * 1e6:.2f} s of CPU a megapixel")
    print(f"{changed} frames change, {100 * lost / max(pixels, 1):.2f} % of all pixels")


if __name__ == "__main__":
    sys.exit(main())
