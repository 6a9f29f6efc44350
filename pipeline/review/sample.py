"""The sample for a person: selection of released objects, and a preview of each."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from medsanitize.pipeline.engines.base import Engine, WorkerCrashed
from medsanitize.pipeline.engines.worker import Worker
from medsanitize.pipeline.stages.second_review import draw_sample
from medsanitize.pipeline.state.database import State
from medsanitize.pipeline.state.decisions import changed_after_review, is_undecided, sample_candidates
from medsanitize.pipeline.state.judgments import has_judged
from medsanitize.pipeline.state.stage_results import SAMPLE_SEED
from medsanitize.pipeline.state.staged_objects import staged_path_of
from medsanitize.policies.model import Policy

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pydicom.dataset import Dataset

# Objects in the sample, and maximum number of objects that changed after a review.
SIZE = 24
_PREVIEW_EDGE = 512
_MAX_ROWS = 300
_MAX_VALUE_LENGTH = 160
_MAX_FRAME_BYTES = 2**28
_NO_PICTURE = "It has no image, or none that can be decoded."


@dataclass(frozen=True, slots=True, repr=False)
class ObjectPreview:
    """Preview of one released object: the middle frame (JPEG), and rows of its header.

    ``header`` rows are (depth, tag, name, VR, value); ``missing`` is the reason if there is no picture.
    """

    id: int
    path: str
    picture: bytes = b""
    missing: str = ""
    header: tuple[tuple[int, str, str, str, str], ...] = ()

    def __repr__(self) -> str:
        return f"ObjectPreview({self.id})"


def draw_review_sample(state: State, seed: str) -> list[int]:
    """Select the sample, without decided objects, then objects that changed after a review."""
    # A keyed mark as rank: reproducible, but not predictable without the key.
    drawn = heapq.nsmallest(SIZE, sample_candidates(state), key=lambda n: state.seal.mark(f"{seed}:{n}"))
    wanted = dict.fromkeys([*drawn, *changed_after_review(state, SIZE)])
    return [number for number in wanted if is_undecided(state, number)]


def sample_for(state: State, policy: Policy, ending: str, digest: str, reviewer: str) -> list[int]:
    """Return the sampled objects that a person has still to look at."""
    return not_looked_at(state, policy, drawn_sample(state, policy, ending, digest), reviewer)


def drawn_sample(state: State, policy: Policy, ending: str, digest: str) -> list[int]:
    """Return the sample that the policy requires, or else that of every review.

    None if the run was refused or published to a store, whose files are gone.
    """
    if ending == "refused" or (ending == "published" and not isinstance(policy.output, Path)):
        return []
    # Stored once, so that a new page shows the same sample.
    if not SAMPLE_SEED.is_stored(state):
        with state.transaction():
            SAMPLE_SEED.store(state, digest)
    approval = policy.release.approval
    if approval is None or not approval.share:
        return draw_review_sample(state, SAMPLE_SEED.load(state) or "")
    return draw_sample(state, approval)


def not_looked_at(state: State, policy: Policy, drawn: Sequence[int], reviewer: str) -> list[int]:
    """Return the objects of a sample that a person has not judged, or that nobody has decided on."""
    approval = policy.release.approval
    if approval is None or not approval.share:
        return [one for one in drawn if is_undecided(state, one)]
    return [one for one in drawn if not has_judged(state, one, reviewer)]


def preview_objects(state: State, engine: Engine, root: Path, numbers: Sequence[int]) -> list[ObjectPreview]:
    """Preview released objects below ``root``, each in a process that may crash."""
    items = [(number, staged_path_of(state, number), str(root)) for number in numbers]
    looks: list[ObjectPreview] = []
    batches = iter(items)
    for result in engine.map(preview_batch, iter(lambda: list(islice(batches, 4)), []), isolate=True):
        if isinstance(result, WorkerCrashed):
            number, path, _ = result.item
            looks.append(ObjectPreview(number, path, missing="The process that decoded its image crashed."))
        else:
            looks += result
    return looks


# -- in the workers -----------------------------------------------------------------------


def preview_batch(_: Worker, batch: Sequence[tuple[int, str, str]]) -> list[ObjectPreview]:
    """Preview a batch of released objects."""
    return [_preview_object(number, path, Path(root) / path) for number, path, root in batch]


def _preview_object(number: int, path: str, file: Path) -> ObjectPreview:
    header: tuple[tuple[int, str, str, str, str], ...] = ()
    try:
        if file.suffix == ".dcm":
            from pydicom import dcmread

            header = tuple(islice(header_rows(dcmread(file, defer_size=1024)), _MAX_ROWS))
            with file.open("rb") as opened:
                picture = _jpeg(*middle_frame(opened))
        else:
            picture = _thumbnail(file)
    except Exception:  # noqa: BLE001  decoders raise anything; the page shows that there is no picture
        return ObjectPreview(number, path, missing=_NO_PICTURE, header=header)
    return ObjectPreview(number, path, picture, header=header)


def header_rows(dataset: Dataset, depth: int = 0) -> Iterator[tuple[int, str, str, str, str]]:
    """Yield rows of a header, with sequences up to a depth of four."""
    for element in dataset:
        tag = f"({element.tag.group:04X},{element.tag.element:04X})"
        if element.VR == "SQ":
            yield depth, tag, element.name, "SQ", f"{len(element.value)} items"
            if depth < 3:
                for item in element.value:
                    yield from header_rows(item, depth + 1)
        elif element.VR in ("OB", "OW", "OF", "OD", "OL", "OV", "UN"):
            yield depth, tag, element.name, element.VR, "binary"
        else:
            many = element.VM > 1 and element.VR not in ("LT", "ST", "UT")
            text = "\\".join(map(str, element.value)) if many else str(element.value)
            yield (
                depth,
                tag,
                element.name,
                element.VR,
                text[:_MAX_VALUE_LENGTH] + ("…" if len(text) > _MAX_VALUE_LENGTH else ""),
            )


def middle_frame(opened: BinaryIO, index: int | None = None) -> tuple[NDArray[Any], bool]:
    """Return the samples of a frame, by default the middle one, and whether low values are shown white."""
    from medsanitize.verifiers.leaks.pixel_decoders import FRAME_HEADER_BYTES, decoding_plugin
    from pydicom import dcmread
    from pydicom.pixels.utils import pixel_array

    head = dcmread(opened, stop_before_pixels=True)
    start = opened.read(FRAME_HEADER_BYTES)
    samples = int(head.get("SamplesPerPixel", 1)) * int(head.Rows) * int(head.Columns)
    if samples > _MAX_FRAME_BYTES:
        raise ValueError("too large to show")
    plugin = decoding_plugin(str(head.file_meta.TransferSyntaxUID), int(head.BitsAllocated), start)
    middle = int(head.get("NumberOfFrames") or 1) // 2 if index is None else index
    opened.seek(0)
    frame = pixel_array(opened, index=middle, decoding_plugin=plugin)
    if head.PhotometricInterpretation == "PALETTE COLOR":
        from pydicom.pixels.processing import apply_color_lut

        frame = apply_color_lut(frame, head)
    return frame, head.PhotometricInterpretation == "MONOCHROME1"


def _jpeg(frame: NDArray[Any], inverted: bool) -> bytes:
    """Scale a frame to 8 bits between its 0.5 and 99.5 percentiles, at most 512 pixels wide and high."""
    import numpy as np
    from PIL import Image

    samples = frame.astype(np.float32)
    low, high = (0.0, 255.0) if frame.dtype == np.uint8 else np.percentile(samples, (0.5, 99.5))
    shown = np.clip((samples - low) * (255.0 / max(float(high - low), 1e-6)), 0, 255).astype(np.uint8)
    return _encoded(Image.fromarray(255 - shown if inverted else shown))


def _thumbnail(file: Path) -> bytes:
    from PIL import Image

    with Image.open(file) as image:
        if image.width * image.height > _MAX_FRAME_BYTES:
            raise ValueError("too large to show")
        return _encoded(image.convert("RGB"))


def _encoded(image: Any) -> bytes:
    image.thumbnail((_PREVIEW_EDGE, _PREVIEW_EDGE))
    stream = BytesIO()
    image.save(stream, "JPEG", quality=82)
    return stream.getvalue()
