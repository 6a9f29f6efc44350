"""Header of a slice as the face check needs it: series, geometry, and the stated body part."""

from __future__ import annotations

import json
from dataclasses import dataclass

from medsanitize.policies.model import Limits
from medsanitize.sanitize.context import VOLUME_SOP_CLASSES
from medsanitize.sanitize.formats.dicom.elements import read_element_header, skip_undefined
from medsanitize.sanitize.formats.dicom.file import open_dicom
from medsanitize.sanitize.formats.dicom.transfer_syntax import UNDEFINED, Layout
from medsanitize.sanitize.formats.file_type import Buffer
from medsanitize.sanitize.quarantine import Quarantined

_CLASS, _MODALITY, _SERIES, _FRAME = 0x00080016, 0x00080060, 0x0020000E, 0x00200052
_IMAGE_TYPE, _BODY_PART, _STUDY_TEXT, _SERIES_TEXT, _PROTOCOL = (
    0x00080008,
    0x00180015,
    0x00081030,
    0x0008103E,
    0x00181030,
)
_POSITION, _ORIENTATION, _SPACING, _ROWS, _COLUMNS, _FRAMES = (
    0x00200032,
    0x00200037,
    0x00280030,
    0x00280010,
    0x00280011,
    0x00280008,
)
_TAGS_READ = frozenset(
    [
        *(_CLASS, _MODALITY, _SERIES, _FRAME, _IMAGE_TYPE, _BODY_PART, _STUDY_TEXT, _SERIES_TEXT, _PROTOCOL),
        *(_POSITION, _ORIENTATION, _SPACING, _ROWS, _COLUMNS, _FRAMES),
    ]
)
_MAX_VALUE_BYTES = 1024

_MODALITIES = frozenset(["CT", "MR", "PT"])
_CAPTURES = "1.2.840.10008.5.1.4.1.1.7"
_HEAD = tuple(
    "HEAD BRAIN FACE FACIAL SKULL SINUS ORBIT NECK JAW CRAN NEURO MANDIB MAXILL DENTAL EAR IAC EYE NOSE "
    "TONGUE CSPINE CERV WHOLE TEMPORAL".split()
)
_NOT_HEAD = frozenset(
    "ABDOMEN CHEST THORAX PELVIS HAND FOOT KNEE HIP LEG ARM ELBOW WRIST ANKLE SHOULDER BREAST HEART LUNG "
    "LIVER KIDNEY PROSTATE LSPINE TSPINE FEMUR TIBIA COLON PANCREAS UTERUS ABDOMENPELVIS CHESTABDOMEN "
    "CHESTABDPELVIS CALF THIGH SSPINE LSSPINE COCCYX SACRUM RECTUM BLADDER".split()
)


@dataclass(frozen=True, slots=True)
class SliceHeader:
    """Header of an image that may show a part of a head.

    Attributes
    ----------
    series, frame_of_reference : str
        UIDs; empty when absent.
    modality : str
        ``CT``, ``MR`` or ``PT``.
    rows, columns, frames : int
    numbers : tuple of tuple of float
        Position (3 values), orientation (6) and spacing (2); empty when they are stated per frame or absent.
    projection : bool
        Whether the image is a CT localizer, which is no slice.
    elsewhere : bool
        Whether the header names another body part.
    """

    series: str
    frame_of_reference: str
    modality: str
    rows: int
    columns: int
    frames: int
    numbers: tuple[tuple[float, ...], ...]
    projection: bool
    elsewhere: bool

    def geometry(self) -> str:
        """Serialize all fields except the UIDs and ``projection`` for the encrypted state."""
        facts = (self.modality, self.rows, self.columns, self.frames, self.numbers, self.elsewhere)
        return json.dumps(facts)


def read_slice(data: Buffer, limits: Limits) -> SliceHeader | None:
    """Read the header of a slice; return None when the object is not a slice of a volume.

    No content raises an exception: `DicomSanitizer` quarantines what cannot be read.

    Parameters
    ----------
    data : bytes or mmap
    limits : Limits
    """
    try:
        container = open_dicom(data, limits)
        layout = container.syntax.layout
        if container.sop_class not in VOLUME_SOP_CLASSES and container.sop_class not in ("", _CAPTURES):
            return None
        found = _scan(container.buf, container.start, layout, limits.depth)
    except Quarantined:
        return None
    texts = {tag: value.decode("latin-1").strip(" \0") for tag, value in found.items()}
    modality = texts.get(_MODALITY, "").upper()
    # Captures and objects without a class count by their modality: they may be slices as well.
    volume = texts.get(_CLASS, container.sop_class) in VOLUME_SOP_CLASSES
    if _ROWS not in found or not (volume or modality in _MODALITIES):
        return None
    order = "big" if layout.big else "little"
    kinds = texts.get(_IMAGE_TYPE, "").upper().split("\\")
    return SliceHeader(
        series=texts.get(_SERIES, ""),
        frame_of_reference=texts.get(_FRAME, ""),
        modality=modality if modality in _MODALITIES else "CT" if ".13.1." in texts.get(_CLASS, "") else "MR",
        rows=int.from_bytes(found[_ROWS][:2], order),  # type: ignore[arg-type]
        columns=int.from_bytes(found.get(_COLUMNS, b"")[:2], order),  # type: ignore[arg-type]
        frames=_count(texts.get(_FRAMES, "")),
        numbers=tuple(_numbers(texts.get(tag, "")) for tag in (_POSITION, _ORIENTATION, _SPACING)),
        # Localizers of CT are projections; those of MR are slices.
        projection=modality == "CT" and any("LOCALIZER" in kind or "SCOUT" in kind for kind in kinds),
        elsewhere=_elsewhere(texts),
    )


def _scan(buf: Buffer, pos: int, layout: Layout, depth: int) -> dict[int, bytes]:
    """Values of the wanted top-level elements, up to where the data set can be read."""
    found: dict[int, bytes] = {}
    end = len(buf)
    while end - pos >= 8:
        tag, vr, length, start = read_element_header(buf, pos, end, layout)
        if tag > _SPACING:
            break
        if length == UNDEFINED:
            pos = skip_undefined(buf, start, end, vr, layout, depth)
            continue
        pos = start + length
        if tag in _TAGS_READ and length <= _MAX_VALUE_BYTES:
            found.setdefault(tag, bytes(buf[start : min(pos, end)]))
    return found


def _numbers(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split("\\")) if text else ()
    except ValueError:
        return ()


def _count(text: str) -> int:
    return max(1, int(text)) if text.isascii() and text.isdigit() and len(text) < 8 else 1


def _elsewhere(texts: dict[int, str]) -> bool:
    """Whether the header names a body part without a face, and none of the head."""
    part = "".join(texts.get(_BODY_PART, "").split()).upper()
    said = " ".join(texts.get(tag, "") for tag in (_BODY_PART, _STUDY_TEXT, _SERIES_TEXT, _PROTOCOL)).upper()
    words = said.replace("_", " ").replace("-", " ").replace("/", " ").split()
    if any(word.startswith(_HEAD) for word in words):
        return False
    return part in _NOT_HEAD or (not part and any(word in _NOT_HEAD for word in words))
