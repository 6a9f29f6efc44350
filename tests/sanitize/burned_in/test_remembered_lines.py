"""Lines and parts of images that were seen before: the same results without memory, which is bounded."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from medsanitize.sanitize.burned_in import ocr_models
from medsanitize.sanitize.burned_in.ocr_models import Gray, OcrModels

pytest.importorskip("rapidocr")
pytest.importorskip("onnxruntime")

TEXTS = ("DOE^JANE", "L", "14.06.1987 ST. MARY HOSPITAL RADIOLOGY 2", "kVp 120", "0123")


def line(text: str) -> Gray:
    picture = np.zeros((40, 24 * len(text) + 20), np.uint8)
    cv2.putText(picture, text, (8, 30), cv2.FONT_HERSHEY_SIMPLEX, 1, 220, 2)
    return picture


def test_a_line_reads_the_same_alone_beside_others_and_again() -> None:
    lines = [line(text) for text in TEXTS]
    alone = [OcrModels().recognize([one])[0] for one in lines]
    models = OcrModels()
    assert models.recognize(lines) == alone
    assert models.recognize(lines[::-1] + lines) == alone[::-1] + alone


def test_lines_of_another_shape_are_other_lines() -> None:
    models, plain = OcrModels(), np.zeros((8, 32), np.uint8)
    models.recognize([plain, plain.reshape(16, 16), plain.reshape(32, 8)])
    assert len(models._recognized) == 3


def test_a_repeated_line_is_not_recognized_again(monkeypatch: pytest.MonkeyPatch) -> None:
    models, calls = OcrModels(), []
    monkeypatch.setattr(OcrModels, "_recognize", lambda _, one: calls.append(one) or ("x", 1.0))
    models.recognize([line("A"), line("B"), line("A"), line("A")])
    assert len(calls) == 2


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ocr_models, "_REMEMBERED", 3)
    monkeypatch.setattr(OcrModels, "_recognize", lambda *_: ("x", 1.0))
    models = OcrModels()
    models.recognize([np.full((4, 4), value, np.uint8) for value in range(9)])
    assert len(models._recognized) == 3


def screen(*texts: str) -> Gray:
    """Texts in the corners of a screen, far from each other."""
    picture = np.zeros((320, 640), np.uint8)
    for place, text in zip(((20, 40), (380, 280)), texts, strict=False):
        cv2.putText(picture, text, place, cv2.FONT_HERSHEY_SIMPLEX, 1, 220, 2)
    return picture


def test_a_part_that_stays_is_not_looked_at_again_when_another_one_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    models, looked, real = OcrModels(), [], OcrModels._detect
    monkeypatch.setattr(OcrModels, "_detect", lambda *given: looked.append(1) or real(*given))
    models.detect(screen("DOE^JANE", "kVp 120"))

    models.detect(screen("DOE^JANE", "MI 0.9"))

    assert len(looked) == 3


def test_patches_are_the_same_with_and_without_memory() -> None:
    models = OcrModels()
    models.detect(screen("DOE^JANE", "kVp 120"))

    again = models.detect(screen("DOE^JANE", "MI 0.9"))

    assert again == OcrModels().detect(screen("DOE^JANE", "MI 0.9"))


def test_patches_of_parts_are_at_their_place_in_the_image() -> None:
    first, second = sorted(OcrModels().detect(screen("DOE", "MI 0.9")), key=lambda one: one.top)
    assert 0 <= first.left < 30
    assert 0 <= first.top < 30
    assert 360 < second.left < 390
    assert 240 < second.top < 270
