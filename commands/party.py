"""The commands of party: keys, trust, and answering partners."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from medsanitize.commands.command import FILE, command, print_result

if TYPE_CHECKING:
    from medsanitize.policies.partners import Ask


@click.group()
def party() -> None:
    """Take part in private comparisons with other hospitals."""


@command("init", "medsanitize party init party --name north-hospital", group=party)
@click.argument("folder", type=FILE)
@click.option("--name", required=True, help="Short name: lower-case letters, digits, hyphens.")
def party_init(folder: Path, name: str, *, as_json: bool, **_: Any) -> int:
    """Create keys and certificate of this hospital, and the identity file for its partners.

    Hand identity.json over, and read the fingerprint aloud by telephone: who exchanges both in one message
    trusts whoever has changed it.
    """
    from medsanitize.federation.parties.identity import create_party
    from medsanitize.federation.parties.trust import grouped

    identity = create_party(folder, name)
    facts = {"name": identity.name, "fingerprint": identity.fingerprint}
    text = (
        f"Hand over identity.json of the folder. Fingerprint of {identity.name}, by another channel:\n"
        f"{grouped(identity.fingerprint)}"
    )
    print_result(as_json, facts, text)
    return 0


@command("install", "medsanitize party install party", group=party)
@click.argument("folder", type=FILE)
@click.option("--wheels", type=FILE, help="Folder of wheels, for a machine without a connection.")
@click.option(
    "--near", is_flag=True, help="Install SecretFlow SPU instead, for near comparisons (Python 3.11)."
)
def party_install(folder: Path, wheels: Path | None, near: bool, *, as_json: bool, **_: Any) -> int:
    """Install the library for private set intersection into the folder of the party, with pip.

    OpenMined PSI needs another version of protobuf than some extras, and SecretFlow SPU another NumPy: each
    has a folder of its own.
    """
    from medsanitize.federation.libraries.install import install_library
    from medsanitize.federation.near.install import SPU
    from medsanitize.federation.parties.identity import open_party
    from medsanitize.federation.psi.install import PSI

    open_party(folder)
    install_library(SPU if near else PSI, folder, wheels)
    print_result(as_json, {"installed": True}, "The library for private comparisons is installed.")
    return 0


@command("trust", "medsanitize party trust party south/identity.json --fingerprint 'b4c1...'", group=party)
@click.argument("folder", type=FILE)
@click.argument("identity", type=FILE)
@click.option("--fingerprint", required=True, help="As the partner has read it aloud; spaces do not matter.")
def party_trust(folder: Path, identity: Path, fingerprint: str, *, as_json: bool, **_: Any) -> int:
    """Trust a partner's identity file, if it has the fingerprint that the partner has told."""
    from medsanitize.federation.parties.identity import open_party
    from medsanitize.federation.parties.trust import trust_partner

    partner = trust_partner(open_party(folder), identity, fingerprint)
    print_result(as_json, {"trusted": partner.name}, f"{partner.name} is trusted.")
    return 0


@command("show", "medsanitize party show policy.yaml", group=party)
@click.argument("policy", type=FILE)
def party_show(policy: Path, *, as_json: bool, **_: Any) -> int:
    """Show what the policy would reveal to whom, and how much of each partner's budget is used."""
    from medsanitize.federation.ask.statement import ask_statement
    from medsanitize.federation.near.verdict import near_statement
    from medsanitize.federation.parties.identity import open_party
    from medsanitize.federation.parties.trust import grouped, trusted_partners
    from medsanitize.federation.private_overlap.budget import spent
    from medsanitize.federation.private_overlap.statement import statement_of
    from medsanitize.federation.private_overlap.terms import terms_of
    from medsanitize.pipeline.jobs.private_overlap import partners_of
    from medsanitize.policies.load import load

    section = partners_of(load(policy))
    own = open_party(section.party)
    known, rows, lines = trusted_partners(own), [], []
    lines.append(f"Fingerprint of {own.identity.name}: {grouped(own.identity.fingerprint)}")
    for one in section.agreements:
        partner, terms = known.get(one.partner), terms_of(one)
        used = spent(section.party, partner.fingerprint, days=one.days) if partner else 0
        statement = statement_of(one.partner, terms.comparisons)
        if one.near is not None:
            statement += f" {near_statement(one.partner, one.near.reveal)}"
        asked = 0
        if one.ask is not None:
            statement += f" {ask_statement(one.partner, one.ask)}"
            asked = (
                spent(section.party, partner.fingerprint, days=one.ask.days, of_images=True) if partner else 0
            )
        rows.append(
            {
                "partner": one.partner,
                "trusted": partner is not None,
                "compare": [each.what for each in terms.comparisons],
                "reveal": one.reveal,
                "used": used,
                "runs": one.runs,
                "days": one.days,
                "ask": None if one.ask is None else _asked_facts(one.ask, asked),
                "statement": statement,
            }
        )
        trusted = "trusted" if partner else "not trusted yet"
        budget = f"{used} of {one.runs} comparisons in {one.days} days used"
        if one.ask is not None:
            budget += f", {asked} of {one.ask.answers} answers in {one.ask.days} days"
        lines.append(f"{one.partner} ({trusted}): {budget}. {statement}")
    print_result(as_json, {"agreements": rows}, "\n".join(lines))
    return 0


def _asked_facts(ask: Ask, used: int) -> dict[str, Any]:
    facts = ask.model_dump(mode="json", include={"models", "confidence", "search", "answers", "days"})
    return {**facts, "used": used}


@command("serve", "medsanitize party serve policy.yaml", group=party)
@click.argument("policy", type=FILE)
def party_serve(policy: Path, *, as_json: bool, **_: Any) -> int:
    """Answer partners over HTTPS until Ctrl-C, with the release of the policy.

    Only partners of the policy's agreements whose identity is trusted can connect.
    """
    from medsanitize.pipeline.jobs.private_overlap import serve_partners
    from medsanitize.pipeline.runtime.optional_dependencies import check_extra
    from medsanitize.policies.load import load

    check_extra("party")
    serve_partners(load(policy), stop_on_signals, started_as(as_json))
    return 0


def started_as(as_json: bool) -> Callable[[int], None]:
    """Return what prints the port of a server."""

    def started(port: int) -> None:
        print_result(as_json, {"port": port}, f"Answering partners on port {port}. Ctrl-C ends it.")

    return started


def stop_on_signals(stop: asyncio.Event) -> None:
    """Let Ctrl-C and SIGTERM end a server."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)


@command("answer", "medsanitize party answer policy.yaml --offline exchange", group=party)
@click.argument("policy", type=FILE)
@click.option("--offline", type=FILE, required=True, metavar="FOLDER", help="Folder for messages.")
def party_answer(policy: Path, offline: Path, *, as_json: bool, **_: Any) -> int:
    """Answer the messages of partners in a folder, for hospitals without an open port."""
    from medsanitize.pipeline.jobs.private_overlap import answer_folder
    from medsanitize.policies.load import load

    answered, ignored = answer_folder(load(policy), offline)
    text = f"{answered:,} messages answered."
    if ignored:
        text += f" {ignored:,} files were no message of a trusted partner, and were ignored."
    print_result(as_json, {"answered": answered, "ignored": ignored}, text)
    return 1 if ignored else 0
