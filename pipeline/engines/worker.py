"""The worker of a process: sanitizers, built once, and what it sent or created recently."""

from __future__ import annotations

import mmap
import os
import secrets
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from medsanitize.errors import EnvironmentFailure
from medsanitize.pipeline.runtime.encryption import Seal
from medsanitize.pipeline.storage.containers.reader import set_container_folder
from medsanitize.pipeline.storage.spool import set_spool_folder
from medsanitize.policies.model import Policy
from medsanitize.sanitize.context import Context, KnownValue
from medsanitize.sanitize.pseudonyms import SubKeys
from medsanitize.sanitize.result import Sanitized

if TYPE_CHECKING:
    from medsanitize.sanitize.dicom.dicom_sanitizer import DicomSanitizer
    from medsanitize.sanitize.raster.raster_sanitizer import RasterSanitizer
    from medsanitize.sanitize.wsi.slide_sanitizer import SlideSanitizer
    from medsanitize.verifiers.leaks.identifier_search import IdentifierSearch

_RECENT = 8192
_RECENT_OWNERS = 64


@dataclass(frozen=True, slots=True, repr=False)
class Setup:
    """Settings of every worker of a run.

    Attributes
    ----------
    staging : Path or None
        The staging folder; None if nothing may be written.
    keep_links : bool
        Whether links and review items, which contain PHI, are kept at all.
    search : IdentifierSearch or None
        The identifier search of the audit, once the engine has it.
    unpacked : Path or None
        Folder of files from containers; None for a temporary one of each process.
    """

    policy: Policy
    subkeys: SubKeys
    staging: Path | None
    keep_links: bool
    search: IdentifierSearch | None = None
    unpacked: Path | None = None

    def __repr__(self) -> str:
        return "Setup(...)"

    def worker(self) -> Worker:
        """Create the worker of this process."""
        return Worker(self)


class Worker:
    """The sanitizers of one process, built on first use; ``token`` identifies the worker."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.seal = Seal(setup.subkeys)
        set_spool_folder(setup.policy.state)
        set_container_folder(setup.unpacked, setup.policy.containers.limits)
        self.token = secrets.token_hex(8)
        self._folders: set[str] = set()
        self._links: set[tuple[str, str]] = set()
        self._review_items: set[bytes] = set()
        self._patients: set[bytes] = set()
        self._demographics: set[tuple[bytes, bytes]] = set()
        self._known: dict[bytes, frozenset[KnownValue]] = {}

    def sanitize(self, content: bytes | mmap.mmap, context: Context) -> Sanitized:
        """Sanitize one object with the sanitizer for its content."""
        from medsanitize.sanitize.raster.raster_sanitizer import is_raster

        return (self.raster_sanitizer if is_raster(content) else self.sanitizer)(content, context)

    @cached_property
    def sanitizer(self) -> DicomSanitizer:
        """The sanitizer for DICOM objects."""
        from medsanitize.sanitize.dicom.dicom_sanitizer import DicomSanitizer

        return DicomSanitizer(self.setup.policy, self.setup.subkeys)

    @cached_property
    def raster_sanitizer(self) -> RasterSanitizer:
        """The sanitizer for pictures."""
        from medsanitize.sanitize.raster.raster_sanitizer import RasterSanitizer

        return RasterSanitizer(self.setup.policy, self.setup.subkeys)

    @cached_property
    def slide_sanitizer(self) -> SlideSanitizer:
        """The sanitizer for whole-slide images."""
        from medsanitize.sanitize.wsi.slide_sanitizer import SlideSanitizer

        return SlideSanitizer(self.setup.policy, self.setup.subkeys)

    @cached_property
    def kept(self) -> frozenset[int]:
        """Attributes that the policy keeps; their values need not be removed elsewhere."""
        from medsanitize.sanitize.dicom.inspect_dicom import kept_attributes

        return kept_attributes(self.setup.policy.dicom)

    @property
    def search(self) -> IdentifierSearch | None:
        """The identifier search of the audit, once the engine has it."""
        return self.setup.search

    def ensure_folder(self, folder: str) -> None:
        """Create a folder in staging, unless this worker did so recently.

        Raises
        ------
        EnvironmentFailure
            There is no staging folder; only the main process creates and removes it.
        """
        if folder not in self._folders:
            try:
                _make_folder_below(str(self.setup.staging), folder)
            except FileNotFoundError:
                raise staging_removed() from None
            if len(self._folders) >= _RECENT:
                self._folders.clear()
            self._folders.add(folder)

    def is_new_link(self, link: tuple[str, str]) -> bool:
        """Report whether this worker has not sent the pair recently (older pairs are sent again)."""
        if link in self._links:
            return False
        if len(self._links) >= _RECENT:
            # Cleared, not evicted: sending a row twice is harmless, since inserts ignore duplicates.
            self._links.clear()
        self._links.add(link)
        return True

    def is_new_review_item(self, name: bytes) -> bool:
        """Report whether this worker has not sent the review item recently."""
        if name in self._review_items:
            return False
        if len(self._review_items) >= _RECENT:
            self._review_items.clear()
        self._review_items.add(name)
        return True

    def is_new_patient(self, patient: bytes) -> bool:
        """Report whether this worker has not sent the patient's row recently."""
        if patient in self._patients:
            return False
        if len(self._patients) >= _RECENT:
            self._patients.clear()
        self._patients.add(patient)
        return True

    def is_new_demographics(self, name: tuple[bytes, bytes]) -> bool:
        """Report whether this worker has not sent what objects state about a patient recently."""
        if name in self._demographics:
            return False
        if len(self._demographics) >= _RECENT:
            self._demographics.clear()
        self._demographics.add(name)
        return True

    def filter_recently_sent(self, owner: bytes, known: frozenset[KnownValue]) -> frozenset[KnownValue]:
        """Return the identifiers of ``owner`` that this worker has not sent recently."""
        before = self._known.get(owner, frozenset())
        new = known - before
        if new:
            if len(self._known) >= _RECENT_OWNERS or len(before) > _RECENT:
                self._known.clear()
            self._known[owner] = before | known
        return new


def _make_folder_below(root: str, folder: str) -> None:
    if folder == root:
        # Only the main process may create the root; fails if it does not exist.
        os.stat(root)
        return
    try:
        os.mkdir(folder)
    # Another worker may create the same folder at the same time.
    except FileExistsError:
        return
    except FileNotFoundError:
        _make_folder_below(root, folder.rpartition("/")[0])
        with suppress(FileExistsError):
            os.mkdir(folder)


def staging_removed() -> EnvironmentFailure:
    """Return the error for a missing staging folder."""
    return EnvironmentFailure(
        "The staging folder of the release no longer exists",
        "Check that the output folder is mounted, then run the same command again",
    )
