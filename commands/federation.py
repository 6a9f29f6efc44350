"""The commands of federation: training with other hospitals under secure aggregation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from medsanitize.commands.command import FILE, command, long_running, print_result
from medsanitize.commands.party import started_as


@click.group()
def federation() -> None:
    """Train or calibrate models with other hospitals, who see neither images nor statistics of each other."""


@command("provision", "medsanitize federation provision job.yaml", group=federation)
@click.argument("job", type=FILE)
def federation_provision(job: Path, *, as_json: bool, **_: Any) -> int:
    """Write the invitation of a job into its state folder, signed by the server's party.

    Hand the file to every site. It names the program, the recipe and the identities of all sites.
    """
    from medsanitize.federation.parties.identity import open_party
    from medsanitize.federation.training.invitation import FILE as INVITATION
    from medsanitize.federation.training.invitation import invite
    from medsanitize.federation.training.statement import statement_of
    from medsanitize.federation.training.training import training_of
    from medsanitize.pipeline.runtime.optional_dependencies import check_extra
    from medsanitize.policies.federation import load_job

    check_extra("federated")
    loaded = load_job(job)
    _check_extras(loaded.recipe, private=loaded.privacy is not None)
    invitation = invite(loaded, open_party(loaded.party))
    training_of(invitation)
    path, statement = loaded.state / INVITATION, statement_of(invitation)
    facts = {"invitation": str(path), "job": invitation.digest, "code": invitation.code}
    text = f"Hand this file to every site: {path}\nDigest of the job: {invitation.digest}\n{statement}"
    print_result(as_json, {**facts, "statement": statement}, text)
    return 0


@command("server", "medsanitize federation server job.yaml", group=federation)
@click.argument("job", type=FILE)
def federation_server(job: Path, *, as_json: bool, log_json: bool) -> int:
    """Serve the sites of a job until its model is trained or calibrated.

    After Ctrl-C or a crash, the same command resumes.
    """
    from medsanitize.federation.training.server import serve_job
    from medsanitize.pipeline.runtime.optional_dependencies import check_extra
    from medsanitize.policies.federation import load_job

    check_extra("federated")
    loaded = load_job(job)
    _check_extras(loaded.recipe, private=loaded.privacy is not None)
    with long_running(log_json) as (progress, cancellation):
        result = serve_job(loaded, started_as(as_json), progress, cancellation)
    code = 0 if len(result.confirmed) == len(loaded.sites) else 1
    facts = {"digest": result.digest, "rounds": result.rounds, "confirmed": list(result.confirmed)}
    what = loaded.model if loaded.model in ("calibration", "card") else "model"
    text = (
        f"Digest of the {what}: {result.digest}\nIts {result.rounds} sums are complete;"
        f" {len(result.confirmed)} of {len(loaded.sites)} sites have the same {what}.\n{result.statement}"
    )
    print_result(as_json, {**facts, "statement": result.statement, "exit_code": code}, text)
    return code


@command("site", "medsanitize federation site site.yaml invitation.json --show", group=federation)
@click.argument("policy", type=FILE)
@click.argument("invitation", type=FILE)
@click.option("--show", is_flag=True, help="Only show what this site would give, and to whom.")
def federation_site(policy: Path, invitation: Path, *, show: bool, as_json: bool, log_json: bool) -> int:
    """Take part in a job, if the policy of this site accepts its invitation.

    Waits for a server that is not there yet. After Ctrl-C or a crash, the same command resumes.
    """
    from medsanitize.federation.training.site import open_site, shown, take_part
    from medsanitize.pipeline.jobs.join_card import card_site
    from medsanitize.pipeline.runtime.optional_dependencies import check_extra
    from medsanitize.policies.federation import load_site_policy

    check_extra("federated")
    site = open_site(load_site_policy(policy), invitation)
    if show:
        facts = shown(site)
        print_result(as_json, facts, "\n".join(_shown_lines(facts)))
        return 0
    terms = site.invitation.terms
    _check_extras(terms["recipe"], private=terms["privacy"] is not None)
    with long_running(log_json) as (progress, cancellation):
        counted = card_site(site) if terms["card"] is not None else None
        joined = take_part(site, progress, cancellation, counted)
    text = f"Digest of the result: {joined.digest}\nThis site has added to {joined.rounds} sums."
    print_result(as_json, {"digest": joined.digest, "rounds": joined.rounds}, text)
    return 0


@command("run", "medsanitize federation run job.yaml --site north.yaml --site south.yaml", group=federation)
@click.argument("job", type=FILE)
@click.option(
    "--site", "sites", type=FILE, multiple=True, required=True, help="Policy of each site, on this machine."
)
def federation_run(job: Path, sites: tuple[Path, ...], *, as_json: bool, log_json: bool) -> int:
    """Run the server and all sites of a job as processes of this machine, to try a job out."""
    from medsanitize.pipeline.jobs.run_federation import run_on_this_machine
    from medsanitize.pipeline.runtime.optional_dependencies import check_extra

    check_extra("federated")
    with long_running(log_json) as (progress, cancellation):
        told = run_on_this_machine(job, sites, progress, cancellation)
    text = f"Digest of the result: {told['digest']}\n{told['statement']}"
    print_result(as_json, told, text)
    return int(told["exit_code"])


def _check_extras(recipe: str, *, private: bool) -> None:
    """Check the libraries that only some jobs need."""
    from medsanitize.federation.training.calibrated_models import GATE
    from medsanitize.pipeline.runtime.optional_dependencies import check_extra

    if private:
        check_extra("dp")
    if recipe == GATE:
        check_extra("generate")


def _shown_lines(facts: dict[str, Any]) -> list[str]:
    terms = facts["terms"]
    if terms["card"] is not None:
        given = [
            "From this site: numbers of its released patients with noise, epsilon"
            f" {terms['card']['epsilon']:g}.",
            f"Tables of findings: {len(terms['card']['findings'])}.",
        ]
    else:
        given = [
            f"From this site: {facts['images']:,} images of {facts['patients']:,} patients.",
            *(f"Left out: {count:,} ({reason})." for reason, count in facts["excluded"].items()),
        ]
    kind = f", {terms['kind']} images" if terms["kind"] else ""
    return [
        f"Job {terms['name']}: {terms['model']} with the recipe {terms['recipe']}{kind}.",
        f"Sites: {', '.join(facts['sites'])}; at least {facts['threshold']} in a sum.",
        *given,
        f"Digest of the job: {facts['job']}",
        f"Digest of the program: {facts['code']}",
        facts["statement"],
    ]
