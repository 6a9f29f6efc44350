"""The command ``send``: verifies a release and sends to a PACS the objects that it does not have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any, Protocol

from medsanitize.errors import IntegrityError, UsageError
from medsanitize.pipeline.storage.pacs.address import DimsePeer, WebService, target_of
from medsanitize.pipeline.storage.pacs.pacs_retry import (
    OBJECT_PAUSE_SECONDS,
    ObjectRefused,
    ServiceNotOffered,
    with_retries,
)
from medsanitize.progress import Cancellation, Progress
from medsanitize.release.manifest import read_objects
from medsanitize.release.verify import verify_release

_COLUMNS = ("path", "kind", "sop_class", "transfer_syntax", "study", "series", "instance")


@dataclass(frozen=True, slots=True)
class SendResult:
    """Result of sending a release's DICOM objects.

    Attributes
    ----------
    objects, sent, present, changed
        Number of objects in all, sent, present before, and sent but changed by the PACS.
    not_dicom
        Number of objects of the release that are not DICOM.
    queried
        Whether the PACS could be queried for what it has.
    refused
        Number of refused objects by the PACS's answer.
    """

    objects: int
    sent: int
    present: int
    changed: int = 0
    not_dicom: int = 0
    queried: bool = True
    refused: Mapping[str, int] = field(default_factory=dict)


class Receiver(Protocol):
    """A PACS that receives objects; each call is one attempt."""

    def check(self) -> None:
        """Check that it answers and accepts us."""

    def present(self, study: str, series: str) -> set[str]:
        """Return the SOP Instance UIDs of a series that it has, or raise ``ServiceNotOffered``."""

    def store(self, file: Path, sop_class: str, transfer_syntax: str) -> bool:
        """Send one file unchanged; return whether it was stored unchanged."""

    def close(self) -> None:
        """Close every connection."""


def send(
    release: Path,
    target: str,
    progress: Progress,
    cancellation: Cancellation,
    *,
    key: Path | None = None,
    calling: str = "MEDSANITIZE",
    credential: tuple[str, str] = ("", ""),
) -> SendResult:
    """Verify a release, then send its DICOM objects to a PACS; a repeated call sends what is missing.

    Parameters
    ----------
    release : Path
        Folder of the release; only read.
    target : str
        URL of a DICOMweb service, or ``AET@host:port``.
    progress : Progress
        Receives the number of objects.
    cancellation : Cancellation
        Checked between objects.
    key : Path or None
        Public key that must have signed the release.
    calling : str
        Our AE title.
    credential : tuple of str
        ``token`` or ``login``, and the environment variable that holds it.

    Returns
    -------
    SendResult
        Number of objects by outcome.

    Raises
    ------
    UsageError
        The target is invalid, or the environment variable of the credential is not set.
    IntegrityError
        The release is not intact; nothing was sent.
    EnvironmentFailure
        The PACS is unreachable or denies access.
    Cancelled
        A signal arrived; the same call resumes.
    """
    who = target_of(target, calling, *credential)
    # Verified first: a changed object must not reach a PACS.
    found = verify_release(release, key=key)
    if found.status != "intact":
        raise IntegrityError(
            "The release is not intact, and nothing was sent", "See what is wrong with: medsanitize verify"
        )
    # An association proposes its pairs when it is opened, so all must be known in advance.
    pairs, objects, not_dicom = _scan_release(release)
    receiver = _receiver(who, sorted(pairs))
    progress.stage("send", objects)
    try:
        with_retries(who, receiver.check, OBJECT_PAUSE_SECONDS)
        return _Sending(release, receiver, who, progress, cancellation).all(objects, not_dicom)
    finally:
        receiver.close()


def _receiver(who: WebService | DimsePeer, pairs: list[tuple[str, str]]) -> Receiver:
    if isinstance(who, DimsePeer):
        from medsanitize.pipeline.storage.pacs.cstore import DimseReceiver

        return DimseReceiver(who, pairs)
    from medsanitize.pipeline.storage.pacs.stow_rs import WebReceiver

    return WebReceiver(who)


def _scan_release(release: Path) -> tuple[set[tuple[str, str]], int, int]:
    """Return the pairs of SOP class and transfer syntax, the number of DICOM objects, and of others."""
    pairs: set[tuple[str, str]] = set()
    objects = not_dicom = 0
    for row in _rows(release):
        if row["kind"] == "dicom":
            pairs.add((row["sop_class"], row["transfer_syntax"]))
            objects += 1
        else:
            not_dicom += 1
    if not objects:
        raise UsageError("The release contains no DICOM objects", "There is nothing to send")
    return pairs, objects, not_dicom


def _rows(release: Path) -> Iterator[dict[str, Any]]:
    return (row for batch in read_objects(release, list(_COLUMNS)) for row in batch.to_pylist())


class _Sending:
    """One pass over a release, series by series."""

    def __init__(
        self, release: Path, receiver: Receiver, who: object, progress: Progress, cancellation: Cancellation
    ) -> None:
        self._release, self._receiver, self._who = release, receiver, who
        self._progress, self._stop = progress, cancellation
        self._counts: Counter[str] = Counter()
        self._refused: Counter[str] = Counter()
        self._queried = True

    def all(self, objects: int, not_dicom: int) -> SendResult:
        """Send the objects that the PACS does not have."""
        rows = (row for row in _rows(self._release) if row["kind"] == "dicom")
        # The manifest is sorted by pseudonyms, so the objects of a series are consecutive.
        for (study, series), group in groupby(rows, key=lambda row: (row["study"], row["series"])):
            known = self._present(study, series)
            for row in group:
                self._stop.check()
                if row["instance"] in known:
                    self._counts["present"] += 1
                else:
                    self._send_object(row)
                self._progress.advance(1)
        counts, refused = self._counts, dict(sorted(self._refused.items()))
        return SendResult(
            objects, counts["sent"], counts["present"], counts["changed"], not_dicom, self._queried, refused
        )

    def _present(self, study: str, series: str) -> set[str]:
        if not (self._queried and study and series):
            return set()
        try:
            return with_retries(self._who, lambda: self._receiver.present(study, series))
        except ServiceNotOffered:
            self._queried = False
            self._progress.message("The PACS cannot be queried for what it has, so everything is sent.")
            return set()

    def _send_object(self, row: Mapping[str, Any]) -> None:
        file = self._release / row["path"]
        store: Callable[[], bool] = lambda: self._receiver.store(  # noqa: E731
            file, row["sop_class"], row["transfer_syntax"]
        )
        try:
            # An object that the PACS refuses will be refused again; the others are still sent.
            unchanged = with_retries(self._who, store, few=())
        except ObjectRefused as answer:
            self._refused[str(answer)] += 1
            return
        self._counts["sent"] += 1
        self._counts["changed"] += not unchanged
