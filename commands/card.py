"""The group release: describe a release (card)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from medsanitize.commands.command import FILE, command, print_result


@click.group()
def release() -> None:
    """Describe a release: numbers of its patients with differential privacy."""


@command("card", "medsanitize release card policy.yaml --epsilon 1 > card.md", group=release)
@click.argument("source", metavar="RELEASE|POLICY", type=FILE)
@click.option(
    "--epsilon",
    type=click.FloatRange(0.01, 10),
    help="What the card spends of the patients' privacy; by default that of the policy.",
)
def card(source: Path, epsilon: float | None, *, as_json: bool, **_: Any) -> int:
    """Print the dataset card: numbers of patients by age, sex, modality, region, with differential privacy.

    With a POLICY, the card of its published release is made from the state of the holder, and its epsilon is
    recorded: the cards of all versions together may spend release.card.ceiling (3 by default). The same card
    again has the same figures and spends nothing. With the folder of a RELEASE, the card that it contains is
    printed. A policy needs the extra card.
    """
    from medsanitize.pipeline.jobs.make_dataset_card import make_dataset_card, published_card

    if source.is_dir():
        if epsilon is not None:
            raise click.UsageError("--epsilon needs a policy: only the holder can count patients.")
        text = published_card(source)
        print_result(as_json, {"card": text, "exit_code": 0}, text.rstrip("\n"))
        return 0
    from medsanitize.api.policy import load_policy
    from medsanitize.pipeline.stages.dataset_card import beyond
    from medsanitize.release.dataset_card.documents import card_facts, card_markdown

    result = make_dataset_card(load_policy(source), epsilon)
    facts = {"spent": result.spent, "ceiling": result.ceiling}
    if result.card is None:
        text = (
            f"Refused: {beyond(result.ceiling)} Spent so far: {result.spent:g}. "
            "Use a smaller epsilon, or raise release.card.ceiling."
        )
        print_result(as_json, {"card": None, **facts, "exit_code": 3}, text)
        return 3
    text = card_markdown(result.card).rstrip("\n")
    print_result(as_json, {"card": card_facts(result.card), **facts, "exit_code": 0}, text)
    return 0
