"""Tasks of the workers of a run that generate and stage synthetic images."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from medsanitize.pipeline.engines.worker import Worker
from medsanitize.pipeline.state.patients import Patient
from medsanitize.pipeline.state.records import seal_record
from medsanitize.pipeline.state.synthetics import SyntheticRow
from medsanitize.pipeline.synthesis.draw import SampleRequest, generate_pixels
from medsanitize.pipeline.synthesis.text_search import without_text
from medsanitize.release.atomic_io import storage_errors
from medsanitize.release.layout import part_path, staged_path
from medsanitize.release.multi_file_objects import parts_digest
from medsanitize.sanitize.result import CheckResult, FilePart, ObjectRecord, Outcome

if TYPE_CHECKING:
    import numpy as np
    from medsanitize.generators.export.provenance import SyntheticProvenance
    from numpy.typing import NDArray

FIRST_ROW: Final = 2**40
"""First row number of synthetic images, above those of any inventory; class and index follow."""
_PLACES: Final = 2**24


@dataclass(frozen=True, slots=True, repr=False)
class ExportItem:
    """An image to stage: its request, its pixels and its provenance."""

    draw: SampleRequest
    pixels: bytes
    said: SyntheticProvenance

    def __repr__(self) -> str:
        return f"ExportItem({self.draw.label}, {self.draw.index})"


def generate_batch(worker: Worker, part: Sequence[SampleRequest]) -> bytes:
    """Generate the pixels of requests, concatenated."""
    section = worker.setup.policy.synthesize
    if section is None:
        raise RuntimeError("nothing is to be drawn")
    return generate_pixels(section.model, section.device, part)


def stage_batch(worker: Worker, items: Sequence[ExportItem]) -> list[SyntheticRow]:
    """Write synthetic images to the staging folder, in the policy's file format.

    Images with text that cannot be blanked are left out.
    """
    return [row for item in items if (row := _stage(worker, item)) is not None]


def _stage(worker: Worker, item: ExportItem) -> SyntheticRow | None:
    from medsanitize.generators.export.dicom import MODALITIES, SOP_CLASSES, TRANSFER_SYNTAX, dicom_object
    from medsanitize.generators.export.png import png_object, sidecar
    from medsanitize.generators.export.provenance import synthetic_identifiers

    policy, said, seal = worker.setup.policy, item.said, worker.seal
    form = policy.synthesize.form if policy.synthesize else "png"
    one, side = item.draw, int(len(item.pixels) ** 0.5)
    names = synthetic_identifiers(
        worker.setup.subkeys, policy.pseudonyms, form, model=said.model, label=one.label, seed=one.seed
    )
    searched = _searched(worker, item.pixels, side)
    if searched is None:
        return None
    image, regions, result = searched
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
        rules={"C:burned-in-text": regions} if regions else {},
        pixels=result,
        pixel_regions_cleaned=regions,
        parts=parts if several else (),
    )
    digest = parts_digest(parts) if several else parts[0].sha256
    size = sum(part.size for part in parts)
    return SyntheticRow(
        id=FIRST_ROW + one.label * _PLACES + one.index,
        size=size,
        kind=record.kind,
        patient=seal.name("patient", f"synthetic:{names.patient}"),
        study=seal.name("study", names.study),
        sop=seal.name("sop", names.instance),
        names=(names.patient, names.study, names.series, names.instance, suffix),
        parts="\n".join(part.name for part in parts[1:]),
        sha256=bytes.fromhex(digest),
        native=form != "png",
        source=seal.close(b"", b"path"),
        payload=seal_record(worker.seal, record),
        label=seal.close(said.label.encode(), b"label"),
        sealed_patient=Patient(f"synthetic:{names.patient}", "", "").sealed(seal),
    )


def _searched(worker: Worker, pixels: bytes, side: int) -> tuple[NDArray[np.uint8], int, CheckResult] | None:
    """Blank burned-in text, which a generator can learn from its images; None if that is impossible."""
    import numpy as np

    image = np.frombuffer(pixels, np.uint8).reshape(side, side)
    if not worker.setup.policy.dicom.options.clean_pixel_data:
        return image, 0, CheckResult.NOT_RUN
    found = without_text(worker.raster_sanitizer, image)
    return None if found is None else (*found, CheckResult.PASSED)


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
