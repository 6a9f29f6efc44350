"""Near comparisons that partners ask for: what the server of a party does with a connection."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from medsanitize.federation.near.line import Line
from medsanitize.federation.near.session import NearSide, answer_near
from medsanitize.federation.parties.identity import Identity, LocalParty
from medsanitize.pipeline.stages.near_comparison import embed_once, near_side
from medsanitize.policies.partners import Partners
from medsanitize.progress import Cancellation, NoProgress
from medsanitize.verifiers.reid.overlap.dataset import dataset_from_release

if TYPE_CHECKING:
    from aiohttp import web


def near_sides(
    party: LocalParty, partners: Mapping[str, Identity], section: Partners, release: Path
) -> dict[str, NearSide]:
    """Prepare the near comparisons of each partner whose agreement has one."""
    images = partial(dataset_from_release, release, "The release")
    embed = embed_once(images, NoProgress(), Cancellation())
    return {
        one.partner: near_side(party, partners[one.partner], one, embed)
        for one in section.agreements
        if one.near is not None and one.partner in partners
    }


def answer_with(
    party: LocalParty, sides: Mapping[str, NearSide]
) -> Callable[[web.WebSocketResponse, Identity], Awaitable[None]]:
    """Return what the server does with a connection for a near comparison."""
    slot = asyncio.Lock()

    async def answered(connection: web.WebSocketResponse, partner: Identity) -> None:
        await answer_near(sides, partner, party, Line(connection), slot)

    return answered
