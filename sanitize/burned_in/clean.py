"""Cleaning of burned-in text: read all frames, blank identifying text, read the result again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

import numpy as np
from medsanitize.sanitize.burned_in.areas import (
    RepeatedAreas,
    around_touching,
    covered_fraction,
    is_inside,
    merge_areas,
)
from medsanitize.sanitize.burned_in.boxes import TextBox, area_to_blank
from medsanitize.sanitize.burned_in.classify import LEGIBLE
from medsanitize.sanitize.burned_in.cleaning_options import CleaningOptions, split_decisions
from medsanitize.sanitize.burned_in.codes import find_codes, undecoded
from medsanitize.sanitize.burned_in.find_text import changed_pixels, read_again
from medsanitize.sanitize.burned_in.frame_search import ShownText, search_frame, show_text
from medsanitize.sanitize.burned_in.image_frames import ImageFrames
from medsanitize.sanitize.burned_in.line_checks import (
    ACQUITTED,
    LARGE,
    SURE,
    is_part,
    is_same_word,
    is_speck,
    may_be_anatomy,
)
from medsanitize.sanitize.burned_in.ocr import TextReader
from medsanitize.sanitize.burned_in.read_frames import FrameTextReader, Lanes
from medsanitize.sanitize.burned_in.rendering import Picture
from medsanitize.sanitize.burned_in.review_images import MOST, ReviewImages, residual_text_item
from medsanitize.sanitize.burned_in.spelled_lines import spelled_areas
from medsanitize.sanitize.burned_in.strokes import find_lines
from medsanitize.sanitize.burned_in.text_evidence import POSSIBLE, TEXT
from medsanitize.sanitize.burned_in.text_map import Chances, text_chances
from medsanitize.sanitize.burned_in.tiled_letters import tiled_areas
from medsanitize.sanitize.burned_in.write_back import (
    NotEditableInPlace,
    color_model,
    decompress_and_blank,
    edit_in_place,
)
from medsanitize.sanitize.formats.dicom.decode import Samples
from medsanitize.sanitize.formats.dicom.image_pixel import Area
from medsanitize.sanitize.quarantine import Quarantined
from medsanitize.sanitize.result import ReviewItem
from numpy.typing import NDArray

# Covered fraction from which two boxes are one line.
_SAME = 0.7
# Largest part of a frame that is blanked as unread text: more may be anatomy.
_MOST_UNREAD = 0.4
# How often a frame is blanked until nothing identifying is left in it.
_ATTEMPTS = 4
# Text maps that are kept for equal frames.
_MOST_MAPS = 64


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
    job = _FrameCleaner(image, order, reader, *split_decisions(order.decisions))
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


def find_areas(
    image: ImageFrames, order: CleaningOptions, reader: TextReader
) -> tuple[tuple[Area, ...], ...]:
    """Return the areas that `clean_frames` would blank in each frame, without fixed ones; change nothing.

    Parameters
    ----------
    image, order, reader
        As for `clean_frames`.
    """
    job = _FrameCleaner(image, order, reader, *split_decisions(order.decisions))
    job.look()
    return tuple(job.own)


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
    lanes : list of Lanes
        Text of each frame before blanking.
    plain : list of tuple of TextBox
        Harmless legible lines of each frame.
    repeated : RepeatedAreas
    used : set of Area
        Areas that were blanked.
    review_images : ReviewImages
    shown : dict
        Number of a frame (from 1) -> rendering after blanking.
    judged, maps
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
    lanes: list[Lanes] = field(default_factory=list)
    plain: list[tuple[TextBox, ...]] = field(default_factory=list)
    repeated: RepeatedAreas = field(default_factory=RepeatedAreas)
    used: set[Area] = field(default_factory=set)
    review_images: ReviewImages = field(default_factory=ReviewImages)
    shown: dict[int, Picture] = field(default_factory=dict)
    judged: dict[tuple[TextBox, ...], tuple[TextBox, ...]] = field(default_factory=dict)
    maps: dict[bytes, Chances] = field(default_factory=dict)

    def look(self) -> None:
        """Read all frames and determine what to blank in each."""
        readings = FrameTextReader(self.reader)
        for index in range(self.image.geometry.frames):
            frame = self.image.stored.frame(index)
            samples = self.image.samples(frame)
            pictures = self.image.pictures(samples, frame)
            shown = self.shown_by(samples, frame)
            lanes = readings.read(pictures, shown.readable)
            chosen = self.shown_as_text(self.chosen(lanes), shown)
            asked = [TextBox(*area, "", 0.0) for area in self.added.get(index, [])]
            given = self.order.found.get(index, ())
            areas = [*(self.grown(box) for box in (*chosen, *asked)), *given]
            harmless = [
                box
                for one in zip(pictures, lanes, strict=True)
                for box in self.acquitted(*one, chosen)
                if not any(is_same_word(box, other) for other in chosen)
                and not any(self.is_doubted(box, other) for lane in lanes for other in lane)
            ]
            unread = [
                mark for mark in self.unread(pictures, shown, harmless, areas) if not self.is_kept(mark)
            ]
            self.own.append(merge_areas([*areas, *(mark.bounds for mark in unread)]))
            self.marks.append(tuple(unread))
            self.lanes.append(lanes)
            stay = (box for lane in lanes for box in lane if box not in chosen and box.score >= LEGIBLE)
            self.plain.append(tuple(stay))
            for picture, lane in zip(pictures, lanes, strict=True):
                for box in lane:
                    self.review_images.note(index + 1, box, picture, blanked=box in chosen)
            # A line is one item of the review, however many areas follow it.
            for area in around_touching(mark.bounds for mark in unread) if pictures else ():
                self.review_images.note(index + 1, TextBox(*area, "", 0.0), pictures[0], blanked=True)
            if self.image.geometry.frames > 1 and pictures:
                # What is given is not of the pixels alone: other frames may look alike without it.
                for area in (one for one in self.own[-1] if one not in given):
                    self.repeated.add(area, pictures[0])
        self.add_spelled()
        self.add_tiled()

    def add_tiled(self) -> None:
        """Blank in each frame the letters that its tiles spell together."""
        shape = (self.image.geometry.rows, self.image.geometry.columns)
        for index, lanes in enumerate(self.lanes):
            boxes = [box for lane in lanes for box in lane if not self.is_kept(box)]
            if tiled := tiled_areas(boxes, shape):
                self.require_little(tiled, self.own[index])
                self.own[index] = merge_areas([*self.own[index], *tiled])

    def require_little(self, added: Sequence[Area], areas: Sequence[Area]) -> None:
        """Raise Quarantined where areas beside those that are blanked anyway may be anatomy."""
        if not added:
            return
        mask = np.zeros((self.image.geometry.rows, self.image.geometry.columns), bool)
        for left, top, right, bottom in added:
            mask[top:bottom, left:right] = True
        for left, top, right, bottom in areas:
            mask[top:bottom, left:right] = False
        if mask.mean() > _MOST_UNREAD:
            raise Quarantined("burned-in-text-unread", "pixels")

    def add_spelled(self) -> None:
        """Blank in every frame the lines that the frames spell together."""
        frames = [[box for lane in lanes for box in lane if not self.is_kept(box)] for lanes in self.lanes]
        rows, columns = self.image.geometry.rows, self.image.geometry.columns
        spelled = [
            (left, top, min(right, columns), min(bottom, rows))
            for left, top, right, bottom in spelled_areas(frames)
        ]
        if spelled:
            self.own = [merge_areas([*areas, *spelled]) for areas in self.own]

    def unread(
        self,
        pictures: Sequence[Picture],
        shown: ShownText,
        harmless: Sequence[TextBox],
        areas: Sequence[Area],
    ) -> list[TextBox]:
        """Return the areas, with their margin, of codes and of text that was not read with certainty.

        Parameters
        ----------
        pictures : sequence of arrays of uint8, shape (rows, columns)
            Renderings of one frame.
        shown : ShownText
            Where the frame shows text.
        harmless : sequence of TextBox
            Lines that were read with certainty and do not identify.
        areas : sequence of Area
            Areas that are blanked anyway; words that they cut are completed.

        Raises
        ------
        Quarantined
            ``burned-in-text-unread`` if blanking would take too much of the frame.
        """
        found = search_frame(pictures, shown, harmless, areas)
        # A pattern over much of a frame that decodes to nothing may be a test pattern.
        patterns = undecoded(found.codes, pictures)
        codes = [one for one in found.codes if one not in patterns]
        self.require_little([*found.texts, *patterns], [*areas, *codes])
        return [TextBox(*area, "", 0.0) for area in merge_areas([*found.codes, *found.texts])]

    def shown_by(self, samples: Samples, frame: bytes) -> ShownText:
        """Find where samples that were decoded from a frame or replace it show text, in gray and in color."""
        image = self.image
        return show_text(image.gray(samples, frame), image.hidden_colors(samples, frame), self.text_map)

    def text_map(self, values: NDArray[np.float32]) -> Chances:
        """Return the text map of values; kept, since frames of a loop may be equal."""
        # Parts of a frame may have the same values in another shape.
        key = blake2b(values.tobytes(), digest_size=16, salt=b"%d" % values.shape[1]).digest()
        chances = self.maps.get(key)
        if chances is None:
            chances = text_chances(values)
            if len(self.maps) == _MOST_MAPS:
                del self.maps[next(iter(self.maps))]
            self.maps[key] = chances
        return chances

    def acquitted(
        self, picture: Picture, lane: tuple[TextBox, ...], chosen: Sequence[TextBox]
    ) -> tuple[TextBox, ...]:
        """Return the lines of one rendering that stay, as all readers confirm."""
        confirms = self.order.confirms
        mine = tuple(box for box in lane if self.is_harmless(box, chosen))
        return mine if confirms is None else tuple(box for box in mine if confirms(box, picture))

    def is_doubted(self, box: TextBox, other: TextBox) -> bool:
        """Return whether another reading of the same place, in any rendering, is legible and identifies."""
        same = covered_fraction(box.bounds, other.bounds) >= _SAME
        return same and other.text != box.text and other.score >= LEGIBLE and bool(self.judge((other,)))

    def is_harmless(self, box: TextBox, chosen: Sequence[TextBox]) -> bool:
        """Return whether a line was read with certainty and stays."""
        everything = self.order.everything or self.everything
        return box.score >= ACQUITTED and box not in chosen and (not everything or self.is_kept(box))

    def any_area(self) -> bool:
        """Return whether any frame has an area to blank."""
        return bool(self.order.fixed) or any(self.own)

    def shown_as_text(self, boxes: Sequence[TextBox], shown: ShownText) -> list[TextBox]:
        """Leave out uncertain or monotonous lines that OCR saw where neither network nor ink show text."""
        doubted = {box: TEXT if box.height > LARGE else POSSIBLE for box in boxes if may_be_anatomy(box)}
        near = [self.grown(box) for box in doubted]
        letters = {
            least: [area for line in lines for area in (*line.letters, *line.doubtful)]
            for least in set(doubted.values())
            for lines in [find_lines(shown.values, shown.chances, least, near)]
        }
        return [
            box
            for box in boxes
            if box not in doubted
            or any(covered_fraction(one, self.grown(box)) > 0 for one in letters[doubted[box]])
        ]

    def chosen(self, lanes: Lanes) -> list[TextBox]:
        """Return the lines to blank: all, or those that identify, except for those that the review keeps."""
        if self.order.everything or self.everything:
            return [box for lane in lanes for box in lane if not self.is_kept(box)]
        found: list[TextBox] = []
        sure: list[Area] = []
        for number, lane in enumerate(lanes):
            mine = self.judge(lane)
            # Later renderings amplify noise: uncertain letters without other text are ignored.
            if number and all(is_speck(box) for box in mine):
                continue
            # A line that an earlier rendering clearly shows to be harmless is skipped.
            found += [
                box for box in mine if not any(covered_fraction(box.bounds, area) >= _SAME for area in sure)
            ]
            sure += [box.bounds for box in lane if box not in mine and box.score >= SURE]
        return [box for box in found if not self.is_kept(box)]

    def judge(self, lane: tuple[TextBox, ...]) -> tuple[TextBox, ...]:
        """`CleaningOptions.judge`, cached, since frames of a loop have the same lines."""
        known = self.judged.get(lane)
        if known is None:
            known = self.judged[lane] = self.order.judge(lane)
        return known

    def is_kept(self, box: TextBox) -> bool:
        """Return whether the review keeps the line."""
        return any(covered_fraction(box.bounds, area) >= _SAME for area in self.kept)

    def grown(self, box: TextBox) -> Area:
        """Return the area to blank for a line."""
        return area_to_blank(box, (self.image.geometry.rows, self.image.geometry.columns)).bounds

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
        # Blanking changes the range of the rendering, which may reveal text, or leaves a part of a line that
        # was harmless as a whole: it is blanked in another attempt.
        for _ in range(_ATTEMPTS):
            areas = list(merge_areas(areas))
            new = write(frame, areas)
            pictures, shown = image.pictures(new[1], frame), self.shown_by(new[1], frame)
            found = self.left(index, self.read_blanked(index, before, pictures, shown), shown)
            # What was read inside a blanked area can only be what the first reading found there.
            left = [box for box in found if not any(is_inside(box.bounds, area) for area in areas)]
            left += [
                mark for mark in self.marks_left(index, pictures, shown) if not self.is_covered(mark, areas)
            ]
            if not left:
                self.used.update(areas)
                if before:
                    self.review_images.show(index + 1, before[0])
                if pictures and len(self.shown) < MOST:
                    self.shown[index + 1] = pictures[0]
                return new
            shape = (image.geometry.rows, image.geometry.columns)
            # Twice the margin, since this attempt may have left a part of the line.
            areas += [area_to_blank(area_to_blank(box, shape), shape).bounds for box in left]
        items = residual_text_item(index + 1, left, before[0], pictures[0]) if before else ()
        raise Quarantined("burned-in-text-remains", "pixels", items)

    def read_blanked(
        self, index: int, before: Sequence[Picture], after: Sequence[Picture], shown: ShownText
    ) -> Lanes:
        """Read what changed in the renderings of a frame; the rest was read before."""
        lanes, readable = [], shown.readable
        for number, picture in enumerate(after):
            if number < len(before) and number < len(self.lanes[index]):
                differs = changed_pixels(before[number], picture)
                lane = self.lanes[index][number]
                lanes.append(
                    read_again(self.reader, picture, readable, differs, lane) if differs.any() else lane
                )
            else:
                lanes.append(self.reader.read(picture, readable))
        return tuple(lanes)

    def left(self, index: int, lanes: Lanes, shown: ShownText) -> list[TextBox]:
        """Return the lines that identify after blanking.

        A line that was harmless before does not count, even if it is illegible or read in part in the new
        range of gray values.
        """
        found = [box for lane in lanes for box in self.judge(lane)]
        return [
            box
            for box in self.shown_as_text(found, shown)
            if not self.is_kept(box) and not self.was_plain(index, box)
        ]

    def marks_left(self, index: int, pictures: Sequence[Picture], shown: ShownText) -> list[TextBox]:
        """Return codes, and letters that were to be blanked, in a frame after blanking."""
        found = [area for number, one in enumerate(pictures) for area in find_codes(one, patterns=not number)]
        # Letters elsewhere are harmless text; what is of one value inside a mark is blanked.
        marks = [
            mark.bounds
            for mark in self.marks[index]
            if not all(_is_flat(one, mark.bounds) for one in shown.planes)
        ]
        for one in shown.planes if marks else ():
            found += [
                letter
                for line in find_lines(one.values, one.chances)
                for letter in line.letters
                if any(is_inside(letter, mark) for mark in marks) and not _is_flat(one, letter)
            ]
        return [TextBox(*area, "", 0.0) for area in found]

    def is_covered(self, mark: TextBox, areas: Sequence[Area]) -> bool:
        """Return whether a code is blanked, up to its margin, or is kept by the review."""
        return self.is_kept(mark) or any(covered_fraction(mark.bounds, area) >= _SAME for area in areas)

    def was_plain(self, index: int, box: TextBox) -> bool:
        """Return whether ``box`` shows no more than a line that the first reading found harmless."""
        return any(
            covered_fraction(box.bounds, line.bounds) >= _SAME and (box.score < LEGIBLE or is_part(box, line))
            for line in self.plain[index]
        )

    def after(self, number: int) -> Picture | None:
        """Return the rendering of a blanked frame (from 1), or None."""
        return self.shown.get(number)


def _is_flat(shown: ShownText, area: Area) -> bool:
    """Whether an area has one value, as blanked areas have."""
    inside = shown.values[area[1] : area[3], area[0] : area[2]]
    return not inside.size or float(np.ptp(inside)) == 0
