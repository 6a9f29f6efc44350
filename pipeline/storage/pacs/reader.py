"""The reader of a PACS: lists studies, series and instances, and retrieves objects as stored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from typing import Protocol

from medsanitize.errors import UsageError
from medsanitize.pipeline.storage.pacs.address import (
    PACS_NAME,
    DimsePeer,
    Instance,
    address_of,
    instance_in,
    parse_service,
    selection_in,
)
from medsanitize.pipeline.storage.pacs.match_keys import Answer, first_ignored_key
from medsanitize.pipeline.storage.pacs.pacs_retry import (
    OBJECT_PAUSE_SECONDS,
    PAUSE_SECONDS,
    ObjectRefused,
    PacsUnreachable,
    with_retries,
)
from medsanitize.pipeline.storage.pacs.worklist import read_worklist
from medsanitize.pipeline.storage.protocol import UNKNOWN_VERSION, OpenedSource, SourceEntry, SourceProblem
from medsanitize.policies.inputs import SERIES_KEYS, STUDY_KEYS

# UIDs become part of addresses: anything but digits and dots could break them.
_UID_CHARACTERS = frozenset("0123456789.")


class PacsConnection(Protocol):
    """A connection to a PACS; each call is one attempt, ``TransientFailure`` if a retry may help."""

    def check(self) -> None:
        """Check that the service answers and accepts us."""

    def check_port(self) -> None:
        """Check that our port is free, if objects are delivered to a port."""

    def find(self, above: tuple[str, ...], keys: Mapping[str, str]) -> list[Answer]:
        """Query the studies, the series of a study or the instances of a series that match the keys."""

    def fetch(self, wanted: Instance) -> bytes:
        """Retrieve one object as DICOM Part 10, as stored; raises ``ObjectRefused`` if the peer refuses."""

    def close(self) -> None:
        """Close every connection; the next call opens new ones."""


_LEVELS = ("StudyInstanceUID", "SeriesInstanceUID", "SOPInstanceUID")
_COUNT_KEYWORDS = ("NumberOfStudyRelatedSeries", "NumberOfSeriesRelatedInstances")


class PacsReader:
    """Reads one service; connections are reused between calls."""

    def __init__(self, service: bytes, peer: PacsConnection, name: str = PACS_NAME) -> None:
        self._service = service
        self._name = name
        self.peer = peer

    def check(self) -> None:
        """Check that the service and our port are usable, with a few retries.

        Raises
        ------
        EnvironmentFailure
            The service is unreachable or denies access.
        """
        self._check_service()
        self.peer.check_port()

    def walk(self, root: bytes) -> Iterator[SourceEntry]:
        """Yield every instance of the studies that a worklist or a query selects.

        Studies follow the order of the sorted worklist entries, else of their UIDs; series and instances the
        order of their UIDs. Sizes and versions are unknown (``UNKNOWN_VERSION``). A worklist entry without a
        study yields ``absent``; a study or series that lists fewer objects than it counts yields one more
        ``short`` entry.

        Raises
        ------
        EnvironmentFailure
            The service fails after all retries.
        UsageError
            The worklist is invalid, or the service ignores a key of the query.
        """
        try:
            worklist, query = selection_in(root)
            in_study = {key: value for key, value in query.items() if key in STUDY_KEYS}
            in_series = {key: value for key, value in query.items() if key in SERIES_KEYS}
            column, entries = read_worklist(worklist, query) if worklist else ("", [""])
            met: set[str] = set()
            for entry in entries:
                found = self._found((), {**in_study, column: entry} if column else in_study)
                if column and not found:
                    yield SourceEntry(address_of(self._service, f"{column}={entry}"), "absent")
                for study, answer in found:
                    if study not in met:
                        met.add(study)
                        yield from self._study(study, answer, in_series)
        finally:
            self.peer.close()

    def _study(self, study: str, said: Answer, keys: Mapping[str, str]) -> Iterator[SourceEntry]:
        # With series keys the study's count does not apply to the answer.
        promised = 0 if keys else _stated_count(said, 0)
        listed = self._found((study,), keys, promised)
        for series, answer in listed:
            instances = self._found((study, series), {}, _stated_count(answer, 1))
            for instance, what in instances:
                sop_class = (what.get("SOPClassUID") or ("",))[0]
                parts = (study, series, instance, sop_class if _UID_CHARACTERS.issuperset(sop_class) else "")
                yield SourceEntry(address_of(self._service, *parts), "file", 0, UNKNOWN_VERSION)
            if len(instances) < _stated_count(answer, 1):
                yield SourceEntry(address_of(self._service, study, series), "short")
        if len(listed) < promised:
            yield SourceEntry(address_of(self._service, study), "short")

    def _found(
        self, above: tuple[str, ...], keys: Mapping[str, str], promised: int = 0
    ) -> list[tuple[str, Answer]]:
        """Query entries by UID, again if there are fewer than the count promised."""
        found: dict[str, Answer] = {}

        def ask() -> None:
            found.update(self._checked(_LEVELS[len(above)], keys, self.peer.find(above, keys)))
            if len(found) < promised:
                raise ObjectRefused("a list in part")

        with suppress(ObjectRefused):
            with_retries(self._name, ask)
        return sorted(found.items())

    def _checked(
        self, level: str, keys: Mapping[str, str], answers: Sequence[Answer]
    ) -> Iterator[tuple[str, Answer]]:
        """Yield answers by UID, after checking that each one matches the keys."""
        # A peer that ignores a key would let studies of other patients into the release.
        met = [first_ignored_key(keys, answer) for answer in answers]
        others = [key for key in met if key is not None]
        if others:
            raise UsageError(
                f"{self._name} does not match by {others[0]}: {len(others):,} of its {len(met):,} answers "
                "are other studies or series, or cannot be compared",
                "Choose by another key, or by a worklist of StudyInstanceUID",
            )
        for answer in answers:
            uid = (answer.get(level) or ("",))[0]
            if not uid or not _UID_CHARACTERS.issuperset(uid):
                raise UsageError(
                    f"{self._name} lists an entry without a valid {level}", "Correct it in the PACS"
                )
            yield uid, answer

    @contextmanager
    def opened(self, path: bytes) -> Iterator[OpenedSource]:
        """Provide one instance as DICOM Part 10, exactly as sent; its version is a digest of its bytes.

        Raises
        ------
        SourceProblem
            ``not-given-by-peer``.
        EnvironmentFailure
            The service fails after all retries.
        """
        content = self._fetched(instance_in(path))
        digest = int.from_bytes(sha256(content).digest(), "big")
        yield OpenedSource(content, len(content), (digest, 0, 0))

    def _fetched(self, wanted: Instance) -> bytes:
        """Retrieve an object; it is at fault only if the service works before and after a second failure."""
        try:
            return with_retries(self._name, lambda: self.peer.fetch(wanted), PAUSE_SECONDS)
        except (ObjectRefused, PacsUnreachable):
            self._check_service()
        try:
            return with_retries(self._name, lambda: self.peer.fetch(wanted), OBJECT_PAUSE_SECONDS)
        except (ObjectRefused, PacsUnreachable):
            self._check_service()
        raise SourceProblem("not-given-by-peer")

    def _check_service(self) -> None:
        with_retries(self._name, self.peer.check, OBJECT_PAUSE_SECONDS)


def _stated_count(answer: Answer, level: int) -> int:
    """Return the count that a study or series states; at least 1, since an empty one would not be listed."""
    text = (answer.get(_COUNT_KEYWORDS[level]) or ("",))[0].strip()
    return max(1, int(text)) if text.isdecimal() else 1


def reader(service: bytes, name: str = PACS_NAME) -> PacsReader:
    """Create the reader of a service; messages use ``name`` for it.

    Raises
    ------
    UsageError
        The environment variable of a credential is not set.
    """
    who = parse_service(service, name)
    if isinstance(who, DimsePeer):
        from medsanitize.pipeline.storage.pacs.cfind_cget import DimseConnection

        return PacsReader(service, DimseConnection(who), name)
    from medsanitize.pipeline.storage.pacs.dicomweb import WebConnection

    return PacsReader(service, WebConnection(who), name)
