"""De-identification of single objects, without input folders, state or manifest."""

from __future__ import annotations

import os
import stat
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Final

from medsanitize.api.policy import PolicySource, object_policy
from medsanitize.api.release_key import ReleaseKey
from medsanitize.errors import MedsanitizeError, UsageError
from medsanitize.pipeline.resume import scope_of
from medsanitize.pipeline.runtime.encryption import Seal
from medsanitize.pipeline.runtime.optional_dependencies import check_extras
from medsanitize.pipeline.stages.audit import (
    allowed_dates,
    private_creators,
    removed_categories,
    searched_never_words,
    uid_prefix,
)
from medsanitize.pipeline.stages.resolve import (
    check_pseudonyms,
    is_safe_name,
    read_excluded,
    read_identities,
    read_pseudonyms,
)
from medsanitize.pipeline.stages.tally import count_actions
from medsanitize.pipeline.state.identities import join_identities
from medsanitize.pipeline.state.keys import patient_key
from medsanitize.pipeline.storage.slide_files import is_slide_part
from medsanitize.policies.model import Engine, Policy
from medsanitize.policies.other_files import FileKind
from medsanitize.policies.site_lists import with_site_lists
from medsanitize.release.atomic_io import write_atomic
from medsanitize.release.layout import DATA, staged_path
from medsanitize.sanitize.context import Context, Inspection, SeriesFace
from medsanitize.sanitize.dicom.dicom_sanitizer import DicomSanitizer
from medsanitize.sanitize.dicom.inspect_dicom import inspect_dicom, kept_attributes
from medsanitize.sanitize.faces.read_header import read_slice
from medsanitize.sanitize.formats.container_kind import container_kind
from medsanitize.sanitize.formats.file_kind import file_kind
from medsanitize.sanitize.pseudonyms import derive_sub_keys
from medsanitize.sanitize.raster.raster_sanitizer import RasterSanitizer, inspect_raster
from medsanitize.sanitize.result import Finding, ObjectRecord, Outcome, Sanitized
from medsanitize.sanitize.wsi.inspect_slide import inspect_slide
from medsanitize.sanitize.wsi.source import SlideView, SourceFile

if TYPE_CHECKING:
    import pydicom
    from medsanitize.verifiers.leaks.identifier_search import IdentifierSearch

Source = str | os.PathLike[str] | bytes
# Actions of wsi and raster that decide the outcome without sanitizing.
_UNRELEASED_OUTCOME: Final = {"drop": Outcome.DROPPED, "quarantine": Outcome.QUARANTINED}


@dataclass(frozen=True, slots=True, repr=False)
class Result:
    """Result of de-identifying one object.

    Attributes
    ----------
    outcome : Outcome
        ``released``, ``dropped`` (a rule of the policy leaves the object out) or ``quarantined`` (unreadable,
        over a limit or not provably clean). An `Outcome` is a string: compare it with ``==``.
    kind : str
        ``dicom``, ``raster``, ``slide``, ``dicomdir``, ``other`` (no image) or ``unreadable``.
    findings : tuple of Finding
        Why the object was not released, or what was flagged: ``location`` (a tag path, ``pixels`` or
        ``file``) and ``rule``; never a value.
    actions : mapping of str to int
        Number of attributes per action: ``replaced``, ``emptied``, ``removed``, ``cleaned``, ``uid``,
        ``kept``. Empty unless released.
    rules : mapping of str to int
        Number of attributes per rule. Empty unless released.
    path : str
        Path of the file that `save` writes, relative to its folder; consists of pseudonyms. Empty unless
        released.

    Examples
    --------
    >>> from medsanitize import Deidentifier, ReleaseKey
    >>> deidentify = Deidentifier("ps3.15-basic", ReleaseKey.from_file("release.key"))  # doctest: +SKIP
    >>> result = deidentify("export/scan.dcm")  # doctest: +SKIP
    >>> if result.outcome == "released":  # doctest: +SKIP
    ...     saved = result.save("clean")
    ... else:
    ...     print([finding.rule for finding in result.findings])
    """

    outcome: Outcome
    kind: str
    findings: tuple[Finding, ...]
    actions: Mapping[str, int]
    rules: Mapping[str, int]
    path: str
    _content: bytes

    def __repr__(self) -> str:
        return f"Result({self.outcome}, {self.kind}, {len(self.findings)} findings)"

    def to_bytes(self) -> bytes:
        """Return the released file as bytes.

        Returns
        -------
        bytes
            A DICOM Part 10 file or a picture file.

        Raises
        ------
        UsageError
            The object was not released.
        """
        if self.outcome is not Outcome.RELEASED:
            raise UsageError(f"The object was {self.outcome}, so there are no bytes", "Check outcome first")
        return self._content

    @property
    def dataset(self) -> pydicom.Dataset:
        """The released object as a `pydicom.Dataset`; each access parses it again.

        Raises
        ------
        UsageError
            The object was not released, or is not DICOM.
        """
        content = self.to_bytes()
        if self.kind != "dicom":
            raise UsageError("The object is not DICOM", "Use to_bytes")
        import pydicom

        return pydicom.dcmread(BytesIO(content))

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write the released file to ``folder / path``, creating folders as needed.

        Parameters
        ----------
        folder : path
            The root folder.

        Returns
        -------
        Path
            The file. If it exists with equal bytes it is left as it is.

        Raises
        ------
        UsageError
            The object was not released, or a different file of this name exists.
        EnvironmentFailure
            The disk is full or not writable.
        """
        content = self.to_bytes()
        target = Path(folder) / self.path
        # A repeated call must succeed, but no other file may be replaced.
        if target.exists():
            if target.is_file() and target.read_bytes() == content:
                return target
            raise UsageError("A different file of this name exists", "Save to another folder")
        write_atomic(target, content)
        return target


class Deidentifier:
    """De-identify single objects under a policy.

    An object is treated as in a run over an export that contains only this object: the same rules, limits and
    quarantine and, after sanitizing, the same audit by an independent reader. An object that a run would
    quarantine, or for which a run would refuse to publish, is quarantined.

    A run learns some things only from the whole export:

    - identifiers of the patient that occur only in other objects are not searched for;
    - a series of CT, MR or PET slices is not checked for faces: policies that quarantine or remove faces
      quarantine its slices (rule ``face-not-looked-for``), others report the check as not run;
    - duplicates, contested UIDs, studies of two patients and overlap with earlier releases are not detected;
    - decisions of ``medsanitize identities`` are not read, only the table in ``identities``: patients that
      they join keep different pseudonyms;
    - the object is not compared with its source by foreign readers (``validation``), and containers are
      quarantined (rule ``container-outside-run``);
    - whole-slide images are quarantined (rule ``slide-outside-run``) because their audit needs all files of
      the source.

    Instances hold caches and models, but no state of objects: equal input gives equal bytes. They are not
    thread-safe; create one per thread.

    Parameters
    ----------
    policy : str, path, mapping or Policy
        Name of a preset (``ps3.15-basic``, ``research``, ``hipaa-safe-harbor``), a policy file, its content
        as a mapping (inputs, outputs, name and key may be omitted), or a loaded policy.
    key : ReleaseKey
        Key for pseudonyms, used instead of the policy's ``keys``. The scope of pseudonyms follows the policy;
        for presets and mappings without ``keys.scope`` it is ``project``.

    Raises
    ------
    PolicyError
        The policy is invalid.
    UsageError
        A file or an extra that the policy needs is missing, or ``wsi.specimens`` is set.

    Examples
    --------
    >>> from medsanitize import Deidentifier, ReleaseKey
    >>> from pydicom.data import get_testdata_file
    >>> deidentify = Deidentifier("ps3.15-basic", ReleaseKey.generate())
    >>> result = deidentify(get_testdata_file("CT_small.dcm"))
    >>> result.outcome == "released"
    True
    >>> "CompressedSamples" in str(result.dataset.PatientName)
    False
    """

    def __init__(self, policy: PolicySource, key: ReleaseKey) -> None:
        self._policy = with_site_lists(object_policy(policy))
        check_extras(_of_one_object(self._policy))
        if self._policy.wsi.specimens is not None:
            raise UsageError(
                "wsi.specimens requires a whole input folder", "Remove it from the policy, or use run"
            )
        self._excluded = read_excluded(self._policy.exclude)
        self._identities = join_identities(read_identities(self._policy.identities))
        self._pseudonyms = read_pseudonyms(self._policy.pseudonyms.table)
        check_pseudonyms(self._pseudonyms, self._identities)
        self._keys = derive_sub_keys(key.material, scope=scope_of(self._policy))
        self._seal = Seal(self._keys)
        self._dicom = DicomSanitizer(self._policy, self._keys)
        self._raster = RasterSanitizer(self._policy, self._keys)
        self._kept = kept_attributes(self._policy.dicom)
        self._never_words = searched_never_words(self._policy)

    def __repr__(self) -> str:
        return f"Deidentifier({self._policy.preset!r})"

    @property
    def policy(self) -> Policy:
        """The policy, with the preset applied."""
        return self._policy

    def __call__(self, source: Source | pydicom.Dataset) -> Result:
        """De-identify one object.

        Parameters
        ----------
        source : path, bytes or pydicom.Dataset
            A file, its bytes, or a dataset, which is not modified.

        Returns
        -------
        Result
            Also for objects that are quarantined or dropped: no content of an object raises an exception.

        Raises
        ------
        UsageError
            No regular file exists at the path.
        TypeError
            The source has another type.
        EnvironmentFailure
            Disk, memory or a store failed.

        Examples
        --------
        >>> from pathlib import Path
        >>> deidentify = Deidentifier("ps3.15-basic", ReleaseKey.generate())
        >>> result = deidentify(Path("export/scan.dcm").read_bytes())  # doctest: +SKIP
        >>> print(result.dataset.PatientID, result.actions["removed"])  # doctest: +SKIP
        """
        # Reading included: pydicom's warnings about invalid values quote them.
        with _quiet():
            try:
                content, path = self._read(source)
            except _Unreadable as problem:
                return _unreleased(Outcome.QUARANTINED, "unreadable", problem.rule)
            try:
                return self._judge(content, path)
            except MedsanitizeError:
                raise
            except Exception:  # noqa: BLE001  fail closed: a defect must not release an object
                return _unreleased(Outcome.QUARANTINED, "unreadable", "internal-error")

    # -- reading ----------------------------------------------------------------------------

    def _read(self, source: object) -> tuple[bytes, Path | None]:
        if isinstance(source, bytes):
            return source, None
        if isinstance(source, str | os.PathLike):
            return self._read_file(Path(source)), Path(source).absolute()
        import pydicom

        if not isinstance(source, pydicom.Dataset):
            raise TypeError("a source is a path, bytes or a pydicom.Dataset")
        return _written(source), None

    def _read_file(self, path: Path) -> bytes:
        try:
            with path.open("rb") as file:
                facts = os.fstat(file.fileno())
                if not stat.S_ISREG(facts.st_mode):
                    raise UsageError("The path is not a regular file", "Name a file")
                # Refused before it is read: it may not fit in memory.
                if facts.st_size > self._policy.dicom.limits.object_bytes:
                    raise _Unreadable("object-too-large")
                return file.read()
        # A wrong path is an error of the caller; other failures concern the object, which is quarantined.
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            raise UsageError("There is no file at this path", "Correct the path") from None
        except OSError:
            raise _Unreadable("unreadable") from None

    # -- judging ----------------------------------------------------------------------------

    def _judge(self, content: bytes, path: Path | None) -> Result:
        view = SlideView((SourceFile(path.name if path else "object", content),))
        limits = self._policy.dicom.limits
        # The order matters: a slide may be a TIFF file, too, and only inspect_dicom never returns None.
        seen = inspect_slide(view) or inspect_raster(content) or inspect_dicom(content, limits, self._kept)
        if seen.kind in ("dicomdir", "other"):
            return self._other_file(seen.kind, content)
        settled = self._settled(seen, path)
        if settled is not None:
            return settled
        # Pictures have no SOP Instance UID; their content identifies them.
        key = seen.sop_uid or sha256(content).hexdigest()
        name = self._seal.name("sop" if seen.sop_uid else "content", key)
        context = self._context(seen, content, name.hex())
        done = (self._raster if seen.kind == "raster" else self._dicom)(content, context)
        return self._released(done, content, context)

    def _other_file(self, kind: str, content: bytes) -> Result:
        """Return the outcome of a file that is no image; containers are opened by a run only."""
        if kind == "other" and container_kind(content) is not None:
            dropped = self._policy.containers.action == "drop"
            outcome = Outcome.DROPPED if dropped else Outcome.QUARANTINED
            return _unreleased(outcome, kind, "container" if dropped else "container-outside-run")
        found: FileKind = "dicomdir" if kind == "dicomdir" else file_kind(content)
        if found in self._policy.ignore:
            return _unreleased(Outcome.DROPPED, kind, f"ignored:{found}")
        return _unreleased(Outcome.QUARANTINED, kind, f"other-file:{found}")

    def _settled(self, seen: Inspection, path: Path | None) -> Result | None:
        """Return the outcome if it needs no sanitizing; the order of rules is that of a run."""
        policy = self._policy
        if seen.kind == "slide":
            if policy.wsi.action in _UNRELEASED_OUTCOME:
                return _unreleased(_UNRELEASED_OUTCOME[policy.wsi.action], "slide", "slide")
            return _unreleased(Outcome.QUARANTINED, "slide", "slide-outside-run")
        if seen.kind == "raster" and policy.raster.action in _UNRELEASED_OUTCOME:
            return _unreleased(_UNRELEASED_OUTCOME[policy.raster.action], "raster", "raster-image")
        # A picture that belongs to a slide, such as the JPEG of MIRAX, must not be released by itself.
        if seen.kind == "raster" and path is not None and is_slide_part(os.fsencode(path)):
            return _unreleased(Outcome.QUARANTINED, "unreadable", "slide-not-supported")
        if seen.kind not in ("dicom", "raster"):
            return _unreleased(Outcome.QUARANTINED, "unreadable", seen.rule or "unreadable")
        # Which patient's identifiers to search for would be a guess.
        if len(seen.patient_ids) > 1:
            return _unreleased(Outcome.QUARANTINED, "dicom", "two-patient-ids")
        if self._is_excluded(seen):
            return _unreleased(Outcome.DROPPED, seen.kind, "consent")
        return None

    def _is_excluded(self, seen: Inspection) -> bool:
        return any(
            # An entry without issuer excludes the ID of every issuer.
            identifier == listed and issuer in (None, stated)
            for one in seen.patient_ids
            for stated, identifier in self._identities.group(one)
            for listed, issuer in self._excluded
        )

    def _context(self, seen: Inspection, content: bytes, object_key: str) -> Context:
        issuer, identifier = self._identities.of(seen.patient_ids[0]) if seen.patient_ids else ("", "")
        face = None
        if seen.kind == "dicom" and self._policy.pixels.faces != "ignore":
            header = read_slice(content, self._policy.dicom.limits)
            # No volume can be rendered from a localizer; of any other slice the series decides.
            face = SeriesFace("projection") if header is not None and header.projection else None
        return Context(
            patient=patient_key(issuer, identifier, seen.study_uid, object_key),
            object_key=object_key,
            known=seen.known,
            pseudonym=self._pseudonyms.get(identifier) if identifier else None,
            face=face,
        )

    # -- releasing --------------------------------------------------------------------------

    def _released(self, done: Sanitized, content: bytes, context: Context) -> Result:
        record = done.record
        if record.outcome is not Outcome.RELEASED:
            return Result(record.outcome, record.kind, record.findings, {}, {}, "", b"")
        # Pseudonyms become path components; an external table may contain unsafe ones.
        names = (record.patient, record.study, record.series, record.instance)
        required = record.patient and record.instance
        if not required or not all(not name or is_safe_name(name) for name in names):
            return _unreleased(Outcome.QUARANTINED, record.kind, "unsafe-pseudonym")
        (file,) = done.files  # only slides have several files
        out = b"".join(
            piece if isinstance(piece, bytes) else content[piece.offset : piece.offset + piece.length]
            for piece in file.pieces
        )
        suffix = file.name[1:]
        findings = self._audit(out, record, suffix, context)
        if findings:
            return Result(Outcome.QUARANTINED, record.kind, findings, {}, {}, "", b"")
        path = staged_path(*names, suffix).removeprefix(f"{DATA}/")
        actions, rules = count_actions(record.rules), dict(record.rules)
        return Result(Outcome.RELEASED, record.kind, record.findings, actions, rules, path, out)

    def _audit(self, out: bytes, record: ObjectRecord, suffix: str, context: Context) -> tuple[Finding, ...]:
        """Read the sanitized object again with an independent reader; any finding quarantines it."""
        from medsanitize.verifiers.leaks.dicom_conformance import Expected
        from medsanitize.verifiers.leaks.dicom_reader import MalformedFile, read
        from medsanitize.verifiers.leaks.identifier_search import build_identifier_search
        from medsanitize.verifiers.leaks.raster_files import audit_picture
        from medsanitize.verifiers.leaks.scan_object import audit_parsed

        removed = removed_categories(self._policy.dicom.options)
        # Values that the policy keeps are no findings.
        own = frozenset(one for one in context.known if one.category in removed)
        search: IdentifierSearch = build_identifier_search(
            (*own, *self._never_words), self._vocabulary, len(out)
        )
        if record.kind == "raster":
            return audit_picture(out, f".{suffix}", search)
        expected = Expected(
            sha256=sha256(out).hexdigest(),
            pseudonym=record.patient,
            uid_prefix=uid_prefix(self._policy.dicom.options, self._policy.pseudonyms.uid_root),
            private_creators=private_creators(self._policy.dicom),
            allowed_dates=allowed_dates(
                self._policy.dicom.options,
                self._policy.dicom.dates,
                self._keys,
                context.patient,
                context.known,
            ),
            kept_attributes=self._kept,
        )
        try:
            return audit_parsed(read(out), own=own, search=search, expected=expected)
        except MalformedFile as problem:
            return (Finding("file", f"audit:malformed-{problem.rule}"),)

    @cached_property
    def _vocabulary(self) -> frozenset[str]:
        from medsanitize.policies.tables.vocabulary import words

        return words()


class _Unreadable(Exception):
    """The source cannot be read as an object; ``rule`` is the reason."""

    def __init__(self, rule: str) -> None:
        self.rule = rule
        super().__init__(rule)


def _unreleased(outcome: Outcome, kind: str, rule: str) -> Result:
    return Result(outcome, kind, (Finding("file", rule),), {}, {}, "", b"")


def _of_one_object(policy: Policy) -> Policy:
    """Return the policy without inputs, outputs and comparisons, so that their extras are not required."""
    nothing = {"inputs": (policy.state,), "output": policy.state, "engine": Engine()}
    return policy.model_copy(update={**nothing, "overlap": None, "synthesize": None})


def _written(dataset: pydicom.Dataset) -> bytes:
    """Encode a dataset as a DICOM Part 10 file."""
    stream = BytesIO()
    try:
        dataset.save_as(stream, enforce_file_format=True)
    except Exception:  # noqa: BLE001  datasets that cannot be written are quarantined; messages may quote values
        raise _Unreadable("unreadable") from None
    return stream.getvalue()


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence warnings: those of libraries may quote element values."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
