"""The command ask: questions to a partner about images that it never sees."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from medsanitize.commands.command import FILE, command, long_running, print_result


@command("ask", "medsanitize ask scan.dcm --with south-hospital --classifier chest --policy policy.yaml")
@click.argument("images", type=FILE, nargs=-1, required=True)
@click.option(
    "--with", "partner", required=True, metavar="PARTNER", help="Name or address of the partner in --policy."
)
@click.option("--policy", type=FILE, required=True, help="The policy with the agreement.")
@click.option("--classifier", metavar="NAME", help="Ask this classifier of the agreement for the classes.")
@click.option("--search", is_flag=True, help="Ask whether the images match a patient of the partner's.")
def ask(
    images: tuple[Path, ...],
    partner: str,
    policy: Path,
    classifier: str | None,
    search: bool,
    *,
    as_json: bool,
    log_json: bool,
) -> int:
    """Ask another hospital about IMAGES without showing them: their class, or whether it knows the patients.

    Both hospitals compute together, and this one learns the answer only: of each image a class (or unsure),
    or whether it matches. Answers are numbered in the order of IMAGES. The exit code is 1 if one is unsure.
    """
    from medsanitize.errors import UsageError
    from medsanitize.pipeline.jobs.ask_partner import ask_classifier, ask_search
    from medsanitize.policies.load import load

    if (classifier is None) != search:
        raise UsageError("A question is either --classifier NAME or --search", "Name one of the two")
    loaded = load(policy)
    with long_running(log_json) as (progress, _):
        if classifier is not None:
            facts, lines = _class_result(ask_classifier(loaded, images, partner, classifier, progress))
        else:
            facts, lines = _search_result(ask_search(loaded, images, partner, progress))
    print_result(as_json, facts, "\n".join(lines))
    return int(facts["exit_code"])


def _class_result(found: Any) -> tuple[dict[str, Any], list[str]]:
    from medsanitize.federation.ask.statement import UNSURE

    facts = {
        "answers": list(found.answers),
        "classes": list(found.learned.classes),
        "model": found.learned.model,
        "statement": found.statement,
        "session": found.learned.session,
        "exit_code": 1 if UNSURE in found.answers else 0,
    }
    return facts, [*_numbered(found.answers), found.statement]


def _search_result(found: Any) -> tuple[dict[str, Any], list[str]]:
    learned, bound = found.learned, found.learned.bounds[1]
    facts = {
        "matches": list(found.matches),
        "patients": learned.sizes[1],
        "distance": learned.distance,
        "miss": bound.miss,
        "by_chance": found.by_chance,
        "statement": found.statement,
        "session": learned.session,
        "exit_code": 0,
    }
    told = ["matches a patient" if one else "no match" for one in found.matches]
    errors = (
        f"Compared with {learned.sizes[1]:,} patients. A patient who is there is missed with a probability of"
        f" at most {bound.miss:.1%} (95 % bound); {found.by_chance:.1%} of strangers are expected to match."
    )
    return facts, [*_numbered(told), errors, found.statement]


def _numbered(answers: Any) -> list[str]:
    return [f"Image {place}: {answer}" for place, answer in enumerate(answers, 1)]
