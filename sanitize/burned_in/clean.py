"""Burned-in text of one object: every frame is read, what identifies is blanked, the result read again."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from medsanitize.sanitize.burned_in.areas import RepeatedAreas, covered_fraction, is_inside, merge_areas
from medsanitize.sanitize.burned_in.boxes import TextBox, area_to_blank
from medsanitize.sanitize.burned_in.classify import LEGIBLE
from medsanitize.sanitize.burned_in.ocr import TextReader
from medsanitize.sanitize.burned_in.read_frames import FrameTextReader, Lanes
from medsanitize.sanitize.burned_in.rendering import Palette, Picture, render_frame
from medsanitize.sanitize.burned_in.review_images import MOST, ReviewImages, residual_text_item
from medsanitize.sanitize.burned_in.write_back import (
    NotEditableInPlace,
    color_model,
    decompress_and_blank,
    edit_in_place,
)
from medsanitize.sanitize.context import ReviewDecision
from medsanitize.sanitize.formats.dicom.decode import Samples, decode_frame
from medsanitize.sanitize.formats.dicom.frames import StoredFrames
from medsanitize.sanitize.formats.dicom.image_pixel import Area, Geometry
from medsanitize.sanitize.formats.dicom.transfer_syntax import TransferSyntax
from medsanitize.sanitize.quarantine import Quarantined
from medsanitize.sanitize.result import ReviewItem

Judge = Callable[[tuple[TextBox, ...]], tuple[TextBox, ...]]
"""Of the lines found in one picture, those that identify somebody."""

_PLACE = re.compile(r"pixels(?:/frame (\d{1,9})(?:/box (\d{1,9}),(\d{1,9}),(\d{1,9}),(\d{1,9}))?)?")
_SAME = 0.7
_FEW = 3
_SOMETHING = 0.5
_SURE = 0.9


@dataclass(frozen=True, slots=True)
class ImageFrames:
    """The frames of one object and how they are shown."""

    stored: StoredFrames
    syntax: TransferSyntax
    geometry: Geometry
    palette: Palette | None = None

    @property
    def darkest(self) -> int | None:
        """The index of the palette's darkest colour."""
        return self.palette.darkest() if self.palette else None

    def samples(self, frame: bytes) -> Samples:
        """The samples of one frame as it is stored."""
        return decode_frame(frame, self.syntax, self.geometry)

    def pictures(self, samples: Samples, frame: bytes) -> list[Picture]:
        """Renderings of samples that came from (or take the place of) ``frame``."""
        return render_frame(
            samples, self.geometry, color_model(frame, self.syntax, self.geometry), self.palette
        )


@dataclass(frozen=True, slots=True)
class CleaningOptions:
    """What is to be blanked.

    ``judge`` picks what identifies; ``everything``: all text goes; ``fixed`` areas go whatever is
    there. ``decisions`` are the review's on this object.
    """

    judge: Judge
    everything: bool = False
    fixed: tuple[Area, ...] = ()
    decisions: tuple[ReviewDecision, ...] = ()


@dataclass(frozen=True, slots=True)
class CleanedFrames:
    """What became of the frames.

    ``regions``: number of different areas blanked; 0: nothing was changed. ``frames`` is set when the
    object was decompressed: its native frames, of ``model`` and ``precision`` bits.
    """

    regions: int
    doubts: tuple[ReviewItem, ...]
    frames: tuple[bytes, ...] = ()
    model: str = ""
    precision: int = 0


def clean_frames(
    image: ImageFrames, order: CleaningOptions, reader: TextReader, *, decompress: bool, most_bytes: int
) -> CleanedFrames:
    """Read, blank, read again. Frames that change are put into ``image.stored``.

    Parameters
    ----------
    image : Image
    order : Order
    reader : TextReader
    decompress : bool
        Whether an object with a frame that cannot be edited may be decompressed.
    most_bytes : int
        Largest decompressed object.

    Raises
    ------
    Refused
        ``burned-in-text-remains``, ``pixels-undecodable``, ``pixels-not-rewritten``, ``lossy-pixels``,
        ``pixels-too-large`` or ``refused-in-review``.
    """
    job = _FrameCleaner(image, order, reader, *_decided(order.decisions))
    job.look()
    if not job.any_area():
        return CleanedFrames(0, job.doubts.made(lambda _: None))
    try:
        for index in range(image.geometry.frames):
            new = job.rewritten(index, lambda frame, areas: (*_edited(image, frame, areas), 0))
            if new is not None:
                image.stored.put(index, new[0])
        return CleanedFrames(len(job.used), job.doubts.made(job.after))
    except NotEditableInPlace:
        if not decompress:
            raise Quarantined("lossy-pixels", "pixels") from None
    return _all_decompressed(job, most_bytes)


def _edited(image: ImageFrames, frame: bytes, areas: Sequence[Area]) -> tuple[bytes, Samples]:
    return edit_in_place(frame, areas, image.syntax, image.geometry, image.darkest)


def _all_decompressed(job: _FrameCleaner, most_bytes: int) -> CleanedFrames:
    """Every frame as plain samples, since one object has one transfer syntax."""
    image = job.image
    size = image.geometry.frame_bits // 8 * image.geometry.frames
    if size > most_bytes:
        raise Quarantined("pixels-too-large", "pixels")
    job.used.clear()
    frames: list[bytes] = []
    models, precision = set(), 0

    def write(frame: bytes, areas: Sequence[Area]) -> tuple[bytes, Samples, int]:
        return decompress_and_blank(frame, areas, image.syntax, image.geometry, image.darkest)

    for index in range(image.geometry.frames):
        frame = image.stored.frame(index)
        new = job.rewritten(index, write) or write(frame, ())
        frames.append(new[0])
        precision = max(precision, new[2])
        models.add(color_model(frame, image.syntax, image.geometry))
    if len(models) != 1:
        raise Quarantined("pixels-not-rewritten", "pixels")
    return CleanedFrames(len(job.used), job.doubts.made(job.after), tuple(frames), models.pop(), precision)


@dataclass(slots=True)
class _FrameCleaner:
    """One object on its way through the two readings."""

    image: ImageFrames
    order: CleaningOptions
    reader: TextReader
    kept: tuple[Area, ...]
    added: dict[int, list[Area]]
    everything: bool
    own: list[tuple[Area, ...]] = field(default_factory=list)
    plain: list[tuple[TextBox, ...]] = field(default_factory=list)
    repeated: RepeatedAreas = field(default_factory=RepeatedAreas)
    used: set[Area] = field(default_factory=set)
    doubts: ReviewImages = field(default_factory=ReviewImages)
    shown: dict[int, Picture] = field(default_factory=dict)
    checks: FrameTextReader | None = None
    judged: dict[tuple[TextBox, ...], tuple[TextBox, ...]] = field(default_factory=dict)
    seen_near: dict[tuple[TextBox, ...], tuple[TextBox, ...]] = field(default_factory=dict)

    def look(self) -> None:
        """The first reading: what is blanked in each frame by what stands there."""
        readings = FrameTextReader(self.reader)
        for index in range(self.image.geometry.frames):
            frame = self.image.stored.frame(index)
            pictures = self.image.pictures(self.image.samples(frame), frame)
            lanes = readings.read(pictures)
            chosen = self.chosen(lanes)
            if not (self.order.everything or self.everything):
                shown = enumerate(zip(pictures, lanes, strict=True))
                near = [self.beside(*one, chosen, first=not number) for number, one in shown]
                chosen += [box for boxes in near for box in boxes if not self.is_kept(box)]
            asked = [TextBox(*area, "", 0.0) for area in self.added.get(index, [])]
            areas = [self.grown(box) for box in (*chosen, *asked)]
            self.own.append(merge_areas(areas))
            stay = (box for lane in lanes for box in lane if box not in chosen and box.score >= LEGIBLE)
            self.plain.append(tuple(stay))
            for picture, lane in zip(pictures, lanes, strict=True):
                for box in lane:
                    self.doubts.note(index + 1, box, picture, blanked=box in chosen)
            if self.image.geometry.frames > 1 and pictures:
                for area in self.own[-1]:
                    self.repeated.add(area, pictures[0])

    def beside(
        self, picture: Picture, lane: tuple[TextBox, ...], lines: Sequence[TextBox], *, first: bool
    ) -> list[TextBox]:
        """What goes with those of ``lines`` that are of ``lane``, and was not seen at the first look.

        Unsure letters are taken from the ``first`` rendering alone: others bring out the grain of the image.
        """
        chosen = tuple(box for box in lane if box in lines)
        near = self.near(picture, chosen) if chosen else ()
        new = tuple(box for box in near if not any(is_inside(_bounds(box), self.grown(one)) for one in lane))
        new = tuple(box for box in new if first or not _is_speck(box))
        identify = set(self.judge(lane + new))
        touched = [self.grown(box) for box in (*chosen, *new) if box in identify]
        return [box for box in new if box in identify or _is_scrap(box, touched)]

    def near(self, picture: Picture, chosen: tuple[TextBox, ...]) -> tuple[TextBox, ...]:
        """All that is read around ``chosen``, once for the same lines."""
        if chosen not in self.seen_near:
            self.seen_near[chosen] = self.reader.read_closely(picture, chosen)
        return self.seen_near[chosen]

    def any_area(self) -> bool:
        """Whether anything is to be blanked in any frame."""
        return bool(self.order.fixed) or any(self.own)

    def chosen(self, lanes: Lanes) -> list[TextBox]:
        """The lines to blank: all, or those that identify, less those that the review keeps.

        What was read with certainty as the frame is shown first is not judged by another rendering, and
        another in which nothing but a few unsure letters identifies shows the grain of the image.
        """
        if self.order.everything or self.everything:
            return [box for lane in lanes for box in lane if not self.is_kept(box)]
        found: list[TextBox] = []
        sure: list[Area] = []
        for number, lane in enumerate(lanes):
            mine = self.judge(lane)
            if number and all(_is_speck(box) for box in mine):
                continue
            found += [
                box for box in mine if not any(covered_fraction(_bounds(box), area) >= _SAME for area in sure)
            ]
            sure += [_bounds(box) for box in lane if box not in mine and box.score >= _SURE]
        return [box for box in found if not self.is_kept(box)]

    def judge(self, lane: tuple[TextBox, ...]) -> tuple[TextBox, ...]:
        """`Order.judge`, remembered: frames of a loop say the same over and over."""
        known = self.judged.get(lane)
        if known is None:
            known = self.judged[lane] = self.order.judge(lane)
        return known

    def is_kept(self, box: TextBox) -> bool:
        """Whether the review decided that the line stays."""
        return any(covered_fraction(_bounds(box), area) >= _SAME for area in self.kept)

    def grown(self, box: TextBox) -> Area:
        """The area to blank for a line."""
        return _bounds(area_to_blank(box, (self.image.geometry.rows, self.image.geometry.columns)))

    def rewritten(
        self, index: int, write: Callable[[bytes, Sequence[Area]], tuple[bytes, Samples, int]]
    ) -> tuple[bytes, Samples, int] | None:
        """The frame with its areas blanked and read again; ``None`` when it has none."""
        image = self.image
        frame = image.stored.frame(index)
        before: list[Picture] = []
        areas = [*self.order.fixed, *self.own[index]]
        if image.geometry.frames > 1 or areas:
            before = image.pictures(image.samples(frame), frame)
        if image.geometry.frames > 1 and before:
            areas += self.repeated.seen_in(before[0])
        if not areas:
            return None
        self.checks = self.checks or FrameTextReader(self.reader)
        for _ in range(2):
            areas = list(merge_areas(areas))
            new = write(frame, areas)
            pictures = image.pictures(new[1], frame)
            # Where all is of one value now, a line was carried over from the frame read before.
            found = self.left(index, self.checks.read(pictures))
            left = [box for box in found if not any(is_inside(_bounds(box), area) for area in areas)]
            if not left:
                self.used.update(areas)
                if before:
                    self.doubts.show(index + 1, before[0])
                if pictures and len(self.shown) < MOST:
                    self.shown[index + 1] = pictures[0]
                return new
            shape = (image.geometry.rows, image.geometry.columns)
            areas += [_bounds(area_to_blank(area_to_blank(box, shape), shape)) for box in left]
        shown = residual_text_item(index + 1, left, before[0], pictures[0]) if before else ()
        raise Quarantined("burned-in-text-remains", "pixels", shown)

    def left(self, index: int, lanes: Lanes) -> list[TextBox]:
        """What still identifies after blanking.

        A line that was found harmless is not, though it be illegible, or read in part, once the range of the
        frame is another.
        """
        return [
            box
            for lane in lanes
            for box in self.judge(lane)
            if not self.is_kept(box) and not self.was_plain(index, box)
        ]

    def was_plain(self, index: int, box: TextBox) -> bool:
        """Whether the first look read a harmless line where ``box`` is, of which it shows no more."""
        return any(
            covered_fraction(_bounds(box), _bounds(line)) >= _SAME
            and (box.score < LEGIBLE or _is_part(box, line))
            for line in self.plain[index]
        )

    def after(self, number: int) -> Picture | None:
        """A frame (from 1) as it will be released."""
        return self.shown.get(number)


def _bounds(box: TextBox) -> Area:
    return box.left, box.top, box.right, box.bottom


def _is_speck(box: TextBox) -> bool:
    """Whether a few letters at most were read here, and not for sure."""
    return sum(letter.isalnum() for letter in box.text) <= _FEW and box.score < _SURE


def _is_part(box: TextBox, line: TextBox) -> bool:
    """Whether the letters of a box are some of those that were read in a line for sure, one after another."""
    part, whole = ("".join(filter(str.isalnum, one.text)).casefold() for one in (box, line))
    return line.score >= _SURE and part in whole


def _is_scrap(box: TextBox, areas: Sequence[Area]) -> bool:
    """Whether a box holds a few letters at most and touches one of the areas."""
    few = sum(letter.isalnum() for letter in box.text) <= _FEW and box.score >= _SOMETHING
    return few and any(covered_fraction(_bounds(box), area) > 0 for area in areas)


def _decided(decisions: Sequence[ReviewDecision]) -> tuple[tuple[Area, ...], dict[int, list[Area]], bool]:
    """The review's word: areas to keep, areas to blank by frame, and whether all text goes."""
    kept: list[Area] = []
    added: dict[int, list[Area]] = {}
    everything = False
    for decision in decisions:
        found = _PLACE.fullmatch(decision.place)
        if found is None:
            continue
        if decision.verdict == "quarantine":
            raise Quarantined("refused-in-review", "pixels")
        frame, *bounds = found.groups()
        if bounds[0] is None:
            everything = everything or decision.verdict == "blank"
            continue
        area = (int(bounds[0]), int(bounds[1]), int(bounds[2]), int(bounds[3]))
        if decision.verdict == "keep":
            kept.append(area)
        else:
            added.setdefault(int(frame) - 1, []).append(area)
    return tuple(kept), added, everything
