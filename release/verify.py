"""Verifying a release: every changed, missing or added byte, and in which file it is."""

from __future__ import annotations

import json
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
from medsanitize.release.manifest import PATIENT_SCHEMA, read_batches
from medsanitize.release.release_json import self_digest

Fault = Literal[
    "changed", "missing", "added", "unreadable", "not a regular file", "bad signature", "contradictory"
]
_IDENTITY = ("name", "version", "mode", "supersedes")


@dataclass(frozen=True, slots=True)
class VerificationResult:
    """What was found.

    ``signer`` is ``checked`` when the given key signed this release, ``not checked`` when it is
    signed and no key was given or the signature failed, ``unsigned`` when there is no attestation.
    """

    status: Literal["intact", "not intact"]
    signer: Literal["checked", "not checked", "unsigned"]
    problems: tuple[tuple[str, Fault], ...] = ()

    def __str__(self) -> str:
        signer = {"checked": "signer checked", "not checked": "signer not checked", "unsigned": "unsigned"}
        return f"{self.status}, {signer[self.signer]}"


@dataclass(slots=True)
class _Problems:
    """Collects problems; a path is reported once, with the first fault found."""

    found: dict[str, Fault] = field(default_factory=dict)

    def add(self, path: str, fault: Fault) -> None:
        self.found.setdefault(path.encode("unicode_escape").decode("ascii"), fault)


class ReleaseFiles(Protocol):
    """The files of a release, wherever they lie."""

    def walk(self) -> Iterator[FolderEntry]:
        """Everything there is, in the order of `layout.order_of`."""

    def digests(self, named: Iterable[Checksum]) -> Iterator[tuple[Checksum, str | None]]:
        """Each of some files with the SHA-256 that its bytes have now; None where it cannot be read."""


@dataclass(frozen=True, slots=True)
class FolderFiles:
    """Files of a folder."""

    path: Path

    def walk(self) -> Iterator[FolderEntry]:
        """Everything below the folder; links are not followed."""
        return walk_files(self.path)

    def digests(self, named: Iterable[Checksum]) -> Iterator[tuple[Checksum, str | None]]:
        """One file after the other."""
        for one in named:
            try:
                yield one, digest_file(self.path / one.path)
            except OSError:
                yield one, None


def verify_release(
    release: Path, *, key: Path | None, files: ReleaseFiles | None = None
) -> VerificationResult:
    """Compare a release with its own evidence, byte for byte.

    Parameters
    ----------
    release : Path
        The release folder, or one that holds RELEASE.json, SHA256SUMS, attestation and manifests as they lie
        elsewhere. It is only read.
    key : Path or None
        The signer's public key (PEM). A release that this key did not sign is not intact.
    files : Files, optional
        All files of the release, where that is not the folder.

    Raises
    ------
    UsageError
        When there is no folder, or the key is not a public key.
    EnvironmentFailure
        When the folder cannot be read.
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
    elif public is not None:
        problems.add(layout.ATTESTATION, "missing")
    return VerificationResult(
        status="not intact" if problems.found else "intact",
        signer="unsigned" if not signed else "checked" if checked else "not checked",
        problems=tuple(sorted(problems.found.items())),
    )


def _check_root(release: Path, problems: _Problems) -> dict[str, Any]:
    """Return RELEASE.json; an empty one when it cannot be trusted at all."""
    try:
        content = (release / layout.ROOT).read_bytes()
        root = json.loads(content)
        if document_json(root) != content or root["digest"] != self_digest(root):
            problems.add(layout.ROOT, "changed")
            return {}
        expected = dict(root["digests"])
        named = all(layout.is_attested_file(path) or path == layout.ATTESTATION for path in expected)
        members = {"format", "digests", "digest", *_IDENTITY}
        if set(root) != members or root["format"] != layout.FORMAT_VERSION or not named:
            problems.add(layout.ROOT, "contradictory")
            return {}
        _check_digests(release, expected, problems)
    except FileNotFoundError:
        problems.add(layout.ROOT, "missing")
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        problems.add(layout.ROOT, "unreadable")
        return {}
    return dict(root)


def _check_digests(release: Path, expected: dict[str, str], problems: _Problems) -> bool:
    """Tell whether each named file is there and has its digest."""
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
    """Hold what lies there against SHA256SUMS."""
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
    """Merge SHA256SUMS with a walk, both ordered alike; what is not in both, or is no file, is a problem."""
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
    """Read every page of both manifests and hold the objects' digests against SHA256SUMS."""
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
    try:
        for _ in read_batches(release / layout.PATIENTS, PATIENT_SCHEMA):
            pass
    except IntegrityError:
        problems.add(layout.PATIENTS, "unreadable")


def _check_attestation(release: Path, root: dict[str, Any], public: Any, problems: _Problems) -> bool:
    """Tell whether the given key signed exactly these files and this RELEASE.json."""
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
    agrees = True
    if set(subject) != set(root.get("digests", subject)) - {layout.ATTESTATION}:
        problems.add(layout.ATTESTATION, "contradictory")
        agrees = False
    known = {path: digest for path, digest in subject.items() if layout.is_attested_file(path)}
    agrees &= _check_digests(release, known, problems) and set(known) == set(subject)
    if root and claimed != {name: root.get(name) for name in _IDENTITY}:
        problems.add(layout.ROOT, "contradictory")
        agrees = False
    return agrees and public is not None
