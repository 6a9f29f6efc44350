"""The process of the server: serves the sites until the model is written and they have it, too."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from medsanitize.errors import MedsanitizeError, UsageError
from medsanitize.federation.parties.identity import LocalParty, open_party
from medsanitize.federation.parties.trust import trusted_partner
from medsanitize.federation.training.coordinator import Coordinator
from medsanitize.federation.training.invitation import FILE, check_same, read_invitation
from medsanitize.federation.training.site import saved_digest
from medsanitize.federation.training.statement import statement_of
from medsanitize.federation.training.training import training_of
from medsanitize.federation.transport.https_server import Limits, serve
from medsanitize.policies.federation import Job
from medsanitize.progress import Cancellation, Progress

# A site asks a few times a second while others compute; a vector of a slow line takes its time.
_LIMITS: Final = Limits(a_minute=1200, read_seconds=1200.0)
_MOST_BYTES: Final = 1 << 31
_LOOK_SECONDS: Final = 0.1


@dataclass(frozen=True, slots=True)
class ServedJob:
    """The result of a job.

    Attributes
    ----------
    digest
        Digest of the model.
    rounds
        Number of sums.
    confirmed
        Sites that have written the same model.
    statement
        What each party has learned.
    """

    digest: str
    rounds: int
    confirmed: tuple[str, ...]
    statement: str


def serve_job(
    job: Job, started: Callable[[int], None], progress: Progress, cancellation: Cancellation
) -> ServedJob:
    """Serve the sites of a job until its model is trained.

    After an interruption, the same call goes on.

    Raises
    ------
    UsageError
        The job was not provisioned, or was changed since.
    IntegrityError
        A site sent what does not belong to the job.
    EnvironmentFailure
        The disk is full or fails, or the address cannot be used.
    """
    party = open_party(job.party)
    invitation = read_invitation(job.state / FILE, party.identity)
    check_same(job, invitation)
    coordinator = Coordinator(job.state, training_of(invitation, party), job.patience)
    coordinator.resume()
    asyncio.run(_serve(job, party, coordinator, started, progress, cancellation))
    if coordinator.failure is not None:
        raise coordinator.failure
    digest = saved_digest(job.output)
    agreed = tuple(
        name
        for name in invitation.sites
        if (told := job.state / f"done.{name}").exists() and told.read_text("ascii") == digest
    )
    return ServedJob(digest, coordinator.number, agreed, statement_of(invitation))


async def _serve(
    job: Job,
    party: LocalParty,
    coordinator: Coordinator,
    started: Callable[[int], None],
    progress: Progress,
    cancellation: Cancellation,
) -> None:
    sites = {name: trusted_partner(party, name) for name in coordinator.invitation.sites}
    changed = [name for name, one in sites.items() if one.fingerprint != coordinator.invitation.sites[name]]
    if changed:
        raise UsageError("A site has other keys than in the invitation", "Provision a new job")
    host, _, port = job.listen.rpartition(":")
    stop = asyncio.Event()
    serving = asyncio.create_task(
        serve(
            party, sites, (host.strip("[]"), int(port)), coordinator.answer,
            most_bytes=_MOST_BYTES, started=started, stop=stop, limits=_LIMITS,
        )
    )  # fmt: skip
    driving = asyncio.create_task(asyncio.to_thread(_drive, job, coordinator, progress, cancellation))
    try:
        await asyncio.wait({serving, driving}, return_when=asyncio.FIRST_COMPLETED)
        if driving.done():
            await driving
            await _until_known(job, coordinator, cancellation)
    finally:
        stop.set()
        # Where the address cannot be used, nobody would end the other thread.
        coordinator.stopped = True
        await serving


def _drive(job: Job, coordinator: Coordinator, progress: Progress, cancellation: Cancellation) -> None:
    try:
        coordinator.drive(progress, cancellation)
        if coordinator.finished:
            coordinator.save(job.output)
    except MedsanitizeError as error:
        coordinator.failure = error


async def _until_known(job: Job, coordinator: Coordinator, cancellation: Cancellation) -> None:
    """Wait until all sites know the end, but no longer than for any step."""
    until = time.monotonic() + job.patience
    while len(coordinator.confirmed) < len(coordinator.invitation.sites) and time.monotonic() < until:
        cancellation.check()
        if coordinator.failure is not None and time.monotonic() > until - job.patience + 5:
            return
        await asyncio.sleep(_LOOK_SECONDS)
