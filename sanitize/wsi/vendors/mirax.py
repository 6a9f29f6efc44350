"""3DHISTECH MIRAX: Slidedat.ini, an index of linked pages, data files, and an ``.mrxs`` file that is a JPEG.

OpenSlide reads the levels through the hierarchical records of the index, and the camera positions through the
non-hierarchical ones. The identifier of the slide is in Slidedat.ini and, with the same length, at the
beginning of the index and of every data file.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from medsanitize.policies.model import WholeSlides
from medsanitize.sanitize.formats.edit_plan import EditPlan, SlideFacts
from medsanitize.sanitize.formats.ini import (
    REAL,
    WHOLE,
    Sections,
    read_ini,
    read_whole_number,
    select_pairs,
    write_ini,
)
from medsanitize.sanitize.formats.mirax_index import DataRange, MiraxIndex, read_index, write_index
from medsanitize.sanitize.formats.tiff.writer import segment_length
from medsanitize.sanitize.pieces import Copy, OutFile, Piece
from medsanitize.sanitize.quarantine import Quarantined
from medsanitize.sanitize.wsi.source import SlideName, SlideView
from medsanitize.sanitize.wsi.tiles import JPEG, TileCleaner

NAME = "mirax"
_INI = "Slidedat.ini"
# The other keys include name, identifier and date of the slide.
_GENERAL = {
    "SLIDE_TYPE": re.compile(r"SLIDE_TYPE_(?:BRIGHTFIELD|FLUORESCENCE|[A-Z]{1,16})"),
    "CURRENT_SLIDE_VERSION": REAL,
    **dict.fromkeys(
        (
            "IMAGENUMBER_X",
            "IMAGENUMBER_Y",
            "OBJECTIVE_MAGNIFICATION",
            "CameraImageDivisionsPerSide",
            "SLIDE_CONTENT",
            "VIMSLIDE_SLIDE_BITDEPTH",
            "SLIDE_QUALITY",
        ),
        WHOLE,
    ),
    "OUTPUT_RESOLUTION": REAL,
}
_LEVEL = {
    "IMAGE_FORMAT": re.compile(r"JPEG"),
    **dict.fromkeys(
        (
            "OVERLAP_X",
            "OVERLAP_Y",
            "MICROMETER_PER_PIXEL_X",
            "MICROMETER_PER_PIXEL_Y",
            "IMAGE_FILL_COLOR_BGR",
            "DIGITIZER_WIDTH",
            "DIGITIZER_HEIGHT",
            "IMAGE_CONCAT_FACTOR",
            "IMAGE_COMPRESSION_FACTOR",
        ),
        REAL,
    ),
}
_ZOOM = "Slide zoom level"
_PREVIEW, _PREVIEW_LAYER = "ScanDataLayer_SlidePreview", "Scan data layer"
_POSITIONS = {"VIMSLIDE_POSITION_BUFFER": "default", "StitchingIntensityLayer": "StitchingIntensityLevel"}
_VERSION = re.compile(r"\d\d\.\d\d")
_MOST_LEVELS, _MOST_LAYERS, _MOST_FILES = 32, 256, 4096
_POSITION = 9
"""Bytes per camera position: a flag and two 32-bit integers."""


@dataclass(frozen=True, slots=True)
class _Source:
    """A parsed MIRAX slide.

    Attributes
    ----------
    sections : Sections
        Content of Slidedat.ini.
    index : MiraxIndex
        Records of the index file.
    files : tuple of int
        For each data file, its position in the files of the view.
    """

    sections: Sections
    index: MiraxIndex
    files: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Layer:
    """A non-hierarchical record that is kept: its names, its section of the INI file and its bytes."""

    layer: str
    value: str
    section: dict[str, object]
    pieces: tuple[Piece, ...]


def recognizes(view: SlideView) -> bool:
    """Return whether the folder of the slide contains Slidedat.ini."""
    return any(file.name.rpartition("/")[2] == _INI for file in view.files[1:])


def companions(ini: bytes) -> frozenset[str]:
    """Return the names of the files in the folder of Slidedat.ini that belong to the slide.

    Parameters
    ----------
    ini : bytes
        Content of Slidedat.ini.
    """
    sections = read_ini(ini)
    named = {sections.get("HIERARCHICAL", {}).get("INDEXFILE", "")}
    named |= {value for key, value in sections.get("DATAFILE", {}).items() if re.fullmatch(r"FILE_\d+", key)}
    return frozenset(named - {""}) | {_INI}


def plan_edits(view: SlideView, rules: WholeSlides, name: SlideName) -> EditPlan:
    """Plan the released slide: levels, camera positions and preview, with new INI, index and data files.

    Raises
    ------
    Quarantined
        ``slide-file-missing``, ``slide-description``, ``slide-without-levels``, ``mirax-index``,
        ``mirax-positions`` or ``tiff-overlapping-data``; for tiles see `TileCleaner.clean`.
    """
    source = _read(view)
    general, tree = source.sections.get("GENERAL", {}), source.sections.get("HIERARCHICAL", {})
    old, version = general.get("SLIDE_ID", ""), general.get("SLIDE_VERSION", "")
    token = name.token("mirax slide", 32).hex().upper()
    head = (version + (token * (len(old) // len(token) + 1))[: len(old)]).encode("ascii")
    counts: dict[str, int] = {"C:slide-description": 1}
    levels = _levels(view, source, rules, counts)
    layers = _layers(view, source, rules, counts) or [_Layer("Placeholder", "Placeholder", {}, (b"\0",))]
    dropped = sum(source.index.layers_in_use) - sum(layer.layer != "Placeholder" for layer in layers)
    if dropped > 0:
        counts["X:slide-picture"] = dropped
    data, placed = _data_files(
        head, [*(piece for level in levels for _, piece in level), *(one.pieces for one in layers)]
    )
    index = write_index(
        head,
        [[(number, *placed[pieces]) for number, pieces in level] for level in levels],
        [placed[layer.pieces] for layer in layers],
    )
    ini = _ini(source.sections, head[len(version) :].decode(), layers, len(data))
    files = (
        OutFile(".mrxs", (_blank_jpeg(),)),
        OutFile("/Slidedat.ini", (ini,)),
        OutFile("/Index.dat", (index,)),
        *(OutFile(f"/Data{number:04d}.dat", pieces) for number, pieces in enumerate(data)),
    )
    return EditPlan(files, _facts(source.sections, len(levels), tree), counts)


def _read(view: SlideView) -> _Source:
    by_name = {file.name.rpartition("/")[2]: number for number, file in enumerate(view.files) if number}
    if _INI not in by_name:
        raise Quarantined("slide-file-missing", "structure")
    sections = read_ini(bytes(view.files[by_name[_INI]].data))
    tree, data = sections.get("HIERARCHICAL", {}), sections.get("DATAFILE", {})
    count = read_whole_number(data, "FILE_COUNT", _MOST_FILES)
    names = [data.get(f"FILE_{number}", "") for number in range(count)]
    index = tree.get("INDEXFILE", "")
    if index not in by_name or any(one not in by_name for one in names):
        raise Quarantined("slide-file-missing", "structure")
    general = sections.get("GENERAL", {})
    version, slide = general.get("SLIDE_VERSION", ""), general.get("SLIDE_ID", "")
    if not _VERSION.fullmatch(version) or not 0 < len(slide) <= 256 or tree.get("HIER_0_NAME") != _ZOOM:
        raise Quarantined("slide-description", "description")
    head = (version + slide).encode("utf-8")
    zooms = read_whole_number(tree, "HIER_0_COUNT", _MOST_LEVELS)
    layers = sum(
        read_whole_number(tree, f"NONHIER_{number}_COUNT", _MOST_LAYERS)
        for number in range(read_whole_number(tree, "NONHIER_COUNT", _MOST_LAYERS))
    )
    read = read_index(bytes(view.files[by_name[index]].data), head, zooms, layers)
    return _Source(sections, read, tuple(by_name[one] for one in names))


def _bytes_of(view: SlideView, source: _Source, entry: DataRange) -> tuple[int, int, int]:
    """Return file, offset and length of an index entry after checking its bounds."""
    if not 0 <= entry.file < len(source.files) or entry.offset < 0 or entry.length <= 0:
        raise Quarantined("mirax-index", "structure")
    file = source.files[entry.file]
    if entry.offset + entry.length > len(view.files[file].data):
        raise Quarantined("mirax-index", "structure")
    return file, entry.offset, entry.length


def _levels(
    view: SlideView, source: _Source, rules: WholeSlides, counts: dict[str, int]
) -> list[list[tuple[int, tuple[Piece, ...]]]]:
    cleaners: dict[int, TileCleaner] = {}
    levels: list[list[tuple[int, tuple[Piece, ...]]]] = []
    for level in source.index.levels:
        tiles: list[tuple[int, tuple[Piece, ...]]] = []
        for entry in level:
            file, offset, length = _bytes_of(view, source, entry)
            cleaner = cleaners.setdefault(file, view.cleaner(rules, file))
            tiles.append((entry.image, cleaner.clean(offset, length, JPEG)))
        levels.append(tiles)
    if not levels or not levels[0]:
        raise Quarantined("slide-without-levels", "structure")
    for cleaner in cleaners.values():
        for rule, count in cleaner.rules.items():
            counts[rule] = counts.get(rule, 0) + count
    return levels


def _layers(view: SlideView, source: _Source, rules: WholeSlides, counts: dict[str, int]) -> list[_Layer]:
    """Return the records that viewing needs: camera positions, and the preview if the policy keeps it."""
    tree = source.sections["HIERARCHICAL"]
    found: list[_Layer] = []
    record = 0
    for number in range(read_whole_number(tree, "NONHIER_COUNT", _MOST_LAYERS)):
        layer = tree.get(f"NONHIER_{number}_NAME", "")
        for position in range(read_whole_number(tree, f"NONHIER_{number}_COUNT", _MOST_LAYERS)):
            value = tree.get(f"NONHIER_{number}_VAL_{position}", "")
            entry = source.index.layers[record]
            record += 1
            if entry is None:
                continue
            file, offset, length = _bytes_of(view, source, entry)
            if _POSITIONS.get(layer) == value:
                given = bytes(view.files[file].data[offset : offset + length])
                found.append(_Layer(layer, value, {}, (_positions(layer, given, source.sections),)))
            elif (layer, value) == (_PREVIEW_LAYER, _PREVIEW) and rules.thumbnail == "keep":
                pieces = view.cleaner(rules, file).clean(offset, length, JPEG)
                found.append(_Layer(layer, value, {"PREVIEW_IMAGE_TYPE": "JPEG"}, pieces))
    counts["C:slide-description"] += 1
    return found


def _positions(layer: str, data: bytes, sections: Sections) -> bytes:
    """Return the camera positions after checking that they have exactly the expected size."""
    import zlib

    general = sections["GENERAL"]
    across, down = (
        read_whole_number(general, "IMAGENUMBER_X", 1 << 20),
        read_whole_number(general, "IMAGENUMBER_Y", 1 << 20),
    )
    divisions = read_whole_number(general, "CameraImageDivisionsPerSide", 64) or 1
    size = (across // divisions) * (down // divisions) * _POSITION
    packed = layer != "VIMSLIDE_POSITION_BUFFER"
    if packed:
        inflater = zlib.decompressobj()
        try:
            plain = inflater.decompress(data, size + 1)
        except zlib.error:
            raise Quarantined("mirax-positions", "structure") from None
    else:
        plain = data
    # Flags are 0 or 1: any other bit could carry hidden data.
    if len(plain) != size or any(flag & ~1 for flag in plain[::_POSITION]):
        raise Quarantined("mirax-positions", "structure")
    # Compressed again, so that nothing after the end of the source's stream is copied.
    return zlib.compress(plain) if packed else plain


def _data_files(
    head: bytes, segments: list[tuple[Piece, ...]]
) -> tuple[list[tuple[Piece, ...]], dict[tuple[Piece, ...], tuple[int, int, int]]]:
    """Build the data files, one per source file still needed, and the place of each segment in them.

    Places are (offset, length, number of the data file).
    """
    files: dict[int, list[Piece]] = {}
    ends: dict[int, int] = {}
    placed: dict[tuple[Piece, ...], tuple[int, int, int]] = {}
    copied: dict[int, int] = {}
    begin = head + bytes(8)
    for segment in sorted(set(segments), key=_order):
        first = segment[0]
        source = first.file if isinstance(first, Copy) else -1
        for piece in segment:
            if isinstance(piece, Copy):
                # Segments are sorted: one that begins before the end of the last shares bytes with it.
                if piece.offset < copied.get(piece.file, 0):
                    raise Quarantined("tiff-overlapping-data", "structure")
                copied[piece.file] = piece.offset + piece.length
        number = list(files).index(source) if source in files else len(files)
        start = ends.get(source, len(begin))
        placed[segment] = (start, segment_length(segment), number)
        files.setdefault(source, [begin]).extend(segment)
        ends[source] = start + segment_length(segment)
    return [tuple(pieces) for pieces in files.values()], placed


def _order(segment: tuple[Piece, ...]) -> tuple[int, int, bytes]:
    first = segment[0]
    return (first.file, first.offset, b"") if isinstance(first, Copy) else (1 << 30, 0, first)


def _ini(sections: Sections, slide: str, layers: list[_Layer], files: int) -> bytes:
    general, tree = sections["GENERAL"], sections["HIERARCHICAL"]
    zooms = read_whole_number(tree, "HIER_0_COUNT", _MOST_LEVELS)
    written: dict[str, dict[str, object]] = {
        "GENERAL": {"SLIDE_VERSION": general["SLIDE_VERSION"], "SLIDE_ID": slide}
        | select_pairs(general, _GENERAL)
    }
    names = list(dict.fromkeys(layer.layer for layer in layers))
    hier: dict[str, object] = {"HIER_COUNT": 1, "NONHIER_COUNT": len(names), "INDEXFILE": "Index.dat"}
    hier |= {"HIER_0_NAME": _ZOOM, "HIER_0_COUNT": zooms, "HIER_0_SECTION": "LAYER_0_SECTION"}
    sections_of: dict[str, dict[str, object]] = {}
    for zoom in range(zooms):
        section = f"LAYER_0_LEVEL_{zoom}_SECTION"
        hier |= {f"HIER_0_VAL_{zoom}": f"ZoomLevel_{zoom}", f"HIER_0_VAL_{zoom}_SECTION": section}
        sections_of[section] = select_pairs(
            sections.get(tree.get(f"HIER_0_VAL_{zoom}_SECTION", ""), {}), _LEVEL
        )
        if "IMAGE_FORMAT" not in sections_of[section]:
            raise Quarantined("slide-compression", "structure")
    for number, name in enumerate(names):
        own = [layer for layer in layers if layer.layer == name]
        hier |= {
            f"NONHIER_{number}_NAME": name,
            f"NONHIER_{number}_COUNT": len(own),
            f"NONHIER_{number}_SECTION": f"NONHIERLAYER_{number}_SECTION",
        }
        for position, layer in enumerate(own):
            section = f"NONHIERLAYER_{number}_LEVEL_{position}_SECTION"
            hier |= {
                f"NONHIER_{number}_VAL_{position}": layer.value,
                f"NONHIER_{number}_VAL_{position}_SECTION": section,
            }
            sections_of[section] = layer.section
    written["HIERARCHICAL"] = hier
    written["DATAFILE"] = {"FILE_COUNT": files} | {
        f"FILE_{number}": f"Data{number:04d}.dat" for number in range(files)
    }
    return write_ini(written | sections_of)


def _facts(sections: Sections, levels: int, tree: dict[str, str]) -> SlideFacts:
    general = sections["GENERAL"]
    first = sections.get(tree.get("HIER_0_VAL_0_SECTION", ""), {})
    wide = read_whole_number(general, "IMAGENUMBER_X", 1 << 20) * int(
        float(first.get("DIGITIZER_WIDTH", "0") or 0)
    )
    high = read_whole_number(general, "IMAGENUMBER_Y", 1 << 20) * int(
        float(first.get("DIGITIZER_HEIGHT", "0") or 0)
    )
    mpp, power = first.get("MICROMETER_PER_PIXEL_X", ""), general.get("OBJECTIVE_MAGNIFICATION", "")
    return SlideFacts(
        NAME,
        tuple((wide >> level, high >> level) for level in range(levels)),
        float(mpp) if REAL.fullmatch(mpp) else None,
        float(power) if WHOLE.fullmatch(power) else None,
    )


def _blank_jpeg() -> bytes:
    """Return a white JPEG of 8 x 8 pixels for the ``.mrxs`` file, which viewers require to be a JPEG."""
    import io

    from PIL import Image

    out = io.BytesIO()
    Image.new("L", (8, 8), 255).save(out, "JPEG", quality=90)
    return out.getvalue()
