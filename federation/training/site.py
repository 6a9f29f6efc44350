"""The process of a site: checks an invitation against its own policy, then gives sums until the job ends."""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from medsanitize.errors import EnvironmentFailure, IntegrityError, UsageError
from medsanitize.federation.messages.frame import packed, unpacked
from medsanitize.federation.parties.identity import Identity, LocalParty, open_party
from medsanitize.federation.parties.trust import trusted_partner
from medsanitize.federation.secure_aggregation.member import Member
from medsanitize.federation.training.calibrated_models import open_accepted
from medsanitize.federation.training.calibration_site import CalibrationSite
from medsanitize.federation.training.card import CardSite
from medsanitize.federation.training.code_digest import code_digest
from medsanitize.federation.training.invitation import Invitation, read_invitation
from medsanitize.federation.training.job import FederatedJob
from medsanitize.federation.training.kinds import modality_of
from medsanitize.federation.training.site_images import classified_images_of, images_of, labels_of
from medsanitize.federation.training.statement import statement_of
from medsanitize.federation.training.states import received_state
from medsanitize.federation.training.training import training_of
from medsanitize.federation.transport.https_client import post_message
from medsanitize.policies.federation import SitePolicy
from medsanitize.release.atomic_io import storage_errors, write_atomic
from medsanitize.release.canonical_json import canonical_json

if TYPE_CHECKING:
    from medsanitize.progress import Cancellation, Progress
    from medsanitize.verifiers.reid.training.sums import SiteImages, State

LOG: Final = "given.jsonl"
_MOST_BYTES: Final = 1 << 31
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 1.0
# A server that was killed is started again by hand.
_UNREACHABLE_SECONDS: Final = 86_400.0


@dataclass(frozen=True, slots=True)
class Joined:
    """The end of a job at a site.

    Attributes
    ----------
    digest
        Digest of the model.
    rounds
        Number of sums to which the site has added.
    """

    digest: str
    rounds: int


@dataclass(frozen=True, slots=True, repr=False)
class Site:
    """A site and the job that it was invited to.

    Attributes
    ----------
    policy
        What the site agrees to.
    party
        Its keys.
    server
        Identity of the server's party.
    identities
        Identities of all sites of the job, from the site's own trust.
    invitation
        The job.
    """

    policy: SitePolicy
    party: LocalParty
    server: Identity
    identities: Mapping[str, Identity]
    invitation: Invitation

    @property
    def folder(self) -> Path:
        """State of this job."""
        return self.policy.state / self.invitation.digest[:16]


def open_site(policy: SitePolicy, path: Path) -> Site:
    """Read an invitation, and refuse what the policy of the site does not accept.

    Raises
    ------
    UsageError
        The policy does not accept the job, or this site is not invited.
    IntegrityError
        The invitation is not by the server's party.
    """
    party = open_party(policy.party)
    server = trusted_partner(party, policy.server)
    invitation = read_invitation(path, server)
    own = party.identity
    if invitation.sites.get(own.name) != own.fingerprint:
        raise UsageError("This site is not invited to the job", "Ask the keeper of the server")
    check_accepted(policy, invitation, own.name)
    # The site's own trust, not the server's word: a server that invents sites would see a single one.
    identities = {
        name: own if name == own.name else trusted_partner(party, name) for name in invitation.sites
    }
    changed = [name for name, one in identities.items() if one.fingerprint != invitation.sites[name]]
    if changed:
        raise UsageError(
            f"The invitation names another identity for {changed[0]} than the one trusted here",
            "Compare the fingerprints by telephone",
        )
    return Site(policy, party, server, identities, invitation)


def check_accepted(policy: SitePolicy, invitation: Invitation, own: str) -> None:
    """Raise UsageError, with the reason, where a policy does not accept a job."""
    accepted, terms = policy.accept, invitation.terms
    others = set(invitation.sites) - {own}
    code = accepted.code or code_digest()
    # Of what the job computes: a server could write a small epsilon into a section that is not read.
    privacy = {"card": terms["card"], "classification": terms["privacy"]}.get(terms["model"])
    secure = terms["aggregation"] == "secure"
    # Counts of attacks are exact, and the noise of one site is not enough.
    private = (
        privacy is not None
        and secure
        and terms["attacks"] is None
        and float(privacy["epsilon"]) <= (accepted.epsilon or 0.0)
    )
    checks = (
        (
            accepted.epsilon is None or private,
            f"epsilon above {accepted.epsilon}, or no differential privacy",
        ),
        (f"{terms['model']}/{terms['recipe']}" in accepted.recipes, "its recipe"),
        (others <= set(accepted.sites), "one of its sites"),
        (int(terms["least"]) >= accepted.least, "so few sites in a sum"),
        (
            all((terms["attacks"] or {}).get(name) for name in accepted.attacks),
            f"without the attacks {', '.join(accepted.attacks)}",
        ),
        (
            secure or (accepted.plain and terms["model"] != "card"),
            "that the server sees this site's statistics",
        ),
        (_is_coherent(terms), "that it names what its model does not read"),
        (invitation.code == code == code_digest(), "its program, which is another than this one"),
    )
    for fits, what in checks:
        if not fits:
            raise UsageError(
                f"The policy of this site does not accept the job: not {what}",
                "Change the section accept, or decline the invitation",
            )


def _is_coherent(terms: Mapping[str, Any]) -> bool:
    """Whether a job reads all that it names: otherwise its statement would promise what nothing keeps."""
    model = terms["model"]
    return (
        (terms["card"] is not None) == (model == "card")
        and (terms["privacy"] is None or (model == "classification" and terms["attacks"] is None))
        and (terms["attacks"] is None or model in ("classification", "retrieval"))
    )


def shown(site: Site) -> dict[str, Any]:
    """Return what the site would give to the job, and to whom; reads the table, and no image."""
    facts: dict[str, Any] = {
        "job": site.invitation.digest,
        "terms": dict(site.invitation.terms),
        "sites": list(site.invitation.sites),
        "threshold": site.invitation.aggregation(0).threshold,
        "code": site.invitation.code,
        "statement": statement_of(site.invitation),
    }
    if site.invitation.terms["card"] is not None:
        return facts
    labels = labels_of(
        site.policy, str(site.invitation.terms["kind"]), list(site.invitation.sites), site.party.identity.name
    )
    counted = {"images": len(labels), "patients": len(set(labels.patients))}
    return {**facts, **counted, "excluded": dict(labels.excluded)}


def take_part(
    site: Site,
    progress: Progress,
    cancellation: Cancellation,
    counted: Callable[[], CardSite] | None = None,
) -> Joined:
    """Add this site's sums to a job until its model is trained, and write the model.

    After an interruption, the same call goes on.

    Parameters
    ----------
    site : Site
        The site.
    progress, cancellation
        Progress and cancellation.
    counted : callable, optional
        Counts the patients of a joint dataset card.

    Raises
    ------
    UsageError
        The images do not suffice, or a statistic is out of range.
    IntegrityError
        The server asked for what could show this site's data alone.
    EnvironmentFailure
        The server cannot be reached for a day, or the disk is full or fails.
    """
    with storage_errors():
        site.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    training = training_of(site.invitation, site.party, site.folder)
    images = _own(site, progress, cancellation) if counted is None else counted()
    message: dict[str, Any] = {}
    parts: Mapping[str, bytes] = {}
    pause = _FIRST_PAUSE
    while True:
        told, given = unpacked(
            _asked(site, packed({**message, "job": site.invitation.digest}, parts), cancellation)
        )
        message, parts = {}, {}
        match told.get("do"):
            case "done":
                return _finish(site, training, received_state(given["state"]), cancellation)
            case "failed" | "refused" as what:
                raise UsageError(f"The server has {what} the job", "Ask the keeper of the server")
            case "wait":
                cancellation.check()
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
            case stage:
                pause = _FIRST_PAUSE
                message = {"stage": stage, "round": told["round"]}
                parts = _answered(site, training, images, told, given)
                _log(site, told, parts)


def _own(site: Site, progress: Progress, cancellation: Cancellation) -> SiteImages | CalibrationSite:
    """The images that the policy of a site names, as its job needs them."""
    terms, folder = site.invitation.terms, site.folder
    kind = str(terms["kind"])
    labels = labels_of(site.policy, kind, list(site.invitation.sites), site.party.identity.name)
    if terms["model"] == "calibration":
        models = open_accepted(site.policy.models, terms, modality_of(terms))
        return CalibrationSite(labels, terms, site.policy.columns, models, progress, cancellation)
    if terms["classes"] is not None:
        return classified_images_of(labels, terms, site.policy.columns, folder, progress, cancellation)
    return images_of(labels, kind, int(terms["seed"]), folder, progress, cancellation)


def saved_digest(folder: Path) -> str:
    """Return the digest of a model folder."""
    from medsanitize.verifiers.reid.models.model_folder import LIST

    with storage_errors():
        return hashlib.sha256((folder / LIST).read_bytes()).hexdigest()


def _answered(
    site: Site,
    training: FederatedJob,
    images: SiteImages | CalibrationSite | CardSite,
    told: Mapping[str, Any],
    given: Mapping[str, bytes],
) -> Mapping[str, bytes]:
    """What this site sends at a stage."""
    number = told["round"]
    if type(number) is not int or not 0 <= number < 10_000:
        raise IntegrityError("The server named no round", "Ask the keeper of the server")
    _check_not_over(site, number)
    member = _member(site, number)
    match told["do"]:
        case "keys":
            return member.keys()
        case "shares":
            return member.shares(given)
        case "masked":
            state = received_state(given["state"])
            if "shares" not in site.invitation.stages:
                vector = training.contribution(state, images, number)
                return {"vector": vector.astype("<u8", copy=False).tobytes()}
            incoming = {
                name.removeprefix("share."): part for name, part in given.items() if name.startswith("share.")
            }
            return {"vector": member.masked(incoming, lambda: training.contribution(state, images, number))}
        case "agree":
            return {"signature": member.agree([str(name) for name in told["names"]])}
        case "unmask":
            return member.unmask(given)
        case _:
            raise IntegrityError(
                "The server asked for an unknown step", "Install the same version of the program everywhere"
            )


def _check_not_over(site: Site, number: int) -> None:
    """Refuse a round whose mask is gone: its vector would leave once more, for other sites or state."""
    path = site.folder / LOG
    with storage_errors():
        given = [json.loads(line) for line in path.read_bytes().splitlines()] if path.exists() else []
    sent = any((one["round"], one["stage"]) == (number, "masked") for one in given)
    is_gone = "shares" in site.invitation.stages and not (_round_folder(site, number) / "masked").exists()
    if any(one["round"] > number for one in given) or (sent and is_gone):
        raise IntegrityError("The server asked for a round that is over", "Ask its keeper for a new job")


def _round_folder(site: Site, number: int) -> Path:
    return site.folder / f"round-{number:04}"


def _member(site: Site, number: int) -> Member:
    # Earlier rounds are over; what they kept would only be a risk.
    for path in site.folder.glob("round-*"):
        if path.name < f"round-{number:04}":
            with storage_errors():
                shutil.rmtree(path)
    return Member(
        _round_folder(site, number), site.invitation.aggregation(number), site.party, site.identities
    )


def _asked(site: Site, message: bytes, cancellation: Cancellation) -> bytes:
    """Send a message, and again until the server answers."""
    until, pause = time.monotonic() + _UNREACHABLE_SECONDS, _FIRST_PAUSE
    while True:
        cancellation.check()
        try:
            return post_message(site.party, site.server, site.policy.address, message, most_bytes=_MOST_BYTES)
        except EnvironmentFailure:
            if time.monotonic() > until:
                raise
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)


def _finish(site: Site, training: FederatedJob, state: State, cancellation: Cancellation) -> Joined:
    from medsanitize.verifiers.reid.models.model_folder import LIST

    if (site.policy.output / LIST).exists():
        digest = saved_digest(site.policy.output)
    else:
        digest = training.save(state, site.policy.output, statement_of(site.invitation))
    done = {"job": site.invitation.digest, "stage": "done", "digest": digest}
    # The model is here: a server that has gone meanwhile need not know.
    try:
        post_message(site.party, site.server, site.policy.address, packed(done), most_bytes=_MOST_BYTES)
    except EnvironmentFailure:
        cancellation.check()
    rounds = {json.loads(line)["round"] for line in (site.folder / LOG).read_text("ascii").splitlines()}
    with storage_errors():
        for path in (*site.folder.glob("round-*"), site.folder / "features"):
            shutil.rmtree(path, ignore_errors=True)
    return Joined(digest, len(rounds))


def _log(site: Site, told: Mapping[str, Any], parts: Mapping[str, bytes]) -> None:
    """Note what was given: stage, sizes and digests, and no content."""
    facts = {
        "round": told["round"],
        "stage": told["do"],
        "bytes": sum(map(len, parts.values())),
        "sha256": hashlib.sha256(b"".join(parts[name] for name in sorted(parts))).hexdigest(),
    }
    path = site.folder / LOG
    with storage_errors():
        before = path.read_bytes() if path.exists() else b""
    write_atomic(path, before + canonical_json(facts).encode("ascii") + b"\n", private=True)
