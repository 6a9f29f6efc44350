"""Graphic annotations of presentation states: letters that are drawn with lines, and what is no letter."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from medsanitize.policies.model import Policy
from medsanitize.sanitize.result import Outcome, Sanitized
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.sequence import Sequence

Sanitize = Callable[..., tuple[Sanitized, bytes]]
MakePolicy = Callable[..., Policy]
Points = list[tuple[float, float]]

# Strokes of letters of 4 by 7.
STROKES: dict[str, list[Points]] = {
    "A": [[(0, 7), (2, 0), (4, 7)], [(1, 4), (3, 4)]],
    "E": [[(4, 0), (0, 0), (0, 7), (4, 7)], [(0, 3.5), (3, 3.5)]],
    "H": [[(0, 0), (0, 7)], [(4, 0), (4, 7)], [(0, 3.5), (4, 3.5)]],
    "M": [[(0, 7), (0, 0), (2, 4), (4, 0), (4, 7)]],
    "N": [[(0, 7), (0, 0), (4, 7), (4, 0)]],
    "R": [[(0, 7), (0, 0), (3, 0), (4, 1), (4, 2.5), (3, 3.5), (0, 3.5)], [(2, 3.5), (4, 7)]],
    "T": [[(0, 0), (4, 0)], [(2, 0), (2, 7)]],
}


def written(word: str, size: float, at: tuple[float, float]) -> list[Points]:
    """The strokes of a word; ``size`` is a seventh of the height of its letters."""
    return [
        [(at[0] + size * (x + 6 * place), at[1] + size * y) for x, y in stroke]
        for place, letter in enumerate(word)
        for stroke in STROKES[letter]
    ]


def cursive() -> Points:
    """A word of joined letters, written in one line."""
    turn, line, x = np.linspace(0, 2 * np.pi, 20), [], 0.0
    for height, width in zip([20, 8, 8, 20, 8, 14, 8, 20, 8], [8, 6, 6, 8, 6, 7, 6, 8, 6], strict=True):
        for angle in turn.tolist():
            across = x + width * (1.3 * angle / (2 * np.pi) + 0.6 * np.sin(angle))
            line.append((across, 100 - height / 2 * (1 - np.cos(angle))))
        x += 1.3 * width
    return line


def ring(x: float, y: float, radius: float) -> Points:
    turn = np.linspace(0, 2 * np.pi, 40).tolist()
    return [(x + radius * np.cos(angle), y + 0.8 * radius * np.sin(angle)) for angle in turn]


def state(lines: list[Points], units: str = "PIXEL", kind: str = "POLYLINE") -> Dataset:
    """A presentation state with one graphic object for each line."""
    made = Dataset()
    made.file_meta = FileMetaDataset()
    made.file_meta.TransferSyntaxUID = "1.2.840.10008.1.2.1"
    made.SOPClassUID = made.file_meta.MediaStorageSOPClassUID = "1.2.840.10008.5.1.4.1.1.11.1"
    made.SOPInstanceUID = made.file_meta.MediaStorageSOPInstanceUID = "1.2.3.4.9"
    made.StudyInstanceUID, made.SeriesInstanceUID, made.Modality = "1.2.3.4", "1.2.3.4.1", "PR"
    made.PatientID, made.ContentLabel = "77-4711", "FINDINGS"
    objects = []
    for line in lines:
        drawn = Dataset()
        drawn.GraphicAnnotationUnits, drawn.GraphicDimensions = units, 2
        drawn.NumberOfGraphicPoints = len(line)
        drawn.GraphicData = [float(number) for point in line for number in point]
        drawn.GraphicType, drawn.GraphicFilled = kind, "N"
        objects.append(drawn)
    annotation = Dataset()
    annotation.GraphicLayer, annotation.GraphicObjectSequence = "LAYER", Sequence(objects)
    made.GraphicAnnotationSequence = Sequence([annotation])
    return made


@pytest.mark.pixels
@pytest.mark.parametrize(
    "source",
    [
        state(written("MARTHA", 2, (300, 200))),
        state(written("HENRE", 20, (30, 40))),
        state(written("TERMAN", 0.004, (0.2, 0.3)), units="DISPLAY"),
        state([*written("MARTHA", 3, (300, 200)), ring(900, 900, 800)]),
        state([cursive()], kind="INTERPOLATED"),
    ],
    ids=["small", "large", "in units of the display", "beside a region", "joined"],
)
def test_letters_that_are_drawn_are_quarantined(
    source: Dataset, sanitize: Sanitize, make_policy: MakePolicy
) -> None:
    done, _ = sanitize(source, make_policy("research"))

    assert done.record.outcome is Outcome.QUARANTINED
    assert [(one.rule, one.location) for one in done.record.findings] == [("drawn-text", "(0070,0009)")]


MEASURED: list[list[Points]] = [
    [[(10, 10), (100, 120)], [(92, 104), (100, 120), (84, 112)]],
    [[(20, 500), (20, 100)], *([(20, 100 + 40 * at), (30, 100 + 40 * at)] for at in range(11))],
    [[(100, 100), (300, 80)], [(110, 400), (310, 430)], [(200, 90), (205, 420)]],
    [ring(60 + 50 * at, 200 + 90 * (at % 3), 20 + 7 * at) for at in range(6)],
]


@pytest.mark.pixels
@pytest.mark.parametrize("lines", MEASURED, ids=["arrow", "ruler", "angle of the spine", "regions"])
def test_measurements_are_released_as_they_are(
    lines: list[Points], sanitize: Sanitize, make_policy: MakePolicy
) -> None:
    done, out = sanitize(state(lines), make_policy("research"))

    assert done.record.outcome is Outcome.RELEASED
    for line in lines:
        assert np.array(line, "<f4").tobytes() in out


@pytest.mark.parametrize(
    ("at_risk", "outcome"), [("quarantine", Outcome.QUARANTINED), ("release", Outcome.RELEASED)]
)
def test_drawings_that_nobody_looks_at_are_released_only_if_the_policy_accepts_the_risk(
    at_risk: str, outcome: Outcome, sanitize: Sanitize, make_policy: MakePolicy
) -> None:
    policy = make_policy(
        "research", dicom={"options": {"clean_pixel_data": False}}, pixels={"at_risk": at_risk}
    )

    done, _ = sanitize(state(MEASURED[1]), policy)

    assert done.record.outcome is outcome
