"""Pixels on which a decoder ends its process: twelve in a row neither stop a run nor are lost."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from medsanitize.pipeline.engines.base import LocalEngine
from medsanitize.pipeline.run import Options, run
from medsanitize.policies.model import Policy
from medsanitize.verifiers.leaks.pixel_decoders import decoding_plugin
from medsanitize.verifiers.leaks.pixel_digest import pixel_digest

from tests.helpers.lossless_jpeg import lossless_jpeg, write_few_bit_images

Workplace = Callable[..., Policy]
# More than the crashes in a row after which a run gives up.
MANY = 12


def few_bits_only(policy: Policy) -> None:
    export = policy.inputs[0]
    assert isinstance(export, Path)
    shutil.rmtree(export)
    write_few_bit_images(export, MANY)


def test_a_series_that_gdcm_crashes_on_is_released(workplace: Workplace) -> None:
    policy = workplace()
    few_bits_only(policy)

    result = run(policy, Options(workers=1))

    assert (result.ending, result.outcomes["released"]) == ("published", MANY)


@pytest.mark.pixels
def test_its_pixels_are_read_for_text(workplace: Workplace) -> None:
    policy = workplace(
        dicom="{options: {clean_pixel_data: true}}", pixels="{search: every-image, faces: ignore}"
    )
    few_bits_only(policy)

    result = run(policy, Options(workers=1))

    assert (result.ending, result.outcomes["released"]) == ("published", MANY)


def test_eight_bit_jpeg_is_never_given_to_gdcm() -> None:
    assert decoding_plugin("1.2.840.10008.1.2.4.50", 8, b"") == "pillow"


def test_pixels_that_gdcm_would_crash_on_are_not_compared(tmp_path: Path) -> None:
    write_few_bit_images(tmp_path, 1)

    assert pixel_digest(tmp_path / "few00.dcm") is None


@pytest.mark.parametrize("bits", [2, 7])
def test_the_precision_of_lossless_jpeg_is_read_from_its_stream(bits: int) -> None:
    import numpy as np

    stream = lossless_jpeg(np.zeros((4, 4), np.uint8), bits)

    with pytest.raises(RuntimeError):
        decoding_plugin("1.2.840.10008.1.2.4.70", 8, stream)


def test_workers_that_do_not_crash_are_kept(workplace: Workplace, monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib import import_module

    from medsanitize.pipeline.engines.worker import Setup
    from medsanitize.progress import Cancellation

    from tests.pipeline.stages.test_stages import KEYS

    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "helpers")
    tasks, started = import_module("engine_tasks"), 0

    class Counting(LocalEngine):
        def _new_pool(self):  # type: ignore[no-untyped-def]
            nonlocal started
            started += 1
            return super()._new_pool()

    with Counting(Setup(workplace(), KEYS, None, keep_links=False), 1, Cancellation()) as engine:
        found = list(engine.map(tasks.die_of_seven, [list(range(20))], isolate=True))

    # The first pool, one after the batch, one after each of the two crashes.
    assert (len(found), started) == (20, 4)
