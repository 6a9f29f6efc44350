"""Errors that dicom-validator finds in an object and not in its source.

dicom-validator reads the standard from DocBook that it downloads. Here it gets the modules and attributes of
`policies.tables` instead, and the part of it that makes connections is never imported. These tables have no
conditions and no enumerated values: an attribute of type 1C or 2C and a conditional module may be present or
absent, and a value is checked by its VR only.

Findings are reduced to the attribute, the kind of error and the module: what the validator says of values is
never read.
"""

from __future__ import annotations

import warnings
from collections import Counter
from functools import cache, lru_cache
from importlib.util import find_spec
from io import BufferedReader, FileIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medsanitize.policies.tables.standard import Level, iod_modules
from medsanitize.verifiers.validity.findings import Validity, attribute_name, compared

if TYPE_CHECKING:
    from dicom_validator.validator.dicom_info import DicomInfo
    from dicom_validator.validator.validation_result import TagError, ValidationResult

# What follows where pydicom ends: nothing, or pixel data of either byte order.
_AFTER_HEADER = (b"", b"\xe0\x7f", b"\x7f\xe0")
# PS3.15 E.1.1 requires them of every object: IODs without a patient, such as Color Palette, have no module
# for them, and PS3.4 allows further attributes of the standard in a Standard Extended SOP Class.
_OF_EVERY_RELEASE = frozenset([0x00120062, 0x00120063, 0x00120064, 0x00280303])
_HEADER_BYTES = 8
_FUNCTIONAL_GROUPS = ("(5200,9229)", "(5200,9230)")
# Standing for the module of attributes that no module of the IOD has.
_NO_MODULE = "General"


@cache
def has_dicom_validator() -> bool:
    """Return whether the package is installed."""
    return find_spec("dicom_validator") is not None


def compare_modules(source: Path, released: Path) -> Validity:
    """Compare the errors of a released object with those of its source.

    Parameters
    ----------
    source, released : Path
        Files of any transfer syntax.

    Returns
    -------
    Validity
        Not judged if dicom-validator is not installed, pydicom does not read the source, or its SOP class is
        not in the tables. That this holds for the released object alone is an error of its own.
    """
    if not has_dicom_validator():
        return Validity(judged=False)
    before = _errors(source)
    return compared(before, None if before is None else _errors(released))


def _errors(path: Path) -> Counter[str] | None:
    from dicom_validator.validator.iod_validator import IODValidator
    from dicom_validator.validator.validation_result import Status
    from pydicom import config, dcmread

    mode = config.settings.reading_validation_mode
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # pydicom's quote values
            # A wrong value is to be found, not to end the reading.
            config.settings.reading_validation_mode = config.IGNORE
            with _Watched(path.open("rb", buffering=0)) as file:
                data_set = dcmread(file, force=True, stop_before_pixels=True)
                if not file.was_read_to_the_end():
                    return None
            known = _standard(str(data_set.SOPClassUID))
            found = IODValidator(data_set, known, error_handler=_Silent()).validate()
    except Exception:  # noqa: BLE001  whatever ends the reading, nothing was judged
        return None
    finally:
        config.settings.reading_validation_mode = mode
    if found.status not in (Status.Passed, Status.Failed):
        return None
    return Counter(
        _kind(module, (*(tag.parents or ()), tag.tag), error)
        for module, errors in found.module_errors.items()
        for tag, error in errors.items()
        if not (module == _NO_MODULE and tag.tag in _OF_EVERY_RELEASE)
    )


class _Watched(BufferedReader):
    """A file that knows whether pydicom read all of it: it ends without a word at what it cannot read."""

    def __init__(self, raw: FileIO) -> None:
        super().__init__(raw)
        self._short = False

    def read(self, size: int | None = -1, /) -> bytes:
        """Read as the base class does, and note a value that goes past the end of the file."""
        found = super().read(size)
        wanted = size or 0
        # Behind the last element, the header of another one is looked for.
        self._short |= len(found) < wanted and (bool(found) or wanted > _HEADER_BYTES)
        return found

    def was_read_to_the_end(self) -> bool:
        """Return whether every value was complete, and nothing or pixel data follows."""
        return not self._short and super().read(4)[:2] in _AFTER_HEADER


class _Silent:
    """Takes the place of the handler that logs findings together with their values."""

    def handle_validation_start(self, result: ValidationResult) -> None:
        """Do nothing."""

    def handle_validation_result(self, result: ValidationResult) -> None:
        """Do nothing."""


def _kind(module: str, path: tuple[int, ...], error: TagError) -> str:
    """The place, kind and module of a finding, none of which is a value."""
    kind = f"{''.join(map(attribute_name, path))} {error.code.name}"
    return kind if module == _NO_MODULE else f"{kind} Module=<{module}>"


# -- the standard -----------------------------------------------------------------------------


# A release contains few SOP classes.
@lru_cache(maxsize=32)
def _standard(sop_class_uid: str) -> DicomInfo:
    """The IOD of a SOP class in the form that dicom-validator reads from its files."""
    from dicom_validator.validator.dicom_info import DicomInfo

    found = iod_modules(sop_class_uid)
    if found is None:
        return DicomInfo({}, {}, {})
    modules = {one.name: {"ref": one.name, "use": one.usage} for one in found}
    attributes = {one.name: _level(one.attributes) for one in found}
    return DicomInfo({}, {sop_class_uid: {"modules": modules, "group_macros": {}}}, attributes)


def _level(attributes: Level) -> dict[str, Any]:
    return {_place(tag): _attribute(_place(tag), kind, items) for tag, (kind, items) in attributes.items()}


def _attribute(place: str, kind: str, items: Level) -> dict[str, Any]:
    if not items:
        return {"type": kind}
    level = _level(items)
    if place in _FUNCTIONAL_GROUPS:
        # A macro is in one of both sequences, and the tables do not say which macros there must be.
        level = {tag: one | {"type": "3"} for tag, one in level.items()}
    return {"type": kind, "items": level}


def _place(tag: int) -> str:
    return f"({tag >> 16:04x},{tag & 0xFFFF:04x})"
