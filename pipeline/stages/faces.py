"""The stage faces: decides for each series of CT, MR and PET, as a whole, whether it may show a face.

It runs with the inventory, so that all shards and all objects of a frame of reference use the same verdict.
Verdicts and cuts are stored encrypted.
"""

from __future__ import annotations

import json
import mmap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any, ClassVar

from medsanitize.errors import EnvironmentFailure
from medsanitize.pipeline.engines.base import Engine, WorkerCrashed
from medsanitize.pipeline.engines.worker import Worker
from medsanitize.pipeline.runtime.encryption import Seal
from medsanitize.pipeline.stages.stage import Advance, GateInput, Phase, RunContext, Stage
from medsanitize.pipeline.stages.tally import Tally
from medsanitize.pipeline.state.database import State
from medsanitize.pipeline.state.series import (
    SeriesOfObject,
    SliceRow,
    count_slices,
    cuts_of_frame,
    face_of_series,
    join_small_series,
    pending_series,
    pending_slices,
    series_of,
    store_face,
)
from medsanitize.pipeline.state.stage_results import FACES_JUDGED, SMALL_SERIES_JOINED
from medsanitize.pipeline.storage.sources import SourceProblem, open_source
from medsanitize.policies.model import FacesAction
from medsanitize.release.summary import GateSummary, gate_of_check
from medsanitize.sanitize.context import SeriesFace
from medsanitize.sanitize.faces.slice_geometry import (
    LEAST_SLICES,
    Plane,
    could_show_face,
    read_plane,
    sort_into_stacks,
)

if TYPE_CHECKING:
    from medsanitize.sanitize.faces.frame_geometry import FramePlane
    from medsanitize.sanitize.faces.read_header import SliceHeader

MAX_SLICES = 30_000
"""Maximum number of objects that are read per series; a larger one is not a series of one head."""
_UNDECODABLE = (ArithmeticError, AttributeError, LookupError, OSError, RuntimeError, TypeError, ValueError)


@dataclass(frozen=True, slots=True, repr=False)
class Slice:
    """An object of a series: its source, and its plane if it is a single slice with a stated position."""

    path: bytes
    stamp: bytes
    plane: Plane | None
    frames: int
    rows: int
    columns: int

    def __repr__(self) -> str:
        return "Slice(...)"


@dataclass(frozen=True, slots=True, repr=False)
class Series:
    """A series to judge; ``elsewhere`` if every header names another body part."""

    name: bytes
    modality: str
    elsewhere: bool
    slices: tuple[Slice, ...]

    def __repr__(self) -> str:
        return f"Series({len(self.slices)})"


@dataclass(frozen=True, slots=True)
class FacesStage(Stage):
    """Judge which series of CT, MR and PET may show a face."""

    action: FacesAction

    name: ClassVar = "faces"
    phase: ClassVar[Phase] = "inventory"
    in_plan: ClassVar = True
    invalidated_by: ClassVar = frozenset({"inventory", "resolve"})

    def pending(self, state: State) -> int | None:
        """Return the number of slices; 0 if faces are ignored or every series is judged."""
        done = not judges_faces(self.action) or FACES_JUDGED.is_set(state)
        return 0 if done else count_slices(state)

    def run(self, context: RunContext, advance: Advance) -> None:
        """Judge every series that has no verdict yet."""
        judge_faces(context.state, context.engine, advance)

    def gates(self, judged: GateInput) -> tuple[GateSummary, ...]:
        """Decide the gate ``faces``."""
        return (faces_gate(judged.tally, self.action),)


def faces_gate(tally: Tally, action: FacesAction) -> GateSummary:
    """Decide the gate ``faces`` from the checks of the released objects."""
    results = tally.checks["faces"]
    shown, unread = results["flagged"], results["not_run"]
    told = []
    if not judges_faces(action):
        told.append("The policy does not look for faces.")
    elif action == "deface" and results["passed"]:
        told.append("Where a face could be rendered, it was removed from the pixels.")
    if shown:
        told.append(f"{shown} released objects may show a face.")
    if unread:
        told.append(f"{unread} released objects that may show a face were not checked.")
    nobody = "No released object is of a kind that may show a face."
    return gate_of_check("faces", results, " ".join(told), unconcerned=nobody)


def judges_faces(action: FacesAction) -> bool:
    """Whether the policy requires a face check."""
    return action != "ignore"


def slice_row(seal: Seal, number: int, patient: bytes, study: bytes, header: SliceHeader) -> SliceRow:
    """Build the row that the inventory stores for an object that may be part of a head.

    Parameters
    ----------
    seal : Seal
        Encrypts values and names rows.
    number : int
        Row number of the object.
    patient, study : bytes
        Keyed names.
    header : SliceHeader
        The attributes that were read from the object.
    """
    whose, where = patient.hex(), study.hex()
    # Without a UID the study takes its place: slices must not escape a joint verdict by an incomplete header.
    frame = header.frame_of_reference or f"study {where}"
    series = header.series or f"study {where}"
    return (
        number,
        seal.name("series", whose, series),
        seal.name("frame of reference", whose, frame),
        header.frames,
        int(header.projection),
        seal.close(header.geometry().encode(), b"slice"),
    )


def judge_faces(state: State, engine: Engine, on_objects: Advance = lambda _: None) -> None:
    """Judge every series that has no verdict yet; verdicts are stored as they arrive.

    Parameters
    ----------
    state : State
        The state of the run, after the inventory.
    engine : Engine
        Calls the workers.
    on_objects : callable
        Receives the number of slices of each series.
    """
    _join_small_series(state)
    for result in engine.map(judge_batch, _series_to_decode(state, on_objects), isolate=True):
        # Fail closed: pixels that crash a decoder may show a face.
        if isinstance(result, WorkerCrashed):
            series: Series = result.item
            store_face(state, series.name, SeriesFace("uncut"))
            on_objects(len(series.slices))
        else:
            for name, count, face in result:
                store_face(state, name, face)
                on_objects(count)
        state.count_written(1)
    FACES_JUDGED.set(state)
    state.commit()


def faces_of(state: State, action: FacesAction) -> Callable[[int], SeriesFace | None]:
    """Return a function that maps an object's row number to the verdict on its series.

    Parameters
    ----------
    state : State
        The state of the run, after the stage.
    action : str
        The policy's action for faces.

    Returns
    -------
    callable
        Returns None for an object that is no slice, and for all objects if faces are ignored.
    """
    if not judges_faces(action):
        return lambda _: None
    cutting = action == "deface"
    remembered: dict[bytes, SeriesFace] = {}

    def face(number: int) -> SeriesFace | None:
        found = series_of(state, number)
        if found is None:
            return None
        if found.projection:
            return SeriesFace("projection")
        # Only the last series is remembered, so memory does not grow with the inventory.
        if found.series not in remembered:
            remembered.clear()
            remembered[found.series] = _face_of(state, found, cutting)
        return remembered[found.series]

    return face


def _face_of(state: State, found: SeriesOfObject, cutting: bool) -> SeriesFace:
    face = face_of_series(state, found.series)
    if face is None:
        return SeriesFace("uncut")
    if not cutting or face.verdict == "uncut":
        return SeriesFace(face.verdict)
    # A sagittal localizer of three images is too small for a cut, but shows the profile of the same head.
    return face if face.cuts else SeriesFace(face.verdict, cuts_of_frame(state, found.frame_of_reference))


def _join_small_series(state: State) -> None:
    """Join series with too few slices, by frame of reference."""
    if SMALL_SERIES_JOINED.is_set(state):
        return
    with state.transaction():
        join_small_series(state, LEAST_SLICES)
        SMALL_SERIES_JOINED.set(state)


def _series_to_decode(state: State, on_objects: Callable[[int], None]) -> Iterator[Sequence[Series]]:
    """Store the verdicts that geometry gives, and yield the series whose pixels must be read."""
    for name in pending_series(state):
        series = _series(state, name)
        settled = None if series is None else _judge_by_geometry(series)
        if series is None or settled is not None:
            store_face(state, name, settled or SeriesFace("none"))
            on_objects(len(series.slices) if series else 0)
        else:
            yield (series,)


def _series(state: State, name: bytes) -> Series | None:
    """Return the pending objects of a series, or None."""
    stored = pending_slices(state, name, MAX_SLICES + 1)
    if not stored:
        return None
    slices, modalities, elsewhere = [], set(), True
    for one in stored:
        modality, height, width, frames, numbers, away = json.loads(one.geometry)
        position, orientation, spacing = numbers
        plane = read_plane(position, orientation, spacing, height, width) if frames == 1 else None
        slices.append(Slice(one.path, one.stamp, plane, frames, height, width))
        modalities.add(modality)
        elsewhere = elsewhere and away
    modality = "CT" if modalities == {"CT"} else "PT" if modalities == {"PT"} else "MR"
    return Series(name, modality, elsewhere, tuple(slices))


def _judge_by_geometry(series: Series) -> SeriesFace | None:
    """Return the verdict that follows from geometry only, or None."""
    if len(series.slices) > MAX_SLICES:
        return SeriesFace("uncut")
    if any(one.plane is None for one in series.slices):
        several = sum(one.frames for one in series.slices) >= LEAST_SLICES
        return None if several else SeriesFace("none")
    planes = [one.plane for one in series.slices if one.plane is not None]
    if any(could_show_face([planes[i] for i in stack]) for stack in sort_into_stacks(planes)):
        return None
    return SeriesFace("none")


# -- in the workers -----------------------------------------------------------------------


def judge_batch(worker: Worker, batch: Sequence[Series]) -> list[tuple[bytes, int, SeriesFace]]:
    """Judge series by their pixels; a series that cannot be read or decoded may show a face."""
    return [(series.name, len(series.slices), _judge(worker, series)) for series in batch]


def _judge(worker: Worker, series: Series) -> SeriesFace:
    from medsanitize.sanitize.faces.frame_geometry import UnreadableSlice
    from medsanitize.sanitize.faces.series import assess_series

    try:
        reader = _Reader(worker, series)
        return assess_series(
            reader.planes,
            reader.image,
            reader.modality,
            elsewhere=series.elsewhere,
            cutting=worker.setup.policy.pixels.faces == "deface",
        )
    except (SourceProblem, UnreadableSlice):
        return SeriesFace("uncut")
    except EnvironmentFailure:
        raise
    except Exception:  # noqa: BLE001  a defect must neither release a face nor stop the run
        return SeriesFace("uncut")


class _Reader:
    """The frames of a series, one object open at a time."""

    def __init__(self, worker: Worker, series: Series) -> None:
        self._worker = worker
        self._slices = series.slices
        self._open: tuple[int, Any, list[FramePlane]] | None = None
        self._frames: list[tuple[int, int]] = []
        self.planes: list[Plane | None] = []
        scaled = True
        for number, one in enumerate(series.slices):
            if one.plane is not None and number:
                self._add(number, [one.plane])
                continue
            places = self._read(number)[1]
            scaled = scaled and all(at.rescale is not None for at in places)
            self._add(number, [at.plane for at in places])
        # Without rescale values a CT is not in HU, so thresholds for HU do not apply.
        self.modality = series.modality if series.modality != "CT" or scaled else "MR"

    def _add(self, number: int, planes: Sequence[Plane | None]) -> None:
        self.planes += planes
        self._frames += [(number, frame) for frame in range(len(planes))]

    def image(self, index: int) -> Any:
        """Return the values of one frame as float32, rescaled if the object states how."""
        import numpy as np
        from medsanitize.sanitize.faces.frame_geometry import UnreadableSlice
        from medsanitize.verifiers.leaks.pixel_decoders import FRAME_HEADER_BYTES, decoding_plugin
        from pydicom import pixels

        number, frame = self._frames[index]
        dataset, places = self._read(number)
        one = self._slices[number]
        try:
            plugin = decoding_plugin(
                str(dataset.file_meta.TransferSyntaxUID),
                int(dataset.BitsAllocated),
                bytes(dataset.PixelData[:FRAME_HEADER_BYTES]),
            )
            place = frame if one.frames > 1 else None
            stored = pixels.pixel_array(dataset, index=place, decoding_plugin=plugin)  # type: ignore[attr-defined]
        except _UNDECODABLE:
            raise UnreadableSlice from None
        if stored.shape != (one.rows, one.columns):
            raise UnreadableSlice
        values = np.asarray(stored, np.float32)
        rescale = places[frame].rescale
        return values if rescale is None else values * np.float32(rescale[0]) + np.float32(rescale[1])

    def _read(self, number: int) -> tuple[Any, list[FramePlane]]:
        """Return one object and the planes of its frames."""
        from medsanitize.sanitize.faces.frame_geometry import UnreadableSlice, read_frame_planes
        from pydicom import dcmread
        from pydicom.uid import ImplicitVRLittleEndian

        if self._open is None or self._open[0] != number:
            self._open = None
            one = self._slices[number]
            with open_source(one.path, self._worker.seal, one.stamp) as content:
                source: Any = content if isinstance(content, mmap.mmap) else BytesIO(content)
                try:
                    dataset = dcmread(source, force=True)
                    if "TransferSyntaxUID" not in dataset.file_meta:
                        dataset.file_meta.TransferSyntaxUID = ImplicitVRLittleEndian
                except (*_UNDECODABLE, EOFError):
                    raise UnreadableSlice from None
            self._open = (number, dataset, read_frame_planes(dataset))
        return self._open[1:]
