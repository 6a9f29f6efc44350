"""The object function for whole-slide images: the files of a slide in, edit script and record out."""

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
_OF_ANYTHING = frozenset(["generic-tiff", "ome-tiff"])
"""Formats that any program writes, so that nobody can say what the picture shows."""
_NAME_BYTES = 8


class SlideSanitizer(Sanitizer[SlideView]):
    """The object function for whole-slide images; see `Sanitizer`.

    But for a macro that stays, only headers and the limits of tiles are read. ``place`` of the context says
    where the slide stands, where the policy's table does.
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
        main = source.files[0].name.rpartition("/")[2]
        if context.place is not None and context.place.patient:
            links = (*links, (context.place.patient, patient))
        return Sanitized(record, plan.files, (*links, (main, instance), *plan.names))

    def _placed(self, facts: SlideFacts, context: Context) -> tuple[SlideRecord, tuple[tuple[str, str], ...]]:
        """The slide's facts with its place as pseudonyms, which name nothing beyond their own patient."""
        place = context.place or SpecimenIds()
        above: tuple[str, ...] = (context.patient,)
        new: dict[str, str] = {}
        for level in ("sample", "block", "section"):
            own = getattr(place, level)
            above = (*above, own)
            new[level] = keyed_mac(self._keys.patient, level, *above)[:_NAME_BYTES].hex() if own else ""
        scanner = (
            keyed_mac(self._keys.patient, "scanner", place.scanner)[:_NAME_BYTES].hex()
            if place.scanner
            else ""
        )
        stain = known_stain(place.stain) or known_stain(facts.stain)
        slide = SlideRecord(
            facts.vendor, facts.levels, facts.mpp, facts.objective, stain, **new, scanner=scanner
        )
        slide = replace(slide, macros=",".join(facts.macros))
        pairs = ((getattr(place, level), new[level]) for level in new)
        return slide, tuple(pair for pair in pairs if pair[0])


def _read(vendor: str, macro: bool) -> CheckResult:
    """Whether text was looked for: in a macro that stays, in no tissue."""
    if macro:
        return CheckResult.PASSED
    return CheckResult.NOT_RUN if vendor in _OF_ANYTHING else CheckResult.NOT_APPLICABLE
