"""Near comparisons and questions of partners: what the server of a party does with a connection."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from medsanitize.errors import UsageError
from medsanitize.federation.ask.head import SecretHead, secret_head
from medsanitize.federation.ask.session import ClassSide, class_answering
from medsanitize.federation.ask.terms import ask_limits, class_terms
from medsanitize.federation.messages.sealed import Kind
from medsanitize.federation.near.install import SPU
from medsanitize.federation.near.line import Line
from medsanitize.federation.near.process import require_spu
from medsanitize.federation.near.session import NearSide, near_answering
from medsanitize.federation.near.talk import Answering, answer_line
from medsanitize.federation.parties.identity import Identity, LocalParty
from medsanitize.pipeline.runtime.optional_dependencies import check_extra
from medsanitize.pipeline.stages.near_comparison import embed_once, near_side, searched_side
from medsanitize.policies.partners import Agreement, Partners
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


def search_sides(
    party: LocalParty, partners: Mapping[str, Identity], section: Partners, release: Path
) -> dict[str, NearSide]:
    """Prepare the searches of each partner whose agreement allows them."""
    images = partial(dataset_from_release, release, "The release")
    embed = embed_once(images, NoProgress(), Cancellation())
    return {
        one.partner: searched_side(party, partners[one.partner], one, embed)
        for one in section.agreements
        if one.ask is not None and one.ask.search and one.partner in partners
    }


Classifiers = Mapping[str, tuple[ClassSide, SecretHead]]
"""Classifiers by name, with the side that answers a partner."""


def class_sides(
    party: LocalParty, partners: Mapping[str, Identity], section: Partners
) -> dict[str, Classifiers]:
    """Prepare the classifiers of each partner; a name without a folder belongs to the partner.

    Raises
    ------
    UsageError, IntegrityError
        A folder holds no classifier of packaged features, or was changed; the library is missing.
    """
    from medsanitize.verifiers.reid.models.packaged_head import open_packaged_head

    asked = [one for one in section.agreements if one.ask is not None and one.partner in partners]
    wanted = {name for one in asked if one.ask is not None for name in one.ask.models}
    folders = {name: section.classifiers[name] for name in sorted(wanted & section.classifiers.keys())}
    if folders:
        for extra in ("party", "verify"):
            check_extra(extra)
        require_spu(SPU.of(party.folder))
    heads = {name: secret_head(open_packaged_head(folder)) for name, folder in folders.items()}
    return {
        one.partner: {
            name: (class_side(party, partners[one.partner], one, name, heads[name].features), heads[name])
            for name in one.ask.models
            if name in heads
        }
        for one in asked
        if one.ask is not None
    }


def class_side(
    party: LocalParty, partner: Identity, agreement: Agreement, name: str, features: str
) -> ClassSide:
    """Return what an agreement says of questions to a classifier.

    Raises
    ------
    UsageError
        The agreement does not name the classifier.
    """
    ask = agreement.ask
    if ask is None or name not in ask.models:
        raise UsageError(
            "The agreement with the partner does not name this classifier",
            "Write it to partners.agreements.ask.models in both policies",
        )
    terms = class_terms(ask, name, features, agreement.contract)
    return ClassSide(party, partner, terms, ask_limits(ask), SPU.of(party.folder))


def answer_with(
    party: LocalParty,
    sides: Mapping[str, NearSide],
    searches: Mapping[str, NearSide] | None = None,
    classifiers: Mapping[str, Classifiers] | None = None,
) -> Callable[[web.WebSocketResponse, Identity], Awaitable[None]]:
    """Return what the server does with a connection for a near comparison or a question."""
    slot = asyncio.Lock()

    async def answered(connection: web.WebSocketResponse, partner: Identity) -> None:
        name = partner.name
        answering: dict[Kind, Answering] = {
            "near-hello": near_answering(sides.get(name), (searches or {}).get(name)),
            "ask-hello": class_answering((classifiers or {}).get(name, {})),
        }
        await answer_line(partner, party, Line(connection), slot, answering)

    return answered
