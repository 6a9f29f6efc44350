"""The command `registry serve`: members of a consortium ask whether registered releases have their items."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from medsanitize.errors import UsageError
from medsanitize.federation.parties.identity import Identity, open_party
from medsanitize.federation.private_overlap.answer import Offer, answer
from medsanitize.federation.private_overlap.items import Items
from medsanitize.federation.private_overlap.terms import terms_of
from medsanitize.federation.psi.install import PSI
from medsanitize.pipeline.jobs.private_overlap import serve_answers
from medsanitize.policies.consortium import Consortium, Member
from medsanitize.release.registry import Registry

if TYPE_CHECKING:
    import asyncio


def serve_registry(
    consortium: Consortium, prepared: Callable[[asyncio.Event], None], started: Callable[[int], None]
) -> None:
    """Answer the members of a consortium over HTTPS until an event is set.

    Parameters
    ----------
    consortium : Consortium
        Registry, party and members.
    prepared, started : callable
        As in `serve_partners`.

    Raises
    ------
    UsageError
        The party was not made, no member is trusted, or the registry is empty.
    EnvironmentFailure
        The address cannot be used.
    """
    registry, party = Registry(consortium.registry), open_party(consortium.party)
    if not registry.list():
        raise UsageError("The registry is empty", "Add releases: medsanitize registry add RELEASE")
    offers = {one.partner: _offer(consortium, registry, one) for one in consortium.members}

    def answered(sealed: bytes, carrier: Identity) -> bytes:
        return answer(party, offers[carrier.name], sealed, carrier=carrier)

    serve_answers(consortium.partners, party, answered, prepared, started)


def _offer(consortium: Consortium, registry: Registry, member: Member) -> Offer:
    """What the registry offers to a member: digests of pixels of all releases but the member's own."""

    def items(_: object) -> Items:
        # Read for every message: releases may be added while it serves.
        return {"pixels": list(registry.pixels(leave_out=member.own))}

    return Offer({member.partner: terms_of(member)}, items, PSI.of(consortium.party))
