"""The stage partners: asks other hospitals, before publication, whether they have the same items.

The result is stored, so that a resumed run asks nobody twice. A partner that cannot be reached ends the run,
which can be repeated; agreements without an address are compared by the command ``overlap``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from medsanitize.federation.parties.identity import open_party
from medsanitize.federation.parties.trust import trusted_partner
from medsanitize.federation.private_overlap.ask import Asking, learned
from medsanitize.federation.private_overlap.items import items_of
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
from medsanitize.release.summary import GateResult, GateSummary

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
        """Refuse missing keys and partners that are not trusted, before an input is read."""
        if self.section is not None:
            party = open_party(self.section.party)
            for one in self.reachable:
                trusted_partner(party, one.partner)

    def pending(self, state: State) -> int | None:
        """Return the number of partners that have not answered yet."""
        return len(self._unanswered(state))

    def run(self, context: RunContext, advance: Advance) -> None:
        """Ask the partners in turn, and store each answer, so that nobody is asked twice."""
        if self.section is None:
            return
        party, what = open_party(self.section.party), {each for one in self.reachable for each in one.compare}
        own = items_of(
            object_rows(self.manifests, context.state, context.subkeys, Tally()),
            sorted(what),
            links(context.state, patients=True),
            digests_of_sources(context.state) if "files" in what else None,
        )
        for one in self._unanswered(context.state):
            context.cancellation.check()
            terms = terms_of(one)
            items = {each.what: own.items[each.what] for each in terms.comparisons}
            partner = trusted_partner(party, one.partner)
            asking = Asking(party, partner, terms, items, PSI.of(self.section.party))
            told = learned(asking, ask_over_https(asking, one.address or ""))
            answer = AskedPartner(one.partner, sum(told.counts.values()), told.session)
            known = _answers(context.state)
            with context.state.transaction():
                ASKED_PARTNERS.store(
                    context.state, AskedPartners((*known, answer), own.compared, own.not_compared)
                )
            advance(1)

    def _unanswered(self, state: State) -> list[Agreement]:
        answered = {one.name for one in _answers(state)}
        return [one for one in self.reachable if one.partner not in answered]

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
        return (_judged(answers, self.section),)


def _answers(state: State) -> tuple[AskedPartner, ...]:
    found = ASKED_PARTNERS.load(state)
    return () if found is None else found.partners


def _judged(answers: AskedPartners, section: Partners) -> GateSummary:
    """Decide the gate: nothing passes that was not compared with every partner."""
    asked, agreed = len(answers.partners), len(section.agreements)
    common, concerned = sum(one.common > 0 for one in answers.partners), answers.compared + answers.missing
    detail = f"Partners asked: {asked} of {agreed}; with items of this release: {common}."
    # Runs make no near comparison; where one is agreed, the gate does not pass without it.
    whole = asked == agreed and not answers.missing and not any(one.near for one in section.agreements)
    result: GateResult = "passed" if whole else "flagged"
    if common:
        result = "failed" if section.action == "fail" else "flagged"
    else:
        detail += " Whether other images show the same patients was not compared."
    return GateSummary(_GATE, result, detail, answers.compared, concerned)


def _would_learn(section: Partners) -> str:
    # By number: names of partners are not public.
    return " ".join(
        statement_of(f"partner {number}", terms_of(one).comparisons)
        for number, one in enumerate(section.agreements, 1)
    )
