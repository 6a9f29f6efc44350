"""Sanitizer for whole-slide images: takes the files of a slide, returns an edit plan and a record."""

from __future__ import annotations

from dataclasses import replace

from medsanitize.sanitize.context import Context, SpecimenIds
from medsanitize.sanitize.formats.edit_plan import SlideFacts
from medsanitize.sanitize.pseudonyms import keyed_mac, patient_pseudonym, remap_uid
from medsanitize.sanitize.result import CheckResult, ObjectRecord, Outcome, Sanitized, SlideRecord
from medsanitize.sanitize.sanitizer import Sanitizer
from medsanitize.sanitize.wsi.macro import KEPT, TEXT
from medsanitize.sanitize.wsi.registry import plan_edits
from medsanitize.sanitize.wsi.source import SlideName, SlideView
from medsanitize.sanitize.wsi.stains import known_stain

MODALITY = "SM"
# Any program writes these formats: the image may be something else than tissue, so text is not ruled out.
_OF_ANYTHING = frozenset(["generic-tiff", "ome-tiff"])
# 64 bits: short enough for tables, long enough that specimens do not collide.
_NAME_BYTES = 8


class SlideSanitizer(Sanitizer[SlideView]):
    """Sanitizer for whole-slide images; see `Sanitizer`.

    Pixels are decoded only for a macro image that is kept; of tiles, only headers and boundaries are read.
    ``specimen`` of the context holds the specimen identifiers that the policy's table assigns to the slide.
    """

    kind = "slide"

    def _size(self, source: SlideView) -> int:
        return sum(len(file.data) for file in source.files)

    def _sanitize(self, source: SlideView, context: Context) -> Sanitized:
        pseudonyms = self._policy.pseudonyms
        instance = remap_uid(self._keys, pseudonyms.uid_root, f"slide/{context.object_key}")
        plan = plan_edits(source, self._policy.wsi, SlideName(instance, self._keys.dummy))
        patient = context.pseudonym or patient_pseudonym(self._keys, pseudonyms, context.patient)
        slide, links = self._placed(plan.facts, context)
        record = ObjectRecord(
            Outcome.RELEASED,
            self.kind,
            rules=dict(sorted(plan.rules.items())),
            patient=patient,
            instance=instance,
            modality=MODALITY,
            rows=slide.levels[0][1],
            columns=slide.levels[0][0],
            pixels=_read(slide.vendor, KEPT in plan.rules),
            pixel_regions_cleaned=plan.rules.get(TEXT, 0),
            slide=slide,
        )
        # The names of source files may identify the patient: they are links for the encrypted ledger only.
        main = source.files[0].name.rpartition("/")[2]
        if context.specimen is not None and context.specimen.patient:
            links = (*links, (context.specimen.patient, patient))
        return Sanitized(record, plan.files, (*links, (main, instance), *plan.names))

    def _placed(self, facts: SlideFacts, context: Context) -> tuple[SlideRecord, tuple[tuple[str, str], ...]]:
        """Return the slide's facts with pseudonyms of its specimen ids, and (source, pseudonym) pairs."""
        specimen = context.specimen or SpecimenIds()
        # Each pseudonym depends on the patient and the levels above: block "1" of two patients must differ.
        above: tuple[str, ...] = (context.patient,)
        new: dict[str, str] = {}
        for level in ("sample", "block", "section"):
            own = getattr(specimen, level)
            above = (*above, own)
            new[level] = keyed_mac(self._keys.patient, level, *above)[:_NAME_BYTES].hex() if own else ""
        scanner = (
            keyed_mac(self._keys.patient, "scanner", specimen.scanner)[:_NAME_BYTES].hex()
            if specimen.scanner
            else ""
        )
        stain = known_stain(specimen.stain) or known_stain(facts.stain)
        slide = SlideRecord(
            facts.vendor, facts.levels, facts.mpp, facts.objective, stain, **new, scanner=scanner
        )
        slide = replace(slide, macros=",".join(facts.macros))
        pairs = ((getattr(specimen, level), new[level]) for level in new)
        return slide, tuple(pair for pair in pairs if pair[0])


def _read(vendor: str, macro: bool) -> CheckResult:
    """Result of the pixel check: text is searched in a kept macro only, never in tissue."""
    if macro:
        return CheckResult.PASSED
    return CheckResult.NOT_RUN if vendor in _OF_ANYTHING else CheckResult.NOT_APPLICABLE
