"""A site says how many of its images take no part."""

from __future__ import annotations

from pathlib import Path

import pytest
from medsanitize.federation.training.site_images import images_read
from medsanitize.generators.phantoms.cohorts import write_chests
from medsanitize.progress import Cancellation, NoProgress
from medsanitize.verifiers.reid.images.image import Modality
from medsanitize.verifiers.reid.labels import LabelColumns, read_labels

pytestmark = [pytest.mark.federated, pytest.mark.verify]


class Told(NoProgress):
    def __init__(self) -> None:
        self.messages: list[str] = []

    def message(self, text: str) -> None:
        self.messages.append(text)


def test_images_that_cannot_be_read_are_counted(tmp_path: Path) -> None:
    table, told = write_chests(tmp_path, range(3), visits=(2, 2), size=64), Told()
    labels = read_labels(table, table.parent, LabelColumns()).of_kind(Modality.RADIOGRAPH)
    labels.paths[0].write_bytes(b"no image")

    examples = images_read(labels, told, Cancellation())

    assert len(examples) == 5
    assert [message.startswith("Left out: 1 images") for message in told.messages] == [True]
