"""Sending by STOW-RS: each file as it is, in a request of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from medsanitize.errors import EnvironmentFailure
from medsanitize.pipeline.pacs.address import WebService
from medsanitize.pipeline.pacs.patience import NotGiven
from medsanitize.pipeline.pacs.web import WebConnection

_BOUNDARY: Final = "medsanitize-7d1f0c0e5b7a4f7f"
_HEAD: Final = f"--{_BOUNDARY}\r\nContent-Type: application/dicom\r\n\r\n".encode()
_TAIL: Final = f"\r\n--{_BOUNDARY}--\r\n".encode()
_FAILED: Final = "00081198"
_PIECE: Final = 2**20


class WebReceiver:
    """A DICOMweb service that objects are sent to."""

    def __init__(self, service: WebService) -> None:
        self._connection = WebConnection(service)

    def check(self) -> None:
        """Ask for a study that nobody has."""
        self._connection.check()

    def present(self, study: str, series: str) -> set[str]:
        """What the service has of a series, by QIDO-RS."""
        answers = self._connection.find((study, series), {})
        return {uid for answer in answers for uid in answer.get("SOPInstanceUID", ())}

    def store(self, file: Path, sop_class: str, transfer_syntax: str) -> bool:  # noqa: ARG002
        """One request; the file is never in memory as a whole."""
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
        if status != 200 or _failed(said):  # 202: stored in part, which of one object is not at all
            raise NotGiven(f"HTTP status {status}" if status != 200 else "listed as failed")
        return True

    def close(self) -> None:
        """Close the connections."""
        self._connection.close()


class _Body:
    """The body of a request: its length is known, and it is read while it is sent."""

    def __init__(self, file: Path, size: int) -> None:
        self._file, self._size = file, size

    def __len__(self) -> int:
        return len(_HEAD) + self._size + len(_TAIL)

    def __iter__(self) -> Iterator[bytes]:
        yield _HEAD
        with self._file.open("rb") as opened:
            while piece := opened.read(_PIECE):
                yield piece
        yield _TAIL


def _failed(said: Any) -> bool:
    sequence = said.get(_FAILED) if isinstance(said, dict) else None
    return isinstance(sequence, dict) and bool(sequence.get("Value"))
