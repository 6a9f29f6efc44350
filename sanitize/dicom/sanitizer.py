"""The object function for DICOM: bytes, context, policy and keys in; released pieces and record out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from medsanitize.policies.model import Policy
from medsanitize.policies.tables.safe_private import SafePrivate, safe_private
from medsanitize.sanitize.context import Context, Known
from medsanitize.sanitize.dicom import statement
from medsanitize.sanitize.dicom.container import Container, build_meta, deflate, open_container
from medsanitize.sanitize.dicom.dates import shift_days
from medsanitize.sanitize.dicom.encoding import Layout, element
from medsanitize.sanitize.dicom.job import Job, Piece, Subject
from medsanitize.sanitize.dicom.pixeldata import Geometry, write_pixels
from medsanitize.sanitize.dicom.pseudonyms import patient_pseudonym
from medsanitize.sanitize.dicom.refusal import Refused
from medsanitize.sanitize.dicom.risk import may_show_face, may_show_text
from medsanitize.sanitize.dicom.rewrite import (
    Buffer,
    SafePrivates,
    Walk,
    read_header,
    skip_elements,
    walk_dataset,
)
from medsanitize.sanitize.dicom.rules import RuleBook, registered_uids
from medsanitize.sanitize.keys import SubKeys
from medsanitize.sanitize.objects import Sanitized, Span
from medsanitize.sanitize.record import Check, Finding, Outcome, Record
from medsanitize.sanitize.text import forbidden

_SOP_CLASS, _SOP, _STUDY, _SERIES = 0x00080016, 0x00080018, 0x0020000D, 0x0020000E
_NAME, _PATIENT_ID = 0x00100010, 0x00100020
_TEXTS = {
    "SOPClassUID": _SOP_CLASS,
    "Modality": 0x00080060,
    "ImageType": 0x00080008,
    "BurnedInAnnotation": 0x00280301,
    "ConversionType": 0x00080064,
    "BodyPartExamined": 0x00180015,
}
_NUMBERS = (0x00280002, 0x00280008, 0x00280010, 0x00280011, 0x00280100, 0x00280101, 0x00280102, 0x00280103)
_PHOTOMETRIC = 0x00280004
_CAPTURE = frozenset([*_TEXTS.values(), *_NUMBERS, _PHOTOMETRIC, _SOP, _STUDY, _SERIES, _PATIENT_ID])
_DOCUMENT_CLASSES = ("1.2.840.10008.5.1.4.1.1.104.", "1.2.840.10008.5.1.4.1.1.9.4.")
_STREAM_FROM = 1 << 20


class _OtherSopClass(Exception):  # noqa: N818
    """The data set names another SOP class than the one its rules were chosen by."""


class Sanitizer:
    """One policy and its keys, compiled; call it once an object.

    It holds nothing but caches: what an object becomes depends on the arguments alone.

    Parameters
    ----------
    policy : Policy
    keys : SubKeys
        Sub-keys of the release's scope.
    """

    def __init__(self, policy: Policy, keys: SubKeys) -> None:
        self._policy = policy
        self._keys = keys
        self._book = RuleBook(policy.dicom)
        self._uids: dict[str, str] = {}
        self._safe_private = _safe_privates(policy)
        self._subject: Subject | None = None
        self._context: Context | None = None

    def __call__(self, data: Buffer, context: Context) -> Sanitized:
        """Sanitise one object.

        Parameters
        ----------
        data : bytes or mmap
            The whole source object. Long pixel data comes back as spans of it.
        context : Context
            What inventory knows of the patient and study.

        Returns
        -------
        Sanitized
            Released pieces with record and links; or a quarantined record that names place and rule.
        """
        try:
            if context.refuse:
                raise Refused(context.refuse)
            limits = self._policy.dicom.limits
            if len(data) > limits.object_bytes:
                raise Refused("object-too-large")
            container = open_container(data, limits)
            streamed = container.buf is data and len(data) >= _STREAM_FROM
            return self._release(container, context, streamed)
        except Refused as refused:
            return Sanitized(Record(Outcome.QUARANTINED, "dicom", (Finding(refused.place, refused.rule),)))
        except RecursionError:
            return Sanitized(Record(Outcome.QUARANTINED, "dicom", (Finding("sequences", "too-deep"),)))

    def _subject_of(self, context: Context) -> Subject:
        last, subject = self._context, self._subject
        if subject is None or last is None or not _same_subject(last, context):
            pseudonym = context.pseudonym or patient_pseudonym(
                self._keys, self._policy.pseudonyms, context.patient
            )
            shift = shift_days(self._keys, context.patient, self._policy.dicom.dates)
            subject = Subject(context.patient, pseudonym, shift, forbidden(self._unwanted(context.known)))
            self._subject = subject
        self._context = context
        return subject

    def _unwanted(self, known: Iterable[Known]) -> Iterable[Known]:
        """What no text may keep: all that is known, but for the institution where an option keeps it."""
        kept = {"institution", "address"} if self._policy.dicom.options.retain_institution_identity else set()
        return (one for one in known if one.category not in kept)

    def _release(self, container: Container, context: Context, streamed: bool) -> Sanitized:
        job = Job(self._policy, self._keys, self._subject_of(context), self._uids)
        sop_class = container.sop_class
        extra: dict[int, str] = {}
        for _ in range(3):
            try:
                walk, out, end = self._walk(container, job, sop_class, extra)
            except _OtherSopClass as other:
                sop_class = other.args[0]
                continue
            missing = self._missing_uids(walk, job, context, sop_class, extra)
            if not missing:
                return self._finish(container, context, walk, out, end, sop_class, extra, streamed)
            extra.update(missing)
        raise Refused("sop-class-unclear")

    def _walk(
        self, container: Container, job: Job, sop_class: str, extra: dict[int, str]
    ) -> tuple[Walk, list[bytes], int]:
        if sop_class and sop_class not in registered_uids():
            raise Refused("unknown-sop-class")
        if sop_class.startswith(_DOCUMENT_CLASSES):
            raise Refused("document-or-audio")
        layout = container.syntax.layout
        job.charset = b""
        walk = Walk(
            job, self._book, container.buf, layout, self._policy.dicom.limits, self._safe_private, _CAPTURE
        )
        inserts = self._inserts(job, layout, sop_class, extra)
        job.replaced = frozenset(tag for tag, _ in inserts)
        out: list[bytes] = []
        scope = self._book.scope(sop_class)
        whole = len(container.buf)
        stop = min(whole, container.start + self._policy.dicom.limits.header_bytes)
        try:
            end = walk_dataset(walk, scope, container.start, stop, layout, out, inserts=inserts)
        except Refused as refused:
            if stop < whole and refused.rule in ("truncated", "length-past-end"):
                raise Refused("header-too-large") from None
            raise
        if end == stop < whole:
            raise Refused("header-too-large")
        found = self._text(walk, _SOP_CLASS)
        if found != sop_class and found:
            raise _OtherSopClass(found)
        return walk, out, end

    def _inserts(
        self, job: Job, layout: Layout, sop_class: str, extra: dict[int, str]
    ) -> list[tuple[int, Piece]]:
        """Elements that this product writes itself, highest tag first."""
        pseudonym = job.subject.pseudonym.encode("ascii")
        scope = self._book.scope(sop_class)
        rows: list[tuple[int, bytes, str]] = [
            (
                statement.IDENTITY_REMOVED,
                element(layout, statement.IDENTITY_REMOVED, b"CS", b"YES"),
                "D:statement",
            ),
            (
                statement.METHOD,
                element(layout, statement.METHOD, b"LO", statement.METHOD_TEXT),
                "D:statement",
            ),
            (
                statement.METHOD_CODES,
                statement.method_codes(layout, self._policy.dicom.options),
                "D:statement",
            ),
            (statement.TEMPORAL, b"", "D:statement"),
        ]
        if scope.belongs(_PATIENT_ID):
            rows.append((_PATIENT_ID, element(layout, _PATIENT_ID, b"LO", pseudonym), "D:pseudonym"))
            if self._book.override(_NAME) is None:
                rows.append((_NAME, element(layout, _NAME, b"PN", pseudonym), "D:pseudonym"))
        else:
            rows += [(tag, b"", "X:patient") for tag in (_PATIENT_ID, _NAME)]
        rows += [
            (tag, element(layout, tag, b"UI", uid.encode("ascii")), "U:missing") for tag, uid in extra.items()
        ]
        return [(tag, (chunk, (rule,), ())) for tag, chunk, rule in sorted(rows, reverse=True)]

    def _missing_uids(
        self, walk: Walk, job: Job, context: Context, sop_class: str, extra: dict[int, str]
    ) -> dict[int, str]:
        """UIDs the object lacks, made from the key and the object; a missing study is no study."""
        scope = self._book.scope(sop_class)
        wanted = [_SOP, *(tag for tag in (_STUDY, _SERIES) if scope.belongs(tag))]
        return {
            tag: job.uid(f"missing/{tag:08x}/{context.object_key}")
            for tag in wanted
            if tag not in extra and not self._text(walk, tag)
        }

    @staticmethod
    def _text(walk: Walk, tag: int) -> str:
        span = walk.captured.get(tag)
        return bytes(walk.buf[span[0] : span[1]]).decode("latin-1").strip(" \0") if span else ""

    def _finish(
        self,
        container: Container,
        context: Context,
        walk: Walk,
        out: list[bytes],
        end: int,
        sop_class: str,
        extra: dict[int, str],
        streamed: bool,
    ) -> Sanitized:
        texts = {name: self._text(walk, tag) for name, tag in _TEXTS.items()}
        layout = container.syntax.layout
        self._refuse_subject(walk, texts)
        total = len(container.buf)
        geometry = _geometry(walk, container.syntax.layout)
        pixels = write_pixels(
            container.buf, end, total, layout, container.syntax, geometry, streamed=streamed
        )
        check = self._pixel_check(texts, bool(pixels.pieces))
        if check is Check.NOT_MADE:
            _state_burned_in(out, walk, layout, self._book.rule(self._book.scope(sop_class), 0x00280301).type)
        rules = walk.rules + pixels.rules
        if pixels.end < total:
            if not pixels.pieces:
                skip_elements(container.buf, pixels.end, total, layout, self._policy.dicom.limits.depth)
            rules.append("X:after-pixel-data")
        _place_temporal(out, statement.temporal(layout, self._policy.dicom.options, rules), layout)
        uids = {tag: _written_uid(out, layout, tag) for tag in (_SOP, _STUDY, _SERIES)}
        uids[_SOP] = uids[_SOP] or walk.job.uid(self._text(walk, _SOP))
        record = self._record(container, walk, texts, uids, geometry if pixels.pieces else None, check, rules)
        meta = build_meta(container.syntax, sop_class, uids[_SOP])
        return Sanitized(record, _pieces(container, meta, out, pixels.pieces), self._links(walk))

    def _refuse_subject(self, walk: Walk, texts: dict[str, str]) -> None:
        if "\\" in self._text(walk, _PATIENT_ID):
            raise Refused("two-patient-ids", "(0010,0020)")
        options = self._policy.dicom.options
        if options.clean_recognizable_visual_features and may_show_face(texts):
            raise Refused("recognizable-visual-features", "pixels")

    def _pixel_check(self, texts: dict[str, str], has_pixels: bool) -> Check:
        if not has_pixels:
            return Check.NOT_APPLICABLE
        if not may_show_text(texts):
            return Check.NOT_APPLICABLE
        if self._policy.pixels.at_risk == "quarantine" or self._policy.dicom.options.clean_pixel_data:
            raise Refused("burned-in-text-risk", "pixels")
        return Check.NOT_MADE

    def _links(self, walk: Walk) -> tuple[tuple[str, str], ...]:
        patient = self._text(walk, _PATIENT_ID)
        own = [(patient, walk.job.subject.pseudonym)] if patient else []
        return tuple(dict.fromkeys([*own, *walk.links]))

    def _record(
        self,
        container: Container,
        walk: Walk,
        texts: dict[str, str],
        uids: dict[int, str],
        geometry: Geometry | None,
        check: Check,
        rules: list[str],
    ) -> Record:
        counts = Counter(rules)
        modality = texts["Modality"]
        return Record(
            Outcome.RELEASED,
            "dicom",
            rules=dict(sorted(counts.items())),
            patient=walk.job.subject.pseudonym,
            study=uids[_STUDY],
            series=uids[_SERIES],
            instance=uids[_SOP],
            modality=modality
            if modality.isalnum() and len(modality) <= 16 and _is_modality(modality)
            else "",
            sop_class=texts["SOPClassUID"],
            transfer_syntax=container.syntax.uid,
            rows=geometry.rows if geometry else None,
            columns=geometry.columns if geometry else None,
            frames=geometry.frames if geometry else None,
            pixels=check,
        )


def _is_modality(text: str) -> bool:
    from medsanitize.policies.tables.vocabulary import defined_terms

    return text in defined_terms().get(0x00080060, frozenset())


def _same_subject(last: Context, context: Context) -> bool:
    same = last.patient == context.patient and last.pseudonym == context.pseudonym
    return same and (last.known is context.known or last.known == context.known)


def _safe_privates(policy: Policy) -> SafePrivates:
    if not policy.dicom.options.retain_safe_private:
        return {}
    listed = {key: row for key, row in safe_private().items() if row.care not in ("opaque", "items")}
    for own in policy.dicom.safe_private:
        key = (int(own.group, 16), own.creator, int(own.element, 16))
        listed[key] = SafePrivate(own.vr, "", "", "text", "policy")
    return listed


def _geometry(walk: Walk, layout: Layout) -> Geometry | None:
    order = "big" if layout.big else "little"

    def number(tag: int, default: int) -> int:
        span = walk.captured.get(tag)
        raw = bytes(walk.buf[span[0] : span[1]]) if span else b""
        return int.from_bytes(raw[:2], order) if len(raw) >= 2 else default  # type: ignore[arg-type]

    rows, columns, allocated = number(0x00280010, 0), number(0x00280011, 0), number(0x00280100, 0)
    if not rows or not columns or not allocated:
        return None
    frames = Sanitizer._text(walk, 0x00280008).split("\\")[0].strip()
    stored = number(0x00280101, allocated)
    return Geometry(
        rows=rows,
        columns=columns,
        samples=number(0x00280002, 1),
        frames=max(int(frames), 1) if frames.isascii() and frames.isdigit() and len(frames) < 10 else 1,
        bits_allocated=allocated,
        bits_stored=stored,
        high_bit=number(0x00280102, stored - 1),
        signed=number(0x00280103, 0) == 1,
        photometric=Sanitizer._text(walk, _PHOTOMETRIC),
    )


def _tag_key(chunk: bytes, layout: Layout) -> int:
    order = "big" if layout.big else "little"
    return int.from_bytes(chunk[:2], order) << 16 | int.from_bytes(chunk[2:4], order)  # type: ignore[arg-type]


def _find(out: list[bytes], layout: Layout, tag: int) -> tuple[int, bool]:
    """Where ``tag`` is or belongs in a rewritten data set, and whether it is there."""
    low, high = 0, len(out)
    while low < high:
        middle = (low + high) // 2
        if _tag_key(out[middle], layout) < tag:
            low = middle + 1
        else:
            high = middle
    return low, low < len(out) and _tag_key(out[low], layout) == tag


def _put(out: list[bytes], layout: Layout, tag: int, chunk: bytes | None) -> None:
    """Replace, add (in order) or remove one top-level element of a rewritten data set."""
    place, there = _find(out, layout, tag)
    out[place : place + there] = [chunk] if chunk is not None else []


def _written_uid(out: list[bytes], layout: Layout, tag: int) -> str:
    """The UID that the released data set states, whatever rule made it."""
    place, there = _find(out, layout, tag)
    if not there:
        return ""
    start = read_header(out[place], 0, len(out[place]), layout)[3]
    return out[place][start:].decode("ascii").rstrip(" \0").split("\\")[0]


def _place_temporal(out: list[bytes], chunk: bytes, layout: Layout) -> None:
    _put(out, layout, statement.TEMPORAL, chunk)


def _state_burned_in(out: list[bytes], walk: Walk, layout: Layout, attribute_type: str) -> None:
    """Unchecked pixels at risk claim no NO: the attribute says YES or is absent."""
    tag = _TEXTS["BurnedInAnnotation"]
    if Sanitizer._text(walk, tag) == "YES" or attribute_type == "1":
        _put(out, layout, tag, element(layout, tag, b"CS", b"YES"))
    else:
        _put(out, layout, tag, None)


def _pieces(
    container: Container, meta: bytes, out: list[bytes], pixels: list[bytes | Span]
) -> tuple[bytes | Span, ...]:
    """The released bytes: neighbouring byte strings joined, spans between them."""
    if container.syntax.deflated:
        body = b"".join([*out, *(piece for piece in pixels if isinstance(piece, bytes))])
        return (meta + deflate(body),)
    pieces: list[bytes | Span] = []
    run = [meta, *out]
    for piece in pixels:
        if isinstance(piece, Span):
            pieces += [b"".join(run), piece]
            run = []
        else:
            run.append(piece)
    if run:
        pieces.append(b"".join(run))
    return tuple(pieces)


def with_outcome(record: Record, outcome: Outcome, finding: Finding) -> Record:
    """The record of an object that a later stage drops or quarantines."""
    return replace(record, outcome=outcome, findings=(*record.findings, finding))
