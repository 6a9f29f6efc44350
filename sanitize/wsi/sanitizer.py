"""The object function for whole-slide images: the files of a slide in, edit script and record out."""

from __future__ import annotations

from dataclasses import dataclass, replace

from medsanitize.policies.model import Policy
from medsanitize.sanitize.context import Context, SpecimenIds
from medsanitize.sanitize.formats.edit_plan import OutFile, SlideFacts
from medsanitize.sanitize.pseudonyms import SubKeys, keyed_mac, patient_pseudonym, remap_uid
from medsanitize.sanitize.quarantine import Quarantined
from medsanitize.sanitize.result import CheckResult, Finding, ObjectRecord, Outcome, SlideRecord
from medsanitize.sanitize.wsi.macro import KEPT, TEXT
from medsanitize.sanitize.wsi.registry import plan_edits
from medsanitize.sanitize.wsi.source import SlideName, SlideView
from medsanitize.sanitize.wsi.stains import known_stain

MODALITY = "SM"
_OF_ANYTHING = frozenset(["generic-tiff", "ome-tiff"])
"""Formats that any program writes, so that nobody can say what the picture shows."""
_NAME_BYTES = 8


@dataclass(frozen=True, slots=True, repr=False)
class SanitizedSlide:
    """One slide after sanitisation: its record, the files to write, and the (old, new) ids replaced.

    ``files`` and ``links`` are empty unless the outcome is released; the main file comes first.
    """

    record: ObjectRecord
    files: tuple[OutFile, ...] = ()
    links: tuple[tuple[str, str], ...] = ()

    def __repr__(self) -> str:
        return f"SanitizedSlide({len(self.files)} files)"


class SlideSanitizer:
    """One policy and its keys for slides; call it once a slide.

    Parameters
    ----------
    policy : Policy
    keys : SubKeys
        Sub-keys of the release's scope.
    """

    def __init__(self, policy: Policy, keys: SubKeys) -> None:
        self._policy = policy
        self._keys = keys

    def __call__(self, view: SlideView, context: Context) -> SanitizedSlide:
        """Sanitise one slide; but for a macro that stays, only headers and the limits of tiles are read.

        Parameters
        ----------
        view : SlideView
            All files of the slide.
        context : Context
            ``place`` says where the slide stands, where the policy's table does.

        Returns
        -------
        SanitizedSlide
            Files and record; or a quarantined record that names place and rule.
        """
        try:
            if context.refuse:
                raise Quarantined(context.refuse)
            if sum(len(file.data) for file in view.files) > self._policy.dicom.limits.object_bytes:
                raise Quarantined("object-too-large")
            root = self._policy.pseudonyms.uid_root
            name = SlideName(remap_uid(self._keys, root, f"slide/{context.object_key}"), self._keys.dummy)
            plan = plan_edits(view, self._policy.wsi, name)
            patient = context.pseudonym or patient_pseudonym(
                self._keys, self._policy.pseudonyms, context.patient
            )
            slide, links = self._placed(plan.facts, context)
            record = ObjectRecord(
                Outcome.RELEASED,
                "slide",
                rules=dict(sorted(plan.rules.items())),
                patient=patient,
                instance=name.instance,
                modality=MODALITY,
                rows=slide.levels[0][1],
                columns=slide.levels[0][0],
                pixels=_read(slide.vendor, KEPT in plan.rules),
                pixel_regions_cleaned=plan.rules.get(TEXT, 0),
                slide=slide,
            )
            main = view.files[0].name.rpartition("/")[2]
            if context.place is not None and context.place.patient:
                links = (*links, (context.place.patient, patient))
            return SanitizedSlide(record, plan.files, (*links, (main, name.instance), *plan.names))
        except Quarantined as refused:
            finding = Finding(refused.place, refused.rule)
            return SanitizedSlide(ObjectRecord(Outcome.QUARANTINED, "slide", (finding,)))
        except RecursionError:
            return SanitizedSlide(
                ObjectRecord(Outcome.QUARANTINED, "slide", (Finding("structure", "too-deep"),))
            )

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
