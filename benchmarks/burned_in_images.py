"""Cost of the search for burned-in text, and what it blanks in images without text.

    python benchmarks/burned_in_images.py OUT [FOLDER ...] [--half report] [--tesseract]

Without a folder, draws images of several sizes, without text and full of text, and prints the CPU time per
megapixel, with --tesseract also that of Tesseract on the same images. With folders of DICOM, PNG or JPEG
files, cleans the frames of those of one half (by the digest of their names) without known identifiers, prints
the CPU time per megapixel and how many frames change, and writes these to OUT, to be looked at: what was
blanked that is no text is a false detection.
"""

from __future__ import annotations

import argparse
import hashlib
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
    given = parser.parse_args(arguments)
    out, blank = fresh(given.out), blanker()
    blank(np.zeros((64, 64), np.uint8))
    if given.folders:
        real_images(given.folders, given.half, blank, out)
    else:
        drawn_images(blank, tesseract=given.tesseract)
    return 0


def drawn_images(blank: Callable[[Frame], Mask], *, tesseract: bool) -> None:
    """Print the CPU time per megapixel by size, without and with text."""
    rng, rows = np.random.default_rng(1), []
    for name, frame in _frames(rng):
        cells = [f"{_median(lambda frame=frame: _own(blank, frame)) / frame.size * 1e6:.2f}"]
        if tesseract:
            cells.append(f"{_median(lambda frame=frame: _tesseract(frame)) / frame.size * 1e6:.2f}")
        rows.append((name, f"{frame.shape[1]} x {frame.shape[0]}", *cells))
    heads = ("image", "size", "CPU s a megapixel", *(["Tesseract"] if tesseract else []))
    print(table(heads, rows), flush=True)


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


def _own(blank: Callable[[Frame], Mask], frame: Frame) -> float:
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
