"""Transmission by STOW-RS: each file unchanged, one per request."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from medsanitize.errors import EnvironmentFailure
from medsanitize.pipeline.storage.pacs.address import WebService
from medsanitize.pipeline.storage.pacs.dicomweb import WebConnection
from medsanitize.pipeline.storage.pacs.pacs_retry import ObjectRefused

# The boundary is fixed and long; a release never contains it by chance.
_BOUNDARY: Final = "medsanitize-7d1f0c0e5b7a4f7f"
_HEAD: Final = f"--{_BOUNDARY}\r\nContent-Type: application/dicom\r\n\r\n".encode()
_TAIL: Final = f"\r\n--{_BOUNDARY}--\r\n".encode()
_FAILED: Final = "00081198"
_REFERENCED: Final = "00081199"
_WARNING: Final = "00081196"
_BLOCK: Final = 2**20


class WebReceiver:
    """A DICOMweb service that receives objects."""

    def __init__(self, service: WebService) -> None:
        self._connection = WebConnection(service)

    def check(self) -> None:
        """Query for a study that does not exist."""
        self._connection.check()

    def present(self, study: str, series: str) -> set[str]:
        """Return the SOP Instance UIDs of a series that the service has, by QIDO-RS."""
        answers = self._connection.find((study, series), {})
        return {uid for answer in answers for uid in answer.get("SOPInstanceUID", ())}

    def store(self, file: Path, sop_class: str, transfer_syntax: str) -> bool:  # noqa: ARG002
        """Send one request; the file is streamed."""
        try:
            size = file.stat().st_size
        except OSError:
            raise EnvironmentFailure(
                "The release cannot be read", "Check the disk and the access rights"
            ) from None
        headers = {
            "Content-Type": f'multipart/related; type="application/dicom"; boundary={_BOUNDARY}',
            "Accept": "application/dicom+json",
        }
        status, said = self._connection.post(_Body(file, size), headers)
        # A file that fails is listed in the response even if the status is 200.
        if _items(said, _FAILED):
            raise ObjectRefused("listed as failed")
        taken = _items(said, _REFERENCED)
        # 202: stored with a warning, which the item of the object may or may not contain.
        if not taken and status != 200:
            raise ObjectRefused(f"HTTP status {status}")
        return not any(_values(one, _WARNING) for one in taken)

    def close(self) -> None:
        """Close the connections."""
        self._connection.close()


class _Body:
    """The body of a request: of known length, read while it is sent."""

    def __init__(self, file: Path, size: int) -> None:
        self._file, self._size = file, size

    def __len__(self) -> int:
        return len(_HEAD) + self._size + len(_TAIL)

    def __iter__(self) -> Iterator[bytes]:
        yield _HEAD
        with self._file.open("rb") as opened:
            while piece := opened.read(_BLOCK):
                yield piece
        yield _TAIL


def _items(said: Any, tag: str) -> list[dict[str, Any]]:
    """Return the items of a sequence of the Store Instances Response Module (PS3.18 I.2.2)."""
    return [one for one in _values(said, tag) if isinstance(one, dict)]


def _values(said: Any, tag: str) -> list[Any]:
    element = said.get(tag) if isinstance(said, dict) else None
    values = element.get("Value") if isinstance(element, dict) else None
    return values if isinstance(values, list) else []
