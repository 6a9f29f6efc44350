"""Fit the weights with which a piece of a text map counts as text (`sanitize/burned_in/text_evidence.py`).

    python benchmarks/text_evidence.py FOLDER [FOLDER ...] [--seeds 11,12,13] [--shows-text START ...]

Text are the lines that `burned_in.py` draws; no text are pieces elsewhere in these pictures, and pieces of
the images in the folders (one half of them, by the digest of their names) in which OCR reads nothing. Images
with text that OCR does not read are left out with --shows-text, by the start of their names;
`burned_in_images.py` shows them. Prints the intercept and the weights.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Iterator, Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from burned_in import SCRIPTS, Mask, picture, script_picture
from medsanitize.sanitize.burned_in.ocr import TextReader
from medsanitize.sanitize.burned_in.strokes import TextPiece, evidence_of, pieces_of_letters
from medsanitize.sanitize.burned_in.text_map import CELL, text_chances
from medsanitize.tools.text_detector.prepare import gray_images, half_of
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

PICTURES, LATIN = 6, 40
# Part of a line's ink in a piece, from which the piece is text; margin (pixels) of what is no text.
COVERED, MARGIN = 0.3, 4
READ, LETTERS = 0.6, 2

Features = tuple[float, ...]


def main(arguments: Sequence[str] | None = None) -> int:
    """Fit, print; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--seeds", default="11,12,13")
    parser.add_argument("--half", choices=("train", "report"), default="train")
    parser.add_argument("--shows-text", nargs="*", default=[])
    given = parser.parse_args(arguments)
    drawn = [one for seed in map(int, given.seeds.split(",")) for one in drawn_pieces(seed)]
    text = [features for features, is_text in drawn if is_text]
    other = [features for features, is_text in drawn if not is_text]
    other += frame_pieces(given.folders, given.half, tuple(given.shows_text))
    is_text = np.r_[np.ones(len(text)), np.zeros(len(other))]
    fitted = LogisticRegression(C=1.0, class_weight="balanced").fit(np.array([*text, *other]), is_text)
    print(len(text), "pieces of text,", len(other), "others")
    print("intercept", round(float(fitted.intercept_[0]), 2))
    print("weights", tuple(round(float(one), 2) for one in fitted.coef_[0]))
    return 0


def drawn_pieces(seed: int) -> Iterator[tuple[Features, bool]]:
    """Yield the pieces of drawn pictures, once for each line in them."""
    for frame, texts in _pictures(seed):
        values = frame.astype(np.float32)
        near = np.zeros(frame.shape, np.uint8)
        for one in texts:
            near |= one.glyphs
        near = np.asarray(cv2.dilate(near, np.ones((2 * MARGIN + 1, 2 * MARGIN + 1), np.uint8)))
        for piece, features in _pieces(values):
            mask = _mask(piece, frame.shape)
            if not (mask & (near > 0)).any():
                yield features, False
            for one in texts:
                if one.identifies and (mask & one.glyphs).sum() > COVERED * one.glyphs.sum():
                    yield features, True


def _pictures(seed: int) -> Iterator[tuple[NDArray[np.uint8], list[Any]]]:
    for kind in SCRIPTS:
        for number in range(PICTURES):
            yield script_picture(np.random.default_rng([seed, number, len(kind), ord(kind[0])]), kind, None)
    for number in range(LATIN):
        yield picture(np.random.default_rng([seed, number]))


def frame_pieces(folders: Sequence[Path], half: str, shows_text: tuple[str, ...]) -> list[Features]:
    """Return the pieces of real images in which OCR reads nothing."""
    reader, seen, found = TextReader(), set(), []
    for path in sorted(one for folder in folders for one in folder.rglob("*") if one.is_file()):
        if half_of(path) != half or path.name.startswith(shows_text or ("\0",)):
            continue
        for values in gray_images(path):
            digest = hashlib.sha256(values.tobytes()).hexdigest()
            if digest not in seen:
                seen.add(digest)
                found += _unread(reader, values)
    return found


def _unread(reader: TextReader, values: NDArray[np.float32]) -> list[Features]:
    low, high = float(values.min()), float(values.max())
    gray = ((values - low) / (high - low) * 255).astype(np.uint8)
    everywhere = np.ones([-(-side // CELL) for side in gray.shape], np.float32)
    boxes = [
        box
        for box in reader.read(gray, everywhere)
        if box.score >= READ and sum(map(str.isalnum, box.text)) >= LETTERS
    ]
    return [
        features
        for piece, features in _pieces(values)
        if not any(
            box.left < piece.bounds[2]
            and box.right > piece.bounds[0]
            and box.top < piece.bounds[3]
            and box.bottom > piece.bounds[1]
            for box in boxes
        )
    ]


def _pieces(values: NDArray[np.float32]) -> Iterator[tuple[TextPiece, Features]]:
    for piece, line in pieces_of_letters(values, text_chances(values)):
        yield piece, astuple(evidence_of(piece, line, values))


def _mask(piece: TextPiece, shape: tuple[int, ...]) -> Mask:
    mask: Mask = np.zeros(shape, bool)
    left, top = piece.bounds[:2]
    own = np.kron(piece.cells.astype(np.uint8), np.ones((CELL, CELL), np.uint8)) > 0
    own = own[: shape[0] - top, : shape[1] - left]
    mask[top : top + own.shape[0], left : left + own.shape[1]] = own
    return mask


if __name__ == "__main__":
    sys.exit(main())
