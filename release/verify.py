"""Verify a release: find changed, missing and added files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any, Literal, Protocol

import pyarrow as pa
from medsanitize.errors import EnvironmentFailure, IntegrityError, UsageError
from medsanitize.release import layout
from medsanitize.release.attestation import load_public_key, open_envelope
from medsanitize.release.canonical_json import document_json
from medsanitize.release.checksums import (
    Checksum,
    FolderEntry,
    digest_file,
    manifest_checksums,
    read_checksums,
    walk_files,
)
from medsanitize.release.manifest import PATIENT_SCHEMA
from medsanitize.release.manifest_file import read_batches
from medsanitize.release.release_json import self_digest
from medsanitize.release.research_index import INDEX_SCHEMA

Fault = Literal[
    "changed", "missing", "added", "unreadable", "not a regular file", "bad signature", "contradictory"
]
_EDITION = re.compile(r"(20\d\d[a-e])?")
_IDENTITY_FIELDS = ("name", "version", "mode", "supersedes")


@dataclass(frozen=True, slots=True)
class VerificationResult:
    """Result of a verification.

    Attributes
    ----------
    status : str
        ``intact`` or ``not intact``.
    signer : str
        ``checked``: the given key signed this release. ``not checked``: the release is signed, but no key was
        given or the signature is wrong. ``unsigned``: there is no attestation.
    problems : tuple of (str, Fault)
        Path and fault of each affected file.
    """

    status: Literal["intact", "not intact"]
    signer: Literal["checked", "not checked", "unsigned"]
    problems: tuple[tuple[str, Fault], ...] = ()

    def __str__(self) -> str:
        signer = {"checked": "signer checked", "not checked": "signer not checked", "unsigned": "unsigned"}
        return f"{self.status}, {signer[self.signer]}"


@dataclass(slots=True)
class _Problems:
    """Collects problems; each path is reported once, with the first fault found."""

    found: dict[str, Fault] = field(default_factory=dict)

    def add(self, path: str, fault: Fault) -> None:
        # Escaped, because file names of a hostile release may contain terminal control sequences.
        self.found.setdefault(path.encode("unicode_escape").decode("ascii"), fault)


class ReleaseFiles(Protocol):
    """The files of a release, in a folder or a store."""

    def walk(self) -> Iterator[FolderEntry]:
        """Yield all files and empty folders, in the order of `layout.path_order`."""

    def digests(self, named: Iterable[Checksum]) -> Iterator[tuple[Checksum, str | None]]:
        """Yield each named file with the SHA-256 of its current bytes; None if it cannot be read."""


@dataclass(frozen=True, slots=True)
class FolderFiles:
    """Files of a local folder."""

    path: Path

    def walk(self) -> Iterator[FolderEntry]:
        """Yield everything below the folder; links are not followed."""
        return walk_files(self.path)

    def digests(self, named: Iterable[Checksum]) -> Iterator[tuple[Checksum, str | None]]:
        """Digest the files one after the other."""
        for one in named:
            try:
                yield one, digest_file(self.path / one.path)
            except OSError:
                yield one, None


def verify_release(
    release: Path, *, key: Path | None, files: ReleaseFiles | None = None
) -> VerificationResult:
    """Compare all files of a release with its evidence.

    Parameters
    ----------
    release : Path
        The release folder, or a local copy of RELEASE.json, SHA256SUMS, attestation and manifests of a
        release in a store. It is only read.
    key : Path or None
        Public key (PEM) of the signer. A release that this key did not sign is not intact.
    files : ReleaseFiles, optional
        All files of the release, if they are not in the folder.

    Returns
    -------
    VerificationResult
        What was found.

    Raises
    ------
    UsageError
        There is no folder, or the key is not a public key.
    EnvironmentFailure
        The folder cannot be read.
    """
    public = None if key is None else load_public_key(key)
    if not release.is_dir():
        raise UsageError(
            "There is no release folder at this path", "Pass the folder that contains RELEASE.json"
        )
    problems = _Problems()
    try:
        root = _check_root(release, problems)
        _check_files(release, files or FolderFiles(release), root, problems)
        _check_manifests(release, problems)
    except OSError:
        raise EnvironmentFailure(
            "The release cannot be read", "Check the disk and the access rights"
        ) from None
    signed = (release / layout.ATTESTATION).is_file()
    checked = False
    if signed:
        checked = _check_attestation(release, root, public, problems)
    # An expected signature that is missing may have been removed together with what it covered.
    elif public is not None:
        problems.add(layout.ATTESTATION, "missing")
    return VerificationResult(
        status="not intact" if problems.found else "intact",
        signer="unsigned" if not signed else "checked" if checked else "not checked",
        problems=tuple(sorted(problems.found.items())),
    )


def _check_root(release: Path, problems: _Problems) -> dict[str, Any]:
    """Return RELEASE.json; an empty mapping if it cannot be trusted."""
    try:
        content = (release / layout.ROOT).read_bytes()
        root = json.loads(content)
        # Only the canonical spelling is accepted, so that equal content always has the same digest.
        if document_json(root) != content or root["digest"] != self_digest(root):
            problems.add(layout.ROOT, "changed")
            return {}
        expected = dict(root["digests"])
        # Unknown paths are refused: they could point out of the release.
        named = all(layout.is_attested_file(path) or path == layout.ATTESTATION for path in expected)
        members = {"format", "digests", "digest", *_IDENTITY_FIELDS}
        # Releases of earlier versions state no edition of the standard.
        standard = root.get("standard", {"PS3.15": ""})
        stated = set(standard) == {"PS3.15"} and _EDITION.fullmatch(standard["PS3.15"])
        fits = set(root) - {"standard"} == members and root["format"] == layout.FORMAT_VERSION
        if not fits or not named or not stated:
            problems.add(layout.ROOT, "contradictory")
            return {}
        _check_digests(release, expected, problems)
    except FileNotFoundError:
        problems.add(layout.ROOT, "missing")
        return {}
    # Every error that malformed JSON can cause; a hostile file must not end verification.
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        problems.add(layout.ROOT, "unreadable")
        return {}
    return dict(root)


def _check_digests(release: Path, expected: dict[str, str], problems: _Problems) -> bool:
    """Whether every named file exists and has its digest."""
    faults: dict[str, Fault] = {}
    for path, digest in expected.items():
        if not (release / path).is_file():
            faults[path] = "missing"
        elif digest_file(release / path) != digest:
            faults[path] = "changed"
    for path, fault in faults.items():
        problems.add(path, fault)
    return not faults


def _check_files(release: Path, files: ReleaseFiles, root: dict[str, Any], problems: _Problems) -> None:
    """Compare existing files with SHA256SUMS."""
    # Not in SHA256SUMS: RELEASE.json and the attestation cover these files.
    apart = {layout.SUMS, layout.ROOT}
    if layout.ATTESTATION in root.get("digests", {layout.ATTESTATION: ""}):
        apart.add(layout.ATTESTATION)
    for name in apart - ({layout.ATTESTATION} if not root else set()):
        if not (release / name).exists():
            problems.add(name, "missing")
    for stated, digest in files.digests(_in_both(_sums(release, problems), files.walk(), apart, problems)):
        if digest != stated.sha256:
            problems.add(stated.path, "unreadable" if digest is None else "changed")


def _in_both(
    sums: Iterator[Checksum], walked: Iterator[FolderEntry], apart: set[str], problems: _Problems
) -> Iterator[Checksum]:
    """Merge SHA256SUMS with a walk in the same order; report entries that differ or are no regular files."""
    expected = next(sums, None)
    for found in walked:
        if found.path in apart and found.kind == "file":
            continue
        while expected is not None and layout.path_order(expected.path) < layout.path_order(found.path):
            problems.add(expected.path, "missing")
            expected = next(sums, None)
        if expected is None or expected.path != found.path:
            problems.add(found.path, "not a regular file" if found.path in apart else "added")
            continue
        if found.kind == "file":
            yield expected
        else:
            problems.add(found.path, "not a regular file")
        expected = next(sums, None)
    while expected is not None:
        problems.add(expected.path, "missing")
        expected = next(sums, None)


def _sums(release: Path, problems: _Problems) -> Iterator[Checksum]:
    try:
        yield from read_checksums(release / layout.SUMS)
    except FileNotFoundError:
        problems.add(layout.SUMS, "missing")
    except (IntegrityError, OSError):
        problems.add(layout.SUMS, "unreadable")


def _check_manifests(release: Path, problems: _Problems) -> None:
    """Read all pages of both manifests and compare the objects' digests with SHA256SUMS."""
    parts = layout.object_manifests(release)
    if not parts:
        problems.add(layout.OBJECTS, "missing")
        return
    in_data = (entry for entry in _sums(release, problems) if entry.path.startswith(f"{layout.DATA}/"))
    try:
        for stated, summed in zip_longest(manifest_checksums(release), in_data):
            if (
                stated is None
                or summed is None
                or (stated.path, stated.sha256) != (summed.path, summed.sha256)
            ):
                problems.add(layout.release_path(parts[0], release), "contradictory")
                break
    except (IntegrityError, pa.ArrowException):
        problems.add(layout.release_path(parts[0], release), "unreadable")
    for path, schema in ((layout.PATIENTS, PATIENT_SCHEMA), (layout.INDEX, INDEX_SCHEMA)):
        # Releases of earlier versions have no research index.
        if path == layout.INDEX and not (release / path).exists():
            continue
        try:
            # Reading verifies the page checksums.
            for _ in read_batches(release / path, schema):
                pass
        except IntegrityError:
            problems.add(path, "unreadable")


def _check_attestation(release: Path, root: dict[str, Any], public: Any, problems: _Problems) -> bool:
    """Whether the given key signed exactly these files and this RELEASE.json."""
    try:
        content = open_envelope((release / layout.ATTESTATION).read_bytes(), public)
        subject = {entry["name"]: entry["digest"]["sha256"] for entry in content["subject"]}
        claimed = content["predicate"]["release"]
    except IntegrityError as failure:
        problems.add(layout.ATTESTATION, "bad signature" if "signature" in failure.what else "unreadable")
        return False
    except (OSError, KeyError, TypeError):
        problems.add(layout.ATTESTATION, "unreadable")
        return False
    # The attestation must cover all files that RELEASE.json lists, not only some of them.
    agrees = True
    if set(subject) != set(root.get("digests", subject)) - {layout.ATTESTATION}:
        problems.add(layout.ATTESTATION, "contradictory")
        agrees = False
    known = {path: digest for path, digest in subject.items() if layout.is_attested_file(path)}
    agrees &= _check_digests(release, known, problems) and set(known) == set(subject)
    if root and claimed != {name: root.get(name) for name in _IDENTITY_FIELDS}:
        problems.add(layout.ROOT, "contradictory")
        agrees = False
    # Without a key the signature was not verified.
    return agrees and public is not None
