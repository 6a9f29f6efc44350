"""Cleaning of burned-in text: read all frames, blank identifying text, read the result again."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from medsanitize.sanitize.burned_in.areas import RepeatedAreas, covered_fraction, is_inside, merge_areas
from medsanitize.sanitize.burned_in.boxes import TextBox, area_to_blank
from medsanitize.sanitize.burned_in.classify import LEGIBLE
from medsanitize.sanitize.burned_in.codes import find_codes
from medsanitize.sanitize.burned_in.ocr import TextReader
from medsanitize.sanitize.burned_in.read_frames import FrameTextReader, Lanes
from medsanitize.sanitize.burned_in.rendering import Palette, Picture, render_frame
from medsanitize.sanitize.burned_in.review_images import MOST, ReviewImages, residual_text_item
from medsanitize.sanitize.burned_in.strokes import StrokeLine, find_lines
from medsanitize.sanitize.burned_in.unread import unread_areas
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

Confirm = Callable[[TextBox, Picture], bool]
"""Whether a second reader reads the same in a rendering."""

Judge = Callable[[tuple[TextBox, ...]], tuple[TextBox, ...]]
"""Returns those of the lines of one rendering that identify a person."""

_LOCATION = re.compile(r"pixels(?:/frame (\d{1,9})(?:/box (\d{1,9}),(\d{1,9}),(\d{1,9}),(\d{1,9}))?)?")
# Covered fraction from which two boxes are one line.
_SAME = 0.7
# Most letters of a fragment, and its least certainty.
_FEW = 3
_SOMETHING = 0.5
# Least letters of unread text in a rendering that amplifies noise.
_SEVERAL = 6
# Largest part of a frame that is blanked as unread text: more may be anatomy.
_MOST_UNREAD = 0.4
# Certainty from which a line is read beyond doubt.
_SURE = 0.9


@dataclass(frozen=True, slots=True)
class ImageFrames:
    """The frames of one object and how to render them."""

    stored: StoredFrames
    syntax: TransferSyntax
    geometry: Geometry
    palette: Palette | None = None

    @property
    def darkest(self) -> int | None:
        """Index of the darkest color of the palette."""
        return self.palette.darkest() if self.palette else None

    def samples(self, frame: bytes) -> Samples:
        """Decode one stored frame."""
        return decode_frame(frame, self.syntax, self.geometry)

    def pictures(self, samples: Samples, frame: bytes) -> list[Picture]:
        """Render samples that were decoded from ``frame`` or replace it."""
        return render_frame(
            samples, self.geometry, color_model(frame, self.syntax, self.geometry), self.palette
        )


@dataclass(frozen=True, slots=True)
class CleaningOptions:
    """What to blank.

    Attributes
    ----------
    judge : Judge
        Selects identifying lines.
    everything : bool
        Blank all text.
    fixed : tuple of Area
        Areas to blank in every frame, regardless of their content.
    decisions : tuple of ReviewDecision
        Decisions of the review on this object.
    confirms : callable, optional
        A line that it does not confirm counts as unread.
    """

    judge: Judge
    everything: bool = False
    fixed: tuple[Area, ...] = ()
    decisions: tuple[ReviewDecision, ...] = ()
    confirms: Confirm | None = None


@dataclass(frozen=True, slots=True)
class CleanedFrames:
    """Result of cleaning the frames of one object.

    Attributes
    ----------
    regions : int
        Number of different areas that were blanked; 0 if the frames are unchanged.
    review_items : tuple of ReviewItem
    frames : tuple of bytes
        Native frames, if the object was decompressed.
    model : str
        Photometric Interpretation of ``frames``.
    precision : int
        Bits that the values of ``frames`` need.
    areas : tuple of Area
        The areas that were blanked.
    """

    regions: int
    review_items: tuple[ReviewItem, ...]
    frames: tuple[bytes, ...] = ()
    model: str = ""
    precision: int = 0
    areas: tuple[Area, ...] = ()


def clean_frames(
    image: ImageFrames, order: CleaningOptions, reader: TextReader, *, decompress: bool, most_bytes: int
) -> CleanedFrames:
    """Blank identifying text in the frames of one object and verify the result.

    Parameters
    ----------
    image : ImageFrames
        Changed frames replace those in its ``stored``.
    order : CleaningOptions
    reader : TextReader
    decompress : bool
        Whether an object may be decompressed if a frame cannot be edited in its transfer syntax.
    most_bytes : int
        Largest size of a decompressed object.

    Raises
    ------
    Quarantined
        ``burned-in-text-remains``, ``burned-in-text-unread``, ``pixels-undecodable``,
        ``pixels-not-rewritten``, ``lossy-pixels``, ``pixels-too-large`` or ``refused-in-review``.
    """
    job = _FrameCleaner(image, order, reader, *_decided(order.decisions))
    job.look()
    if not job.any_area():
        return CleanedFrames(0, job.review_images.made(lambda _: None))
    try:
        for index in range(image.geometry.frames):
            new = job.rewritten(index, lambda frame, areas: (*_edited(image, frame, areas), 0))
            if new is not None:
                image.stored.put(index, new[0])
        items = job.review_images.made(job.after)
        return CleanedFrames(len(job.used), items, areas=tuple(sorted(job.used)))
    except NotEditableInPlace:
        if not decompress:
            raise Quarantined("lossy-pixels", "pixels") from None
    return _all_decompressed(job, most_bytes)


def _edited(image: ImageFrames, frame: bytes, areas: Sequence[Area]) -> tuple[bytes, Samples]:
    return edit_in_place(frame, areas, image.syntax, image.geometry, image.darkest)


def _all_decompressed(job: _FrameCleaner, most_bytes: int) -> CleanedFrames:
    """Decompress every frame, since an object has one transfer syntax."""
    image = job.image
    size = image.geometry.frame_bits // 8 * image.geometry.frames
    if size > most_bytes:
        raise Quarantined("pixels-too-large", "pixels")
    job.used.clear()  # the attempt in place may have counted areas
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
    return CleanedFrames(
        len(job.used), job.review_images.made(job.after), tuple(frames), models.pop(), precision
    )


@dataclass(slots=True)
class _FrameCleaner:
    """State of one object during reading, blanking and verification.

    Attributes
    ----------
    image : ImageFrames
    order : CleaningOptions
    reader : TextReader
    kept : tuple of Area
        Areas that the review keeps.
    added : dict
        Index of a frame -> areas that the review blanks in it.
    everything : bool
        Whether the review blanks all text.
    own : list of tuple of Area
        Areas to blank in each frame.
    marks : list of tuple of TextBox
        Codes and unread text in each frame, with their margins.
    plain : list of tuple of TextBox
        Harmless legible lines of each frame.
    repeated : RepeatedAreas
    used : set of Area
        Areas that were blanked.
    review_images : ReviewImages
    shown : dict
        Number of a frame (from 1) -> rendering after blanking.
    checks : FrameTextReader or None
        Reads the blanked frames.
    judged, seen_near, seen_lines
        Caches.
    """

    image: ImageFrames
    order: CleaningOptions
    reader: TextReader
    kept: tuple[Area, ...]
    added: dict[int, list[Area]]
    everything: bool
    own: list[tuple[Area, ...]] = field(default_factory=list)
    marks: list[tuple[TextBox, ...]] = field(default_factory=list)
    plain: list[tuple[TextBox, ...]] = field(default_factory=list)
    repeated: RepeatedAreas = field(default_factory=RepeatedAreas)
    used: set[Area] = field(default_factory=set)
    review_images: ReviewImages = field(default_factory=ReviewImages)
    shown: dict[int, Picture] = field(default_factory=dict)
    checks: FrameTextReader | None = None
    judged: dict[tuple[TextBox, ...], tuple[TextBox, ...]] = field(default_factory=dict)
    seen_near: dict[tuple[TextBox, ...], tuple[TextBox, ...]] = field(default_factory=dict)
    seen_lines: tuple[Picture, tuple[StrokeLine, ...]] | None = None

    def look(self) -> None:
        """Read all frames and determine what to blank in each."""
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
            harmless = [self.acquitted(*one, chosen) for one in zip(pictures, lanes, strict=True)]
            unread = [mark for mark in self.unread(pictures, harmless, areas) if not self.is_kept(mark)]
            self.own.append(merge_areas([*areas, *map(_bounds, unread)]))
            self.marks.append(tuple(unread))
            stay = (box for lane in lanes for box in lane if box not in chosen and box.score >= LEGIBLE)
            self.plain.append(tuple(stay))
            for picture, lane in zip(pictures, lanes, strict=True):
                for box in lane:
                    self.review_images.note(index + 1, box, picture, blanked=box in chosen)
            for mark in unread:
                self.review_images.note(index + 1, mark, pictures[0], blanked=True)
            if self.image.geometry.frames > 1 and pictures:
                for area in self.own[-1]:
                    self.repeated.add(area, pictures[0])

    def unread(
        self, pictures: Sequence[Picture], harmless: Sequence[Sequence[TextBox]], areas: Sequence[Area]
    ) -> list[TextBox]:
        """Return the areas, with their margin, of codes and of text that was not read with certainty.

        Parameters
        ----------
        pictures : sequence of arrays of uint8, shape (rows, columns)
            Renderings of one frame.
        harmless : sequence of sequence of TextBox
            Lines of each rendering that were read with certainty and do not identify.
        areas : sequence of Area
            Areas that are blanked anyway; words that they cut are completed.

        Raises
        ------
        Quarantined
            ``burned-in-text-unread`` if blanking would take too much of the frame.
        """
        shape = (self.image.geometry.rows, self.image.geometry.columns)
        acquitted = [box for lane in harmless for box in lane]
        codes: list[Area] = []
        texts: list[Area] = []
        for number, picture in enumerate(pictures):
            # Later renderings amplify noise, which may look like a pattern, but never decodes.
            codes += find_codes(picture, patterns=not number)
            lines = self.lines(picture)
            if number:
                lines = tuple(line for line in lines if len(line.letters) >= _SEVERAL and line.is_regular)
            texts += unread_areas(lines, acquitted, [*areas, *codes], shape)
        if texts:
            mask = np.zeros(shape, bool)
            for left, top, right, bottom in texts:
                mask[top:bottom, left:right] = True
            for left, top, right, bottom in areas:
                mask[top:bottom, left:right] = False
            if mask.mean() > _MOST_UNREAD:
                raise Quarantined("burned-in-text-unread", "pixels")
        return [TextBox(*area, "", 0.0) for area in merge_areas([*codes, *texts])]

    def lines(self, picture: Picture) -> tuple[StrokeLine, ...]:
        """`find_lines`; the last result is cached, since frames of a loop may be equal."""
        if self.seen_lines is None or not np.array_equal(self.seen_lines[0], picture):
            self.seen_lines = picture, find_lines(picture)
        return self.seen_lines[1]

    def acquitted(
        self, picture: Picture, lane: tuple[TextBox, ...], chosen: Sequence[TextBox]
    ) -> tuple[TextBox, ...]:
        """Return the lines of one rendering that stay, as all readers confirm."""
        confirms = self.order.confirms
        mine = tuple(box for box in lane if self.is_harmless(box, chosen))
        return mine if confirms is None else tuple(box for box in mine if confirms(box, picture))

    def is_harmless(self, box: TextBox, chosen: Sequence[TextBox]) -> bool:
        """Return whether a line was read with certainty and stays."""
        everything = self.order.everything or self.everything
        return box.score >= LEGIBLE and box not in chosen and (not everything or self.is_kept(box))

    def beside(
        self, picture: Picture, lane: tuple[TextBox, ...], lines: Sequence[TextBox], *, first: bool
    ) -> list[TextBox]:
        """Find identifying text around chosen lines that the first reading missed.

        Parameters
        ----------
        picture : array of uint8, shape (rows, columns)
        lane : tuple of TextBox
            All lines of this rendering.
        lines : sequence of TextBox
            Chosen lines of all renderings.
        first : bool
            Whether this is the first rendering.
        """
        chosen = tuple(box for box in lane if box in lines)
        near = self.near(picture, chosen) if chosen else ()
        new = tuple(box for box in near if not any(is_inside(_bounds(box), self.grown(one)) for one in lane))
        # Renderings other than the first amplify noise, in which single letters are often found.
        new = tuple(box for box in new if first or not _is_speck(box))
        identify = set(self.judge(lane + new))
        touched = [self.grown(box) for box in (*chosen, *new) if box in identify]
        return [box for box in new if box in identify or _is_scrap(box, touched)]

    def near(self, picture: Picture, chosen: tuple[TextBox, ...]) -> tuple[TextBox, ...]:
        """Read the surroundings of lines; cached, since frames of a loop have the same lines."""
        if chosen not in self.seen_near:
            self.seen_near[chosen] = self.reader.read_closely(picture, chosen)
        return self.seen_near[chosen]

    def any_area(self) -> bool:
        """Return whether any frame has an area to blank."""
        return bool(self.order.fixed) or any(self.own)

    def chosen(self, lanes: Lanes) -> list[TextBox]:
        """Return the lines to blank: all, or those that identify, except for those that the review keeps."""
        if self.order.everything or self.everything:
            return [box for lane in lanes for box in lane if not self.is_kept(box)]
        found: list[TextBox] = []
        sure: list[Area] = []
        for number, lane in enumerate(lanes):
            mine = self.judge(lane)
            # Later renderings amplify noise: uncertain letters without other text are ignored.
            if number and all(_is_speck(box) for box in mine):
                continue
            # A line that an earlier rendering clearly shows to be harmless is skipped.
            found += [
                box for box in mine if not any(covered_fraction(_bounds(box), area) >= _SAME for area in sure)
            ]
            sure += [_bounds(box) for box in lane if box not in mine and box.score >= _SURE]
        return [box for box in found if not self.is_kept(box)]

    def judge(self, lane: tuple[TextBox, ...]) -> tuple[TextBox, ...]:
        """`CleaningOptions.judge`, cached, since frames of a loop have the same lines."""
        known = self.judged.get(lane)
        if known is None:
            known = self.judged[lane] = self.order.judge(lane)
        return known

    def is_kept(self, box: TextBox) -> bool:
        """Return whether the review keeps the line."""
        return any(covered_fraction(_bounds(box), area) >= _SAME for area in self.kept)

    def grown(self, box: TextBox) -> Area:
        """Return the area to blank for a line."""
        return _bounds(area_to_blank(box, (self.image.geometry.rows, self.image.geometry.columns)))

    def rewritten(
        self, index: int, write: Callable[[bytes, Sequence[Area]], tuple[bytes, Samples, int]]
    ) -> tuple[bytes, Samples, int] | None:
        """Blank the areas of a frame and verify the result.

        Parameters
        ----------
        index : int
            From 0.
        write : callable
            Blanks areas of an encoded frame; returns the new frame, its samples, and its precision.

        Returns
        -------
        tuple or None
            Result of ``write``; None if the frame has no area to blank.

        Raises
        ------
        Quarantined
            ``burned-in-text-remains``.
        """
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
        # Blanking changes the range of the rendering, which may reveal text: it is blanked in a second
        # attempt.
        for _ in range(2):
            areas = list(merge_areas(areas))
            new = write(frame, areas)
            pictures = image.pictures(new[1], frame)
            # Inside blanked areas, a line can only be a leftover of the previously read frame.
            found = self.left(index, self.checks.read(pictures))
            left = [box for box in found if not any(is_inside(_bounds(box), area) for area in areas)]
            left += [mark for mark in self.marks_left(index, pictures) if not self.is_covered(mark, areas)]
            if not left:
                self.used.update(areas)
                if before:
                    self.review_images.show(index + 1, before[0])
                if pictures and len(self.shown) < MOST:
                    self.shown[index + 1] = pictures[0]
                return new
            shape = (image.geometry.rows, image.geometry.columns)
            # Twice the margin, since the first attempt may have left a part of the line.
            areas += [_bounds(area_to_blank(area_to_blank(box, shape), shape)) for box in left]
        shown = residual_text_item(index + 1, left, before[0], pictures[0]) if before else ()
        raise Quarantined("burned-in-text-remains", "pixels", shown)

    def left(self, index: int, lanes: Lanes) -> list[TextBox]:
        """Return the lines that identify after blanking.

        A line that was harmless before does not count, even if it is illegible or read in part in the new
        range of gray values.
        """
        return [
            box
            for lane in lanes
            for box in self.judge(lane)
            if not self.is_kept(box) and not self.was_plain(index, box)
        ]

    def marks_left(self, index: int, pictures: Sequence[Picture]) -> list[TextBox]:
        """Return codes, and letters that were to be blanked, in a frame after blanking."""
        found = [area for number, one in enumerate(pictures) for area in find_codes(one, patterns=not number)]
        marks = [_bounds(mark) for mark in self.marks[index]]
        # Strokes elsewhere are harmless text, or the ground between blanked areas.
        for line in self.lines(pictures[0]) if marks and pictures else ():
            found += [one for one in line.letters if any(is_inside(one, mark) for mark in marks)]
        return [TextBox(*area, "", 0.0) for area in found]

    def is_covered(self, mark: TextBox, areas: Sequence[Area]) -> bool:
        """Return whether a code is blanked, up to its margin, or is kept by the review."""
        return self.is_kept(mark) or any(covered_fraction(_bounds(mark), area) >= _SAME for area in areas)

    def was_plain(self, index: int, box: TextBox) -> bool:
        """Return whether ``box`` shows no more than a line that the first reading found harmless."""
        return any(
            covered_fraction(_bounds(box), _bounds(line)) >= _SAME
            and (box.score < LEGIBLE or _is_part(box, line))
            for line in self.plain[index]
        )

    def after(self, number: int) -> Picture | None:
        """Return the rendering of a blanked frame (from 1), or None."""
        return self.shown.get(number)


def _bounds(box: TextBox) -> Area:
    return box.left, box.top, box.right, box.bottom


def _is_speck(box: TextBox) -> bool:
    """Whether a box has a few letters at most, read with low certainty."""
    return sum(letter.isalnum() for letter in box.text) <= _FEW and box.score < _SURE


def _is_part(box: TextBox, line: TextBox) -> bool:
    """Whether the letters of a box are a substring of those of a line that was read with certainty."""
    part, whole = ("".join(filter(str.isalnum, one.text)).casefold() for one in (box, line))
    return line.score >= _SURE and part in whole


def _is_scrap(box: TextBox, areas: Sequence[Area]) -> bool:
    """Whether a box has a few letters at most and touches one of the areas."""
    few = sum(letter.isalnum() for letter in box.text) <= _FEW and box.score >= _SOMETHING
    return few and any(covered_fraction(_bounds(box), area) > 0 for area in areas)


def _decided(decisions: Sequence[ReviewDecision]) -> tuple[tuple[Area, ...], dict[int, list[Area]], bool]:
    """Split decisions into areas to keep, areas to blank by frame, and whether to blank all text."""
    kept: list[Area] = []
    added: dict[int, list[Area]] = {}
    everything = False
    for decision in decisions:
        found = _LOCATION.fullmatch(decision.location)
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
