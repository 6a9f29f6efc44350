"""The stage partners: asks other hospitals, before publication, whether they have the same items or patients.

Results are stored, so that a resumed run asks nobody twice. A partner that cannot be reached ends the run,
which can be repeated; agreements without an address are compared by the command ``overlap``.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Final

from medsanitize.federation.parties.identity import LocalParty, open_party
from medsanitize.federation.parties.trust import trusted_partner
from medsanitize.federation.private_overlap.ask import Asking, learned
from medsanitize.federation.private_overlap.items import ReleaseItems, items_of
from medsanitize.federation.private_overlap.statement import statement_of
from medsanitize.federation.private_overlap.terms import terms_of
from medsanitize.federation.psi.install import PSI
from medsanitize.federation.transport.exchange import ask_over_https
from medsanitize.pipeline.stages.manifests import ManifestsStage, object_rows
from medsanitize.pipeline.stages.source_digests import digests_of_sources
from medsanitize.pipeline.stages.stage import Advance, GateInput, Phase, RunContext, Stage
from medsanitize.pipeline.stages.tally import Tally
from medsanitize.pipeline.state.database import State
from medsanitize.pipeline.state.result_types import AskedPartner, AskedPartners
from medsanitize.pipeline.state.sanitized import links
from medsanitize.pipeline.state.stage_results import ASKED_PARTNERS
from medsanitize.policies.partners import Agreement, Partners
from medsanitize.progress import NoProgress
from medsanitize.release.summary import GateResult, GateSummary

if TYPE_CHECKING:
    from medsanitize.federation.near.session import NearSide
    from medsanitize.pipeline.stages.near_comparison import Embed

_GATE: Final = "overlap with partners"
_NOT_MADE: Final = "No other hospital was asked; the policy section partners names those to ask."


@dataclass(frozen=True, slots=True)
class PartnersStage(Stage):
    """Ask every partner with an address whether it has items of the staged set."""

    section: Partners | None
    manifests: ManifestsStage

    name: ClassVar = "partners"
    phase: ClassVar[Phase] = "set"
    invalidated_by: ClassVar = frozenset({"sanitize", "deduplicate", "overlap", "synthesize"})

    @property
    def reachable(self) -> tuple[Agreement, ...]:
        """Agreements with partners that have a server."""
        return () if self.section is None else tuple(one for one in self.section.agreements if one.address)

    def check(self) -> None:
        """Refuse missing keys, libraries and partners that are not trusted, before an input is read."""
        if self.section is None:
            return
        party = open_party(self.section.party)
        for one in self.reachable:
            trusted_partner(party, one.partner)
            if one.near is not None:
                # Models are heavy to import.
                from medsanitize.pipeline.stages.near_comparison import check_near

                check_near(party, one.near)

    def pending(self, state: State) -> int | None:
        """Return the number of partners that have not answered yet."""
        return len(self._unanswered(state))

    def run(self, context: RunContext, advance: Advance) -> None:
        """Ask the partners in turn, and store each answer, so that nobody is asked or paid for twice."""
        if self.section is None:
            return
        party, own = open_party(self.section.party), self._items(context)
        embed = self._embed(context)
        for one in self._unanswered(context.state):
            context.cancellation.check()
            # Before anything is paid for: images that cannot be read end the run here.
            side = _near_side(party, one, embed)
            if _answer_of(context.state, one) is None:
                self._ask(context.state, party, one, own)
            if side is not None:
                context.cancellation.check()
                _ask_near(context.state, side, one)
            advance(1)

    def _items(self, context: RunContext) -> ReleaseItems:
        what = {each for one in self.reachable for each in one.compare}
        return items_of(
            object_rows(self.manifests, context.state, context.subkeys, Tally()),
            sorted(what),
            links(context.state, patients=True),
            digests_of_sources(context.state) if "files" in what else None,
        )

    def _embed(self, context: RunContext) -> Embed:
        from medsanitize.pipeline.stages.near_comparison import embed_once
        from medsanitize.verifiers.reid.overlap.dataset import Dataset, dataset_of_rows

        def images() -> Dataset:
            rows = object_rows(self.manifests, context.state, context.subkeys, Tally())
            return dataset_of_rows(rows, context.staged, "The release")

        return embed_once(images, NoProgress(), context.cancellation)

    def _ask(self, state: State, party: LocalParty, agreement: Agreement, own: ReleaseItems) -> None:
        """Compare equal items, and store the answer."""
        terms, partner = terms_of(agreement), trusted_partner(party, agreement.partner)
        items = {each.what: own.items[each.what] for each in terms.comparisons}
        asking = Asking(party, partner, terms, items, PSI.of(party.folder))
        told = learned(asking, ask_over_https(asking, agreement.address or ""))
        answer = AskedPartner(agreement.partner, sum(told.counts.values()), told.session)
        with state.transaction():
            ASKED_PARTNERS.store(
                state, AskedPartners((*_answers(state), answer), own.compared, own.not_compared)
            )

    def _unanswered(self, state: State) -> list[Agreement]:
        answers = {one.name: one for one in _answers(state)}
        return [
            one
            for one in self.reachable
            if one.partner not in answers or (one.near is not None and not answers[one.partner].near)
        ]

    @staticmethod
    def reset(state: State) -> None:
        """Remove the answers."""
        ASKED_PARTNERS.remove(state)

    def gates(self, judged: GateInput) -> tuple[GateSummary, ...]:
        """Decide the gate ``overlap with partners``; a plan says what would be revealed, and asks nobody."""
        if self.section is None:
            return ()
        if judged.is_plan:
            return (GateSummary(_GATE, "not_run", f"A plan asks no partner. {_would_learn(self.section)}"),)
        answers = ASKED_PARTNERS.load(judged.state)
        if answers is None:
            return (GateSummary(_GATE, "not_run", _NOT_MADE),)
        return (partners_gate(answers, self.section),)


def _answers(state: State) -> tuple[AskedPartner, ...]:
    found = ASKED_PARTNERS.load(state)
    return () if found is None else found.partners


def _answer_of(state: State, agreement: Agreement) -> AskedPartner | None:
    return next((one for one in _answers(state) if one.name == agreement.partner), None)


def _near_side(party: LocalParty, agreement: Agreement, embed: Embed) -> NearSide | None:
    """Embed the staged images, if the agreement has a near comparison."""
    if agreement.near is None:
        return None
    from medsanitize.pipeline.stages.near_comparison import near_side

    return near_side(party, trusted_partner(party, agreement.partner), agreement, embed)


def _ask_near(state: State, side: NearSide, agreement: Agreement) -> None:
    """Compare other images, and add the result to the answer that is stored."""
    from medsanitize.pipeline.stages.near_comparison import ask_partner_near

    found = ask_partner_near(side, agreement.address or "")
    with state.transaction():
        stored = ASKED_PARTNERS.load(state)
        if stored is None:
            raise RuntimeError("a near comparison before that of equal items")
        partners = tuple(
            replace(one, near=found.verdict.result, near_session=found.learned.session)
            if one.name == agreement.partner
            else one
            for one in stored.partners
        )
        ASKED_PARTNERS.store(state, replace(stored, partners=partners))


def partners_gate(answers: AskedPartners, section: Partners) -> GateSummary:
    """Decide the gate ``overlap with partners``: nothing passes that was not compared with every partner."""
    asked, agreed = len(answers.partners), len(section.agreements)
    common, concerned = sum(one.common > 0 for one in answers.partners), answers.compared + answers.missing
    detail = f"Partners asked: {asked} of {agreed}; with items of this release: {common}."
    near, results = _near_names(section), Counter(one.near for one in answers.partners if one.near)
    if near:
        told = ", ".join(f"{results[name]} {name}" for name in ("overlapping", "inconclusive", "exclusive"))
        detail += f" Comparisons of other images: {sum(results.values())} of {len(near)}; {told}."
    # What is not exclusive proves nothing.
    whole = asked == agreed and not answers.missing and results["exclusive"] == len(near)
    result: GateResult = "passed" if whole else "flagged"
    if common or results["overlapping"]:
        result = "failed" if section.action == "fail" else "flagged"
    elif len(near) < agreed:
        detail += " Whether other images show the same patients was not compared"
        detail += " with every partner." if near else "."
    return GateSummary(_GATE, result, detail, answers.compared, concerned)


def _near_names(section: Partners) -> frozenset[str]:
    return frozenset(one.partner for one in section.agreements if one.near is not None)


def _would_learn(section: Partners) -> str:
    from medsanitize.federation.near.verdict import near_statement

    # By number: names of partners are not public.
    told = []
    for number, one in enumerate(section.agreements, 1):
        told.append(statement_of(f"partner {number}", terms_of(one).comparisons))
        if one.near is not None:
            told.append(near_statement(f"partner {number}", one.near.reveal))
    return " ".join(told)
