"""The commands of private comparisons: ask a partner, serve partners, and answer messages in a folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from medsanitize.errors import MedsanitizeError, UsageError
from medsanitize.federation.messages.sealed import InvalidMessage, open_sealed
from medsanitize.federation.parties.identity import Identity, LocalParty, open_party
from medsanitize.federation.parties.trust import trusted_partner, trusted_partners
from medsanitize.federation.private_overlap.answer import Offer, answer
from medsanitize.federation.private_overlap.ask import Asking, Learned, learned
from medsanitize.federation.private_overlap.items import ReleaseItems, items_of
from medsanitize.federation.private_overlap.statement import PrivateVerdict, conclude
from medsanitize.federation.private_overlap.terms import What, terms_of
from medsanitize.federation.psi.install import PSI
from medsanitize.federation.transport.exchange import ask_by_folder, ask_over_https
from medsanitize.federation.transport.folder import message_path, messages_for, put_message, read_message
from medsanitize.pipeline.jobs.near_overlap import answer_with, class_sides, near_sides, search_sides
from medsanitize.pipeline.jobs.private_csv import write_private_csv
from medsanitize.pipeline.resume import open_for_reading
from medsanitize.pipeline.runtime.result import describe_error, exit_code
from medsanitize.pipeline.runtime.workspace import workspace_of
from medsanitize.pipeline.stages.near_comparison import (
    Embed,
    NearResult,
    ask_partner_near,
    embed_once,
    near_side,
)
from medsanitize.pipeline.stages.source_digests import digests_of_sources
from medsanitize.pipeline.state.sanitized import links
from medsanitize.policies.model import Policy
from medsanitize.policies.partners import Agreement, Partners
from medsanitize.progress import Cancellation
from medsanitize.release.atomic_io import storage_errors
from medsanitize.release.manifest import read_rows
from medsanitize.verifiers.reid.overlap.dataset import dataset_from_release, is_release

if TYPE_CHECKING:
    import asyncio

    from medsanitize.federation.transport.https_server import Near
    from medsanitize.progress import Progress

COMMON: Final = "common.csv"
Files = Mapping[bytes, Sequence[str]]
"""Source files by digest."""


@dataclass(frozen=True, slots=True)
class PrivateOverlap:
    """The result of a private comparison.

    Attributes
    ----------
    verdict
        Verdict and statement; None if the partner's next message has not arrived yet.
    session
        The session, by which the transcript is filed.
    counts
        Number of common items by what was compared.
    sizes, answering_sizes
        Number of different items here and there.
    written
        Number of rows of the file of common items, which contains PHI; None if both policies reveal counts.
    near
        Result of the near comparison, where the agreement has one.
    near_error
        Why the near comparison that is agreed gave no result; what was found before it stands.
    """

    verdict: PrivateVerdict | None
    session: str
    counts: Mapping[What, int]
    sizes: Mapping[What, int] = field(default_factory=dict)
    answering_sizes: Mapping[What, int] = field(default_factory=dict)
    written: int | None = None
    near: NearResult | None = None
    near_error: MedsanitizeError | None = None


@dataclass(frozen=True, slots=True)
class PartnerRow:
    """One row of a comparison with several partners.

    Attributes
    ----------
    partner
        Name of the partner.
    found
        What was found; None if the comparison failed.
    failure, exit_code
        Why it failed, in one sentence, and the exit code that this has; nothing and 0 otherwise.
    """

    partner: str
    found: PrivateOverlap | None
    failure: str = ""
    exit_code: int = 0


def ask_partners(
    policy: Policy,
    release: Path,
    partners: Sequence[str],
    *,
    offline: Path | None,
    output: Path | None,
    progress: Progress,
    cancellation: Cancellation,
) -> tuple[PartnerRow, ...]:
    """Compare a release with those of several partners, in turn; one that fails does not stop the others.

    Parameters
    ----------
    policy, release, offline, progress : Policy, Path, Path or None, Progress
        As in `ask_partner`.
    partners : sequence of str
        Names or addresses of partners in the agreements; none means all of them.
    output : Path or None
        Folder for a folder of each partner with the common items.
    cancellation : Cancellation
        Ends the comparison between two partners.

    Raises
    ------
    UsageError
        There is no agreement with one of the partners, or there is no such release.
    """
    section = partners_of(policy)
    chosen = [agreement_with(section, one) for one in partners] or list(section.agreements)
    if not is_release(release):
        raise UsageError("There is no release at this path", "Name the folder that contains RELEASE.json")
    # Source files are read and images embedded once for all partners.
    files, embed, rows = cache(partial(_files_of, policy)), _embed(release, progress, cancellation), []
    for one in {each.partner: each for each in chosen}.values():
        cancellation.check()
        own = None if output is None else output / one.partner
        try:
            found = _asked(policy, release, one, files, embed, offline=offline, output=own, progress=progress)
        except MedsanitizeError as error:
            rows.append(PartnerRow(one.partner, None, describe_error(error), int(exit_code(error))))
        else:
            rows.append(PartnerRow(one.partner, found))
    return tuple(rows)


def ask_partner(
    policy: Policy,
    release: Path,
    partner: str,
    *,
    offline: Path | None,
    output: Path | None,
    progress: Progress,
) -> PrivateOverlap:
    """Compare a release with a partner's, over HTTPS or by files in a folder.

    Parameters
    ----------
    policy : Policy
        The policy with the agreement.
    release : Path
        The release to compare.
    partner : str
        Name or address of a partner in the agreements.
    offline : Path or None
        Folder for messages; repeat the call whenever the partner has answered.
    output : Path or None
        Folder for the list of common items; required where both policies reveal them.
    progress : Progress
        Receives the steps.

    Raises
    ------
    UsageError
        There is no agreement, address, output or release; the sets are too small or too large; the partner
        refuses.
    IntegrityError
        A message is not by the partner, malformed or out of order, or a file of the party is damaged.
    EnvironmentFailure
        The partner cannot be reached, or the disk fails.
    """
    agreement = agreement_with(partners_of(policy), partner)
    return _asked(
        policy,
        release,
        agreement,
        partial(_files_of, policy),
        _embed(release, progress, Cancellation()),
        offline=offline,
        output=output,
        progress=progress,
    )


def _asked(
    policy: Policy,
    release: Path,
    agreement: Agreement,
    files: Callable[[], Files],
    embed: Embed,
    *,
    offline: Path | None,
    output: Path | None,
    progress: Progress,
) -> PrivateOverlap:
    section = partners_of(policy)
    party = open_party(section.party)
    terms, near = terms_of(agreement), agreement.near
    reveals = agreement.reveal == "items" or (near is not None and near.reveal == "patients")
    if near is not None and offline is not None:
        raise UsageError(
            "A near comparison needs a connection: it takes hundreds of messages",
            "Compare without --offline, or leave near out of both policies",
        )
    # Before anything is paid for: common items are not printed, as they identify patients.
    if reveals and (output is None or (output / COMMON).exists()):
        raise UsageError(
            "The list of common items needs a file of its own", "Name a new folder with --output"
        )
    own = _items_of(policy, release, [one.what for one in terms.comparisons], files)
    partner_identity = trusted_partner(party, agreement.partner)
    asking = Asking(party, partner_identity, terms, own.items, PSI.of(section.party))
    # Before anything is paid for: images that cannot be read end the command here.
    side = near_side(party, partner_identity, agreement, embed) if near is not None else None
    progress.stage(f"compare with {agreement.partner}", None)
    if offline is not None:
        asked = ask_by_folder(asking, offline)
    else:
        if agreement.address is None:
            raise UsageError(
                "The agreement names no address of the partner",
                "Write partners.agreements.address, or exchange files with --offline FOLDER",
            )
        asked = ask_over_https(asking, agreement.address)
    if not asked.counts:
        return PrivateOverlap(None, asked.session, {})
    found = learned(asking, asked)
    verdict = conclude(
        agreement.partner,
        terms.comparisons,
        found,
        not_compared=own.not_compared,
        near=side is not None,
    )
    compared, failed = None, None
    if side is not None and agreement.address is not None:
        progress.stage(f"compare other images with {agreement.partner}", None)
        try:
            compared = ask_partner_near(side, agreement.address)
        except MedsanitizeError as error:
            # Common items were found and paid for: a failure must not hide them.
            failed = error
    written = None
    if reveals and output is not None:
        written = _write_common(output, found, own, compared.patients if compared is not None else ())
    return PrivateOverlap(
        verdict, asked.session, found.counts, found.sizes, found.answering_sizes, written, compared, failed
    )


def offer_of(policy: Policy) -> tuple[LocalParty, Offer]:
    """Return the party of a policy, and what it offers to its partners: the release of the policy.

    Raises
    ------
    UsageError
        The policy has no section ``partners``, its party was not made, or its release was not published.
    """
    section = partners_of(policy)
    release = workspace_of(policy).release
    if not is_release(release):
        raise UsageError("The release of the policy is not published yet", "Run the policy first")
    terms = {one.partner: terms_of(one) for one in section.agreements}
    # Sources are read once, not for every message; they cannot change without another run.
    files = cache(partial(_files_of, policy))
    return open_party(section.party), Offer(
        terms, lambda what: _items_of(policy, release, what, files).items, PSI.of(section.party)
    )


def serve_partners(
    policy: Policy, prepared: Callable[[asyncio.Event], None], started: Callable[[int], None]
) -> None:
    """Answer the partners of a policy over HTTPS until an event is set.

    Parameters
    ----------
    policy : Policy
        The policy with party, agreements and release.
    prepared : callable
        Called in the event loop with the event that ends the server.
    started : callable
        Called with the port when connections are accepted.

    Raises
    ------
    UsageError
        See `offer_of`.
    EnvironmentFailure
        The address cannot be used.
    """
    section, (party, offer) = partners_of(policy), offer_of(policy)
    trusted, release = trusted_partners(party), workspace_of(policy).release
    sides = near_sides(party, trusted, section, release)
    searches, classifiers = (
        search_sides(party, trusted, section, release),
        class_sides(party, trusted, section),
    )
    serve_answers(
        section,
        party,
        lambda sealed, carrier: answer(party, offer, sealed, carrier=carrier),
        prepared,
        started,
        # Also without an agreement: what a partner is told does not depend on the agreements of others.
        near=answer_with(party, sides, searches, classifiers),
    )


def serve_answers(
    section: Partners,
    party: LocalParty,
    answered: Callable[[bytes, Identity], bytes],
    prepared: Callable[[asyncio.Event], None],
    started: Callable[[int], None],
    near: Near | None = None,
) -> None:
    """Serve the trusted partners of a section until an event is set.

    ``answered`` answers a message, ``near`` holds a near comparison.

    Raises
    ------
    UsageError
        None of the partners is trusted.
    EnvironmentFailure
        The address cannot be used.
    """
    import asyncio

    from medsanitize.federation.transport.https_server import serve

    terms = {one.partner: terms_of(one) for one in section.agreements}
    known = {name: one for name, one in trusted_partners(party).items() if name in terms}
    if not known:
        raise UsageError(
            "None of the partners of the agreements is trusted", "Trust them first: medsanitize party trust"
        )
    host, _, port = section.listen.rpartition(":")

    async def served() -> None:
        stop = asyncio.Event()
        prepared(stop)
        await serve(
            party,
            known,
            (host.strip("[]"), int(port)),
            answered,
            most_bytes=max(one.most_bytes for one in terms.values()),
            started=started,
            stop=stop,
            near=near,
        )

    asyncio.run(served())


def answer_folder(policy: Policy, folder: Path) -> tuple[int, int]:
    """Answer the messages in a folder that have no answer yet.

    Returns
    -------
    int, int
        Numbers of answered messages, and of files that were no message of a trusted partner.
    """
    party, offer = offer_of(policy)
    most, answered, ignored = max(one.most_bytes for one in offer.terms.values()), 0, 0
    for session, number, path in list(messages_for(folder, party.identity)):
        for partner in trusted_partners(party).values():
            if message_path(folder, partner, session, number + 1).exists():
                break
        else:
            try:
                sealed = read_message(path, most_bytes=most)
                reply = answer(party, offer, sealed)
                recipient, _ = open_sealed(party, trusted_partners(party), sealed)
            except (InvalidMessage, UsageError):
                ignored += 1
                continue
            put_message(folder, recipient, session, number + 1, reply)
            answered += 1
    return answered, ignored


def partners_of(policy: Policy) -> Partners:
    """Return the section ``partners`` of a policy.

    Raises
    ------
    UsageError
        There is none.
    """
    if policy.partners is None:
        raise UsageError(
            "The policy has no section partners", "Name your party and the agreements with its partners"
        )
    return policy.partners


# -- the asking party -------------------------------------------------------------------------


def _embed(release: Path, progress: Progress, cancellation: Cancellation) -> Embed:
    return embed_once(partial(dataset_from_release, release, "The release"), progress, cancellation)


def agreement_with(section: Partners, partner: str) -> Agreement:
    """Return the agreement with a partner, by its name or address.

    Raises
    ------
    UsageError
        There is none.
    """
    for one in section.agreements:
        if partner in (one.partner, one.address) or (
            one.address is not None and partner.rstrip("/") == one.address.rstrip("/")
        ):
            return one
    raise UsageError(
        "The policy has no agreement with this partner",
        "Name a partner of partners.agreements, or its address",
    )


# -- items ------------------------------------------------------------------------------------


def _items_of(
    policy: Policy, release: Path, what: Sequence[What], files: Callable[[], Files]
) -> ReleaseItems:
    """Read the items of a release: digests of pixels, source files, patient identifiers of the ledger."""
    if not is_release(release):
        raise UsageError("There is no release at this path", "Name the folder that contains RELEASE.json")
    known: list[tuple[str, str]] = []
    if "files" in what and release.resolve() != workspace_of(policy).release.resolve():
        raise UsageError(
            "Source files are compared for the release of the policy only",
            "Name that release, or leave files out of partners.agreements.compare",
        )
    if "patients" in what:
        with closing(open_for_reading(policy)) as state:
            known = list(links(state, patients=True))
    return items_of(read_rows(release), what, known, files() if "files" in what else None)


def _files_of(policy: Policy) -> Files:
    with closing(open_for_reading(policy)) as state:
        return digests_of_sources(state)


def _write_common(output: Path, found: Learned, own: ReleaseItems, near: Sequence[str]) -> int:
    """Write the common items to a file that only its owner reads.

    Images are written as paths in the release, files as paths in the inputs.
    """
    rows = [
        (what, path)
        for what in ("pixels", "files")
        for one in found.items.get(what, ())
        for path in own.paths[one]
    ]
    rows += [("patients", one.decode("utf-8")) for one in found.items.get("patients", ())]
    rows += [("near", patient) for patient in near]
    with storage_errors():
        output.mkdir(mode=0o700, parents=True, exist_ok=True)
    return write_private_csv(output / COMMON, ("compared", "item"), rows)
