"""Sanitizer for DICOM objects."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING

from medsanitize.policies.model import Policy
from medsanitize.policies.tables.safe_private import SafePrivate, safe_private
from medsanitize.policies.tables.vocabulary import defined_terms
from medsanitize.sanitize.burned_in.areas import fixed_areas
from medsanitize.sanitize.burned_in.device import Device, known_regions
from medsanitize.sanitize.context import Context
from medsanitize.sanitize.dicom import deidentification_attributes
from medsanitize.sanitize.dicom.assemble import file_pieces, first_text, put_element, raw_value
from medsanitize.sanitize.dicom.burned_in_risk import (
    RISK_ATTRIBUTES,
    is_image,
    may_be_handwritten,
    may_show_text,
)
from medsanitize.sanitize.dicom.claimed_options import weakened_rows
from medsanitize.sanitize.dicom.dates import patient_shift
from medsanitize.sanitize.dicom.encapsulated_pdf import is_to_rebuild
from medsanitize.sanitize.dicom.faces import FaceCheck, check_face, remove_face
from medsanitize.sanitize.dicom.object_state import ObjectState, Piece, SubjectState
from medsanitize.sanitize.dicom.overlays import kept_planes, put_planes
from medsanitize.sanitize.dicom.patient_characteristics import CHARACTERISTICS, patient_characteristics
from medsanitize.sanitize.dicom.research_attributes import research_attributes
from medsanitize.sanitize.dicom.rewrite import walk_dataset
from medsanitize.sanitize.dicom.rules import AttributeRules, registered_uids
from medsanitize.sanitize.dicom.sr_content import ContentTree
from medsanitize.sanitize.dicom.text_rules import Observer, TextRules
from medsanitize.sanitize.dicom.time_pattern import TIMES, time_digests
from medsanitize.sanitize.dicom.walk_state import SafePrivates, WalkState
from medsanitize.sanitize.dicom.wsi import exclude_non_tissue
from medsanitize.sanitize.formats.dicom.elements import skip_elements
from medsanitize.sanitize.formats.dicom.file import DicomFile, build_file_meta, open_dicom
from medsanitize.sanitize.formats.dicom.image_pixel import IMAGE_PIXEL, Geometry, read_geometry
from medsanitize.sanitize.formats.dicom.pixel_data import WrittenPixels, count_native_frames, write_pixels
from medsanitize.sanitize.formats.dicom.transfer_syntax import encode_element
from medsanitize.sanitize.formats.file_type import Buffer
from medsanitize.sanitize.pieces import OutFile
from medsanitize.sanitize.pseudonyms import SubKeys, patient_pseudonym
from medsanitize.sanitize.quarantine import Quarantined, tag_text
from medsanitize.sanitize.result import CheckResult, ObjectRecord, Outcome, Sanitized
from medsanitize.sanitize.sanitizer import Sanitizer
from medsanitize.sanitize.text.vocabulary_filter import forbidden_words

if TYPE_CHECKING:
    from medsanitize.sanitize.dicom.clean_pixel_data import CleanedPixelData, PixelCleaner
    from medsanitize.sanitize.dicom.encapsulated_pdf import RebuiltDocument
    from medsanitize.sanitize.dicom.overlays import Bitmap, Reader

_SOP_CLASS, _SOP, _STUDY, _SERIES = 0x00080016, 0x00080018, 0x0020000D, 0x0020000E
_NAME, _PATIENT_ID = 0x00100010, 0x00100020
_BURNED_IN, _FRAMES = 0x00280301, 0x00280008
_TEXTS = RISK_ATTRIBUTES
_DOCUMENT, _GRAPHIC_ANNOTATIONS = 0x00420011, 0x00700001
_CAPTURE = IMAGE_PIXEL | {*_TEXTS.values(), _SOP, _STUDY, _SERIES, _PATIENT_ID}
_DEVICE = {
    "manufacturer": 0x00080070,
    "model": 0x00081090,
    "modality": 0x00080060,
    "software": 0x00181020,
    "image_type": 0x00080008,
    "series": 0x0008103E,
    "burned_in": _BURNED_IN,
    "sop_class": _SOP_CLASS,
}
_CAPTURE |= {*_DEVICE.values(), _DOCUMENT, *TIMES, *CHARACTERISTICS}
# Pixel data of larger objects (bytes) is copied from the source instead of held in memory.
_STREAM_FROM = 1 << 20
# A walk is repeated for another SOP class, for missing UIDs and for removed content items.
_MOST_WALKS = 8


class _OtherSopClass(Exception):
    """The data set states another SOP class than the one by which its rules were chosen."""


@dataclass(frozen=True, slots=True)
class _Pass:
    """A completed walk: its state, the rewritten elements, where the header ends, the SOP class."""

    walk: WalkState
    out: list[bytes]
    end: int
    sop_class: str


class DicomSanitizer(Sanitizer[Buffer]):
    """Sanitizer for DICOM objects; see `Sanitizer`.

    Implements the Basic Application Level Confidentiality Profile (PS3.15 E.2) with the options of the policy
    (E.3). Long pixel data is copied from the source instead of held in memory.

    Parameters
    ----------
    policy : Policy
    keys : SubKeys
    observe : callable, optional
        Receives tag, text before and text after of each text of each object.
    """

    kind = "dicom"
    nesting = "sequences"

    def __init__(self, policy: Policy, keys: SubKeys, observe: Observer | None = None) -> None:
        super().__init__(policy, keys)
        self._book = AttributeRules(policy.dicom)
        self._weakened = weakened_rows(policy.dicom.options, self._book.override)
        self._texts = TextRules(policy.text, observe)
        self._uids: dict[str, str] = {}
        self._safe_private = _safe_privates(policy)
        self._subject: SubjectState | None = None
        self._context: Context | None = None
        self._pixel_cleaner: PixelCleaner | None = None

    def _size(self, source: Buffer) -> int:
        return len(source)

    def _sanitize(self, source: Buffer, context: Context) -> Sanitized:
        container = open_dicom(source, self._policy.dicom.limits)
        streamed = container.buf is source and len(source) >= _STREAM_FROM
        return self._release(container, context, streamed)

    def _subject_of(self, context: Context) -> SubjectState:
        # Consecutive objects are often of one patient: they share the state and its cache.
        last, subject = self._context, self._subject
        if subject is None or last is None or not _same_subject(last, context):
            made = patient_pseudonym(self._keys, self._policy.pseudonyms, context.patient)
            shift = patient_shift(self._keys, context.patient, self._policy.dicom.dates)
            ban = self._texts.with_denied(forbidden_words(context.known))
            dates = frozenset(one.value for one in context.known if one.category == "date")
            pseudonym = context.pseudonym or made
            subject = self._subject = SubjectState(
                context.patient, pseudonym, shift, ban, dates, context.known
            )
        elif self._texts.observe is not None:
            subject.memory.clear()  # texts of remembered elements would not be observed again
        self._context = context
        return subject

    def _release(self, container: DicomFile, context: Context, streamed: bool) -> Sanitized:
        job = ObjectState(self._policy, self._keys, self._subject_of(context), self._uids, self._texts)
        job.own_uid = context.own_uid
        job.decided = {decision.location: decision.verdict for decision in context.decisions}
        # The data set decides: a class that only the File Meta Information states may be anything.
        sop_class = container.sop_class if container.sop_class in registered_uids() else ""
        made: dict[int, str] = {}
        if job.own_uid:
            made[_SOP] = job.uid(f"own/{sha256(container.buf).hexdigest()}")
        tree = ContentTree()
        for _ in range(_MOST_WALKS):
            try:
                done = self._walk(container, job, sop_class, made, tree)
            except _OtherSopClass as other:
                sop_class = other.args[0]
                continue
            # References are written before all removals are known: the next walk renumbers by this one's.
            tree = ContentTree(frozenset(tree.dropped))
            if not done.walk.tree.settled():
                continue
            missing = self._missing_uids(done, context, made)
            if not missing:
                return self._finish(container, done, context, streamed)
            made.update(missing)
        raise Quarantined("unsettled")  # fail closed: the result of the last walk may be inconsistent

    def _walk(
        self, container: DicomFile, job: ObjectState, sop_class: str, made: dict[int, str], tree: ContentTree
    ) -> _Pass:
        if sop_class and sop_class not in registered_uids():
            raise Quarantined("unknown-sop-class")
        is_to_rebuild(sop_class, self._policy.documents)
        limits = self._policy.dicom.limits
        job.charset = b""
        layout = container.syntax.layout
        walk = WalkState(job, self._book, container.buf, layout, limits, self._safe_private, _CAPTURE, tree)
        inserts = self._inserts(walk, sop_class, made)
        job.replaced = frozenset(tag for tag, _ in inserts)
        out: list[bytes] = []
        whole = len(container.buf)
        # A bound of the header protects the process: everything before the pixel data is held in memory.
        stop = min(whole, container.start + limits.header_bytes)
        try:
            scope = self._book.scope(sop_class)
            end = walk_dataset(walk, scope, container.start, stop, layout, out, inserts=inserts)
        except Quarantined as refused:
            if stop < whole and refused.rule in ("truncated", "length-past-end"):
                raise Quarantined("header-too-large") from None
            raise
        if end == stop < whole:
            raise Quarantined("header-too-large")
        found = walk.text(_SOP_CLASS)
        if found and found != sop_class:
            raise _OtherSopClass(found)
        if container.sop_class and not sop_class:
            raise Quarantined("unknown-sop-class")
        return _Pass(walk, out, end, sop_class)

    def _rebuild(self, done: _Pass, context: Context) -> RebuiltDocument:
        """Rebuild the object's PDF and write it into the rewritten data set."""
        from medsanitize.sanitize.dicom.encapsulated_pdf import put_document, rebuild_document

        walk = done.walk
        if _DOCUMENT not in walk.captured:
            raise Quarantined("document-unreadable", "document")
        start, end = walk.captured[_DOCUMENT]
        document, terms = bytes(walk.buf[start:end]), walk.job.subject.terms
        reader, decisions = self._reads_pixels().reader, context.decisions
        made = rebuild_document(document, self._policy, self._texts.cleaner, reader, terms, decisions)
        put_document(done.out, walk.target, made.document)
        walk.rules += ["C:document-rebuilt", *["C:burned-in-text"] * made.regions]
        return made

    def _inserts(self, walk: WalkState, sop_class: str, made: dict[int, str]) -> list[tuple[int, Piece]]:
        """Elements that the program writes itself, highest tag first."""
        layout, book = walk.target, self._book
        pseudonym = walk.job.subject.pseudonym.encode("ascii")
        scope = book.scope(sop_class)
        stated = deidentification_attributes.deidentification_elements(
            layout, self._policy.dicom, book.claims(sop_class), self._weakened
        )
        # An IOD that requires the attribute keeps the source's value unless the face check sets another.
        if book.rule(scope, deidentification_attributes.FEATURES).type == "1":
            del stated[deidentification_attributes.FEATURES]
        rows = [(tag, chunk, "D:statement") for tag, chunk in stated.items()]
        if scope.belongs(_PATIENT_ID):
            rows.append((_PATIENT_ID, encode_element(layout, _PATIENT_ID, b"LO", pseudonym), "D:pseudonym"))
            if book.override(_NAME) is None:
                rows.append((_NAME, encode_element(layout, _NAME, b"PN", pseudonym), "D:pseudonym"))
        # IODs without a patient, such as color palettes, must not get one.
        else:
            rows += [(tag, b"", "X:patient") for tag in (_PATIENT_ID, _NAME)]
        for tag, uid in made.items():
            why = "U:shared-uid" if walk.job.own_uid and tag == _SOP else "U:missing"
            rows.append((tag, encode_element(layout, tag, b"UI", uid.encode("ascii")), why))
        return [(tag, (chunk, (rule,), ())) for tag, chunk, rule in sorted(rows, reverse=True)]

    def _missing_uids(self, done: _Pass, context: Context, made: dict[int, str]) -> dict[int, str]:
        """UIDs that the object lacks, derived from the key and the object.

        Objects without Study Instance UID therefore get one each: nothing shows that they belong together.
        """
        scope = self._book.scope(done.sop_class)
        wanted = [_SOP, *(tag for tag in (_STUDY, _SERIES) if scope.belongs(tag))]
        return {
            tag: done.walk.job.uid(f"missing/{tag:08x}/{context.object_key}")
            for tag in wanted
            if tag not in made and not done.walk.text(tag)
        }

    def _finish(self, container: DicomFile, done: _Pass, context: Context, streamed: bool) -> Sanitized:
        walk, out, layout = done.walk, done.out, done.walk.target
        texts = {name: walk.text(tag) for name, tag in _TEXTS.items()}
        self._refuse_subject(walk)
        exclude_non_tissue(texts, self._policy.wsi)
        geometry = self._geometry(container, done)
        pixels = self._pixels(container, done, geometry, streamed)
        face = check_face(texts, bool(pixels.pieces), context.face, self._policy.pixels.faces)
        # Faces first: text is then read and verified in the pixels as they are released.
        if face.cuts and geometry is not None:
            modality = texts["Modality"]
            cut = remove_face(container, done.end, out, pixels, geometry, self._policy, face.cuts, modality)
            pixels, geometry, container = cut.pixels, cut.geometry, replace(container, syntax=cut.syntax)
        known = geometry is not None and self._is_known(walk, geometry)
        check = self._pixel_check(texts, bool(pixels.pieces), known=known)
        step: CleanedPixelData | RebuiltDocument | None = None
        if is_to_rebuild(done.sop_class, self._policy.documents):
            check, step = CheckResult.PASSED, self._rebuild(done, context)
        if check is CheckResult.NOT_RUN:
            self._state_burned_in(done, texts["BurnedInAnnotation"])
        reader = partial(self._plane_reader, walk) if self._policy.dicom.options.clean_pixel_data else None
        planes = kept_planes(walk, reader)
        if check is CheckResult.PASSED and geometry is not None:
            step = cleaned = self._clean_pixels(container, done, pixels, geometry, context, planes)
            pixels, container = cleaned.pixels, replace(container, syntax=cleaned.syntax)
        put_planes(walk, self._book.scope(done.sop_class), out, planes)
        self._check_graphics(done)
        rules = walk.rules + pixels.rules
        self._state_face(done, face, read=check is CheckResult.PASSED, cut="face-defaced" in rules)
        put_element(
            out,
            layout,
            deidentification_attributes.TEMPORAL,
            deidentification_attributes.temporal_information_modified(
                layout, self._book.claims(done.sop_class), rules
            ),
        )
        # From the rewritten data set, so that the record has no identifier of the source.
        uids = {tag: first_text(out, layout, tag) for tag in (_SOP, _STUDY, _SERIES)}
        uids[_SOP] = uids[_SOP] or walk.job.uid(walk.text(_SOP))
        image = geometry if pixels.pieces else None
        modality = texts["Modality"]
        record = ObjectRecord(
            Outcome.RELEASED,
            "dicom",
            face.findings,
            rules=dict(sorted(Counter(rules).items())),
            patient=walk.job.subject.pseudonym,
            study=uids[_STUDY],
            series=uids[_SERIES],
            instance=uids[_SOP],
            # Any other value could be free text, and the manifest is published.
            modality=modality if modality in defined_terms().get(_TEXTS["Modality"], ()) else "",
            sop_class=done.sop_class,
            transfer_syntax=container.syntax.uid,
            rows=image.rows if image else None,
            columns=image.columns if image else None,
            frames=image.frames if image else None,
            pixels=check,
            faces=face.check,
            pixel_regions_cleaned=step.regions if step else 0,
            times=time_digests(walk, out, modality),
            stated=patient_characteristics(walk),
            research=research_attributes(out, layout),
        )
        meta = build_file_meta(container.syntax, done.sop_class, uids[_SOP])
        review_items = (*walk.job.review_items, *(step.review_items if step else ()))
        file = OutFile(".dcm", file_pieces(container, meta, out, pixels.pieces))
        return Sanitized(record, (file,), _links(walk, uids[_SOP]), review_items)

    def _geometry(self, container: DicomFile, done: _Pass) -> Geometry | None:
        """Return what the pixels are read by; None if there are none, or nothing says how to read them."""
        walk, layout = done.walk, done.walk.target
        geometry = read_geometry(walk) if container.readable_pixels else None
        stated = walk.text(_FRAMES)
        if geometry is None or not stated or stated.isdigit() or container.syntax.codec != "native":
            return geometry
        # The number is unreadable: the size of the pixel data states it as well.
        buf = container.buf
        frames = count_native_frames(buf, done.end, len(buf), container.syntax.layout, geometry)
        if frames < 1:
            return geometry
        number = encode_element(layout, _FRAMES, b"IS", str(frames).encode())
        put_element(done.out, layout, _FRAMES, number)
        walk.rules.append("D:number-of-frames")
        return replace(geometry, frames=frames)

    def _pixels(
        self, container: DicomFile, done: _Pass, geometry: Geometry | None, streamed: bool
    ) -> WrittenPixels:
        """Write the pixel data and check that only elements follow it, which are removed."""
        buf, layout, total = container.buf, container.syntax.layout, len(container.buf)
        pixels = write_pixels(buf, done.end, total, layout, container.syntax, geometry, streamed=streamed)
        if not pixels.pieces:
            skip_elements(buf, pixels.end, total, layout, self._policy.dicom.limits.depth)
        if pixels.end < total:
            pixels.rules.append("X:after-pixel-data")
        if pixels.pieces and not self._book.scope(done.sop_class).belongs(pixels.tag):
            raise Quarantined("pixel-data-astray", "pixels")
        return pixels

    def _refuse_subject(self, walk: WalkState) -> None:
        # Two values are two patients or instances: one pseudonym or UID cannot stand for both.
        if "\\" in walk.text(_PATIENT_ID):
            raise Quarantined("two-patient-ids", "(0010,0020)")
        if "\\" in walk.text(_SOP):
            raise Quarantined("multi-valued-uid", tag_text(_SOP))

    def _is_known(self, walk: WalkState, image: Geometry) -> bool:
        """Whether the table of devices or a region of the policy has text in such an image."""
        rules, device = self._policy.pixels, _device(walk)
        if fixed_areas(rules.regions, device, image):
            return True
        return rules.known_devices and bool(known_regions(device, image.rows, image.columns))

    def _pixel_check(self, texts: dict[str, str], has_pixels: bool, *, known: bool) -> CheckResult:
        """Whether the pixels are read for text (``passed``), once `_clean_pixels` has verified them."""
        cleans = self._policy.dicom.options.clean_pixel_data
        if has_pixels and cleans and self._policy.pixels.search == "every-image" and is_image(texts):
            return CheckResult.PASSED
        if not has_pixels or not (known or may_show_text(texts)):
            return CheckResult.NOT_APPLICABLE
        if cleans:
            return CheckResult.PASSED
        if self._policy.pixels.at_risk == "quarantine":
            raise Quarantined("burned-in-text-risk", "pixels")
        return CheckResult.NOT_RUN

    def _clean_pixels(
        self,
        container: DicomFile,
        done: _Pass,
        pixels: WrittenPixels,
        geometry: Geometry,
        context: Context,
        planes: dict[int, Bitmap],
    ) -> CleanedPixelData:
        """Blank identifying text in the pixels and the planes over them, and state it in the header."""
        from medsanitize.sanitize.dicom.overlay_text import drawn_planes, without_areas

        walk, layout = done.walk, done.walk.target
        by_hand = may_be_handwritten({name: walk.text(tag) for name, tag in _TEXTS.items()})
        if by_hand and self._policy.pixels.handwriting == "quarantine":
            raise Quarantined("handwriting-unread", "pixels")
        drawn = drawn_planes(walk, planes)
        step = self._reads_pixels()(
            container,
            done.out,
            pixels,
            geometry,
            device=_device(walk),
            terms=walk.job.subject.terms,
            decisions=context.decisions,
            planes=tuple(drawn.values()),
            handwritten=by_hand,
        )
        planes.update(without_areas(planes, drawn, step.drawn))
        if self._book.scope(done.sop_class).belongs(_BURNED_IN):
            put_element(done.out, layout, _BURNED_IN, encode_element(layout, _BURNED_IN, b"CS", b"NO"))
        claims = self._book.claims(done.sop_class)
        codes = deidentification_attributes.method_codes(layout, claims, pixels_read=True)
        put_element(done.out, layout, deidentification_attributes.METHOD_CODES, codes)
        return step

    def _reads_pixels(self) -> PixelCleaner:
        """The reader of burned-in text, created with its models for the first object that needs it."""
        if self._pixel_cleaner is None:
            from medsanitize.sanitize.dicom.clean_pixel_data import PixelCleaner

            self._pixel_cleaner = PixelCleaner(self._policy, self._texts.cleaner)
        return self._pixel_cleaner

    def _check_graphics(self, done: _Pass) -> None:
        """Refuse an object whose graphic annotations look like text, or may be text that nobody looks for."""
        if not raw_value(done.out, done.walk.target, _GRAPHIC_ANNOTATIONS):
            return
        from medsanitize.sanitize.dicom import drawn_graphics

        graphics = drawn_graphics.read_graphics(done.out, done.walk.target)
        if not drawn_graphics.may_write(graphics):
            return
        if self._policy.dicom.options.clean_pixel_data:
            if drawn_graphics.shows_text(graphics):
                raise Quarantined("drawn-text", tag_text(drawn_graphics.GRAPHIC_OBJECTS))
        elif self._policy.pixels.at_risk == "quarantine":
            raise Quarantined("burned-in-text-risk", tag_text(drawn_graphics.GRAPHIC_OBJECTS))

    def _plane_reader(self, walk: WalkState) -> Reader:
        from medsanitize.sanitize.dicom.overlay_text import plane_reader

        reader, terms = self._reads_pixels().reader, walk.job.subject.terms
        return plane_reader(self._policy, self._texts.cleaner, reader, terms)

    def _state_face(self, done: _Pass, face: FaceCheck, *, read: bool, cut: bool) -> None:
        """Write Recognizable Visual Features (0028,0302), and the method code if a face was removed."""
        layout = done.walk.target
        if face.features and self._book.scope(done.sop_class).belongs(deidentification_attributes.FEATURES):
            value = encode_element(
                layout, deidentification_attributes.FEATURES, b"CS", face.features.encode("ascii")
            )
            put_element(done.out, layout, deidentification_attributes.FEATURES, value)
        if cut:
            claims = self._book.claims(done.sop_class)
            codes = deidentification_attributes.method_codes(layout, claims, pixels_read=read, face_cut=True)
            put_element(done.out, layout, deidentification_attributes.METHOD_CODES, codes)

    def _state_burned_in(self, done: _Pass, stated: str) -> None:
        """Write Burned In Annotation (0028,0301) of unread pixels at risk: YES or absent, never NO."""
        layout = done.walk.target
        required = self._book.rule(self._book.scope(done.sop_class), _BURNED_IN).type == "1"
        yes = encode_element(layout, _BURNED_IN, b"CS", b"YES")
        put_element(done.out, layout, _BURNED_IN, yes if stated == "YES" or required else None)


def _device(walk: WalkState) -> Device:
    return Device(**{name: walk.text(tag) for name, tag in _DEVICE.items()})


def _links(walk: WalkState, instance: str) -> tuple[tuple[str, str], ...]:
    patient = walk.text(_PATIENT_ID)
    own = [(patient, walk.job.subject.pseudonym)] if patient else []
    if walk.job.own_uid:
        own.append((walk.text(_SOP), instance))
    return tuple(dict.fromkeys([*own, *walk.links]))


def _same_subject(last: Context, context: Context) -> bool:
    same = last.patient == context.patient and last.pseudonym == context.pseudonym
    same = same and last.decisions == context.decisions  # the cache contains their effects
    return same and (last.known is context.known or last.known == context.known)


def _safe_privates(policy: Policy) -> SafePrivates:
    if not policy.dicom.options.retain_safe_private:
        return {}
    listed = {key: row for key, row in safe_private().items() if row.care != "opaque"}
    for own in policy.dicom.safe_private:
        key = (int(own.group, 16), own.creator, int(own.element, 16))
        listed[key] = SafePrivate(own.vr, "", "items" if own.vr == "SQ" else "text", "policy")
    return listed
