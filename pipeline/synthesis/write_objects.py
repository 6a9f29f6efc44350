"""Synthetic images made and staged by the workers of a run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from medsanitize.pipeline.engines.worker import Worker
from medsanitize.pipeline.state.patients import Patient
from medsanitize.pipeline.state.records import seal_record
from medsanitize.pipeline.synthesis.draw import Draw, pixels_of
from medsanitize.release.atomic_io import storage_errors
from medsanitize.release.layout import part_path, staged_path
from medsanitize.release.multi_file_objects import parts_digest
from medsanitize.sanitize.result import CheckResult, FilePart, ObjectRecord, Outcome

if TYPE_CHECKING:
    from medsanitize.generators.export.provenance import SyntheticProvenance

FIRST_ROW: Final = 2**40
"""Rows of synthetic images come after those of any walk: class, then place among its draws."""
_PLACES: Final = 2**24
INSERT: Final = (
    "INSERT OR REPLACE INTO objects (id, size, stamp, kind, patient, study, sop, identified, outcome, staged,"
    " p_patient, p_study, p_series, p_instance, p_suffix, p_parts, bytes, sha256, native, source, payload)"
    " VALUES (?, ?, X'', ?, ?, ?, ?, 0, 'released', 1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
"""One synthetic image, staged."""


@dataclass(frozen=True, slots=True, repr=False)
class Item:
    """One image to stage: its draw, its pixels, and what is said of it."""

    draw: Draw
    pixels: bytes
    said: SyntheticProvenance

    def __repr__(self) -> str:
        return f"Item({self.draw.label}, {self.draw.index})"


@dataclass(frozen=True, slots=True)
class StagedImage:
    """Row of the object, its label, and row of its patient (name and value); all sealed."""

    row: tuple[object, ...]
    label: bytes
    patient: tuple[bytes, bytes]


def draw_batch(worker: Worker, part: Sequence[Draw]) -> bytes:
    """Pixels of some draws, one after another."""
    section = worker.setup.policy.synthesize
    if section is None:
        raise RuntimeError("nothing is to be drawn")
    return pixels_of(section.model, section.device, part)


def stage_batch(worker: Worker, items: Sequence[Item]) -> list[StagedImage]:
    """Write synthetic images to the staging folder, each in the policy's form."""
    return [_stage(worker, item) for item in items]


def _stage(worker: Worker, item: Item) -> StagedImage:
    import numpy as np
    from medsanitize.generators.export.dicom import MODALITIES, SOP_CLASSES, TRANSFER_SYNTAX, dicom_object
    from medsanitize.generators.export.png import png_object, sidecar
    from medsanitize.generators.export.provenance import synthetic_identifiers

    policy, said, seal = worker.setup.policy, item.said, worker.seal
    form = policy.synthesize.form if policy.synthesize else "png"
    one, side = item.draw, int(len(item.pixels) ** 0.5)
    names = synthetic_identifiers(
        worker.setup.subkeys, policy.pseudonyms, form, model=said.model, label=one.label, seed=one.seed
    )
    image = np.frombuffer(item.pixels, np.uint8).reshape(side, side)
    if form == "png":
        files = {".png": png_object(image), ".json": sidecar(said)}
    else:
        files = {".dcm": dicom_object(image, names, said, form)}
    suffix = next(iter(files))[1:]
    parts = tuple(FilePart(name, len(data), sha256(data).hexdigest()) for name, data in files.items())
    path = staged_path(names.patient, names.study, names.series, names.instance, suffix)
    for name, data in files.items():
        _write(worker, part_path(path, suffix, name), data)
    several = len(parts) > 1
    record = ObjectRecord(
        Outcome.RELEASED,
        "raster" if form == "png" else "dicom",
        patient=names.patient,
        study=names.study,
        series=names.series,
        instance=names.instance,
        modality=MODALITIES.get(form, ""),
        sop_class=SOP_CLASSES.get(form, ""),
        transfer_syntax="" if form == "png" else TRANSFER_SYNTAX,
        rows=side,
        columns=side,
        frames=1,
        pixels=CheckResult.NOT_RUN,
        parts=parts if several else (),
    )
    digest = parts_digest(parts) if several else parts[0].sha256
    size = sum(part.size for part in parts)
    patient = seal.name("patient", f"synthetic:{names.patient}")
    row = (
        FIRST_ROW + one.label * _PLACES + one.index,
        *(size, record.kind, patient, seal.name("study", names.study), seal.name("sop", names.instance)),
        *(names.patient, names.study, names.series, names.instance, suffix),
        "\n".join(part.name for part in parts[1:]),
        *(size, bytes.fromhex(digest), form != "png"),
        seal.close(b"", b"path"),
        seal_record(worker.seal, record),
    )
    value = Patient(f"synthetic:{names.patient}", "", "").sealed(seal)
    return StagedImage(row, seal.close(said.label.encode(), b"label"), (patient, value))


def _write(worker: Worker, path: str, data: bytes) -> None:
    staging = worker.setup.staging
    if staging is None:
        raise RuntimeError("there is nowhere to stage to")
    target = f"{staging}/{path}"
    with storage_errors():
        worker.ensure_folder(target.rpartition("/")[0])
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(target, flags, 0o644), "wb") as file:
            file.write(data)
