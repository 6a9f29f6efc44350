"""A generator can learn burned-in text: its images are searched for it before they are released."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from medsanitize.generators.export.provenance import SyntheticProvenance
from medsanitize.pipeline.engines.worker import Setup, Worker
from medsanitize.pipeline.state.records import open_record
from medsanitize.pipeline.state.synthetics import SyntheticRow
from medsanitize.pipeline.synthesis.draw import SampleRequest
from medsanitize.pipeline.synthesis.text_search import default_text_search, without_text
from medsanitize.pipeline.synthesis.write_objects import ExportItem, stage_batch
from medsanitize.policies.load import loads
from medsanitize.sanitize.pseudonyms import derive_sub_keys
from medsanitize.sanitize.result import CheckResult, ObjectRecord
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

pytestmark = [pytest.mark.generate, pytest.mark.pixels, pytest.mark.filterwarnings("ignore")]

SIDE = 256
POLICY = """\
version: 1
preset: {preset}
release: {{name: synthetic, version: "1.0", mode: pseudonymous}}
inputs: [./export]
output: ./release
state: ./state
keys: {{file: ./release.key}}
"""
FACTS = SyntheticProvenance("clear", "0" * 64, "passed", 0.01, "0.1.0", 0.001)


def image(text: str = "") -> NDArray[np.uint8]:
    """A smooth gray image, with a line of text."""
    shades = np.linspace(20, 90, SIDE, dtype=np.float32)
    picture = Image.fromarray(np.tile(shades, (SIDE, 1)).astype(np.uint8))
    ImageDraw.Draw(picture).text((20, 30), text, fill=230, font=ImageFont.load_default(24))
    return np.asarray(picture)


def staged(folder: Path, pixels: NDArray[np.uint8], preset: str) -> tuple[Worker, SyntheticRow, Path]:
    """Stage one image: the worker, the row, and the written file."""
    policy = loads(POLICY.format(preset=preset), base=folder)
    staging = folder / "staging"
    staging.mkdir(parents=True)
    worker = Setup(policy, derive_sub_keys(bytes(64), scope="project"), staging, keep_links=False).worker()
    (row,) = stage_batch(worker, [ExportItem(SampleRequest(0, 0, 1), pixels.tobytes(), FACTS)])
    (file,) = staging.rglob("*.png")
    return worker, row, file


def record_of(worker: Worker, row: SyntheticRow) -> ObjectRecord:
    return open_record(worker.seal, "released", row.names[:4], row.payload)


def test_learned_text_is_blanked(tmp_path: Path) -> None:
    worker, row, file = staged(tmp_path, image("MILLER JOHN"), "research")
    record = record_of(worker, row)
    assert record.pixels is CheckResult.PASSED
    assert record.pixel_regions_cleaned >= 1
    with Image.open(file) as written:
        assert np.asarray(written)[30:60, 20:200].max() < 150


def test_an_image_without_text_stays_as_it_was_judged(tmp_path: Path) -> None:
    _, _, file = staged(tmp_path, image(), "research")
    with Image.open(file) as written:
        assert np.array_equal(np.asarray(written), image())


def test_a_policy_that_reads_no_pixels_says_so(tmp_path: Path) -> None:
    worker, row, _ = staged(tmp_path, image("MILLER JOHN"), "ps3.15-basic")
    assert record_of(worker, row).pixels is CheckResult.NOT_RUN


def test_without_a_policy_text_is_blanked_as_well() -> None:
    found = without_text(default_text_search(), image("MILLER JOHN"))
    assert found is not None
    blanked, regions = found
    assert regions >= 1
    assert blanked[30:60, 20:200].max() < 150
