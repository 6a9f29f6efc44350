"""Commands on releases (verify, audit, conformance, registry), and wipe for slides outside releases."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from medsanitize.commands.command import FILE, command, long_running, print_result
from medsanitize.commands.options import KIND

if TYPE_CHECKING:
    from medsanitize.pipeline.stages.register import Registration
    from medsanitize.release.registry import Registry

_KEY_VARIABLE: Final = "MEDSANITIZE_REGISTRY_KEY"


@command("verify", "medsanitize verify release --key signing.key.pub")
@click.argument("release")
@click.option("--key", type=FILE, help="Public key of the signer.")
def verify(release: str, key: Path | None, *, as_json: bool, **_: Any) -> int:
    """Verify a release: find every changed, missing or added file, and check the signature.

    RELEASE is a folder, or an address in a store: s3://, gs://, abfs:// or https:// (extra stores).
    """
    from medsanitize.api.jobs import verify

    result = verify(release, key=key)
    code = 0 if result.status == "intact" else 4
    problems = [{"file": file, "fault": fault} for file, fault in result.problems]
    lines = [str(result), *(f"  {one['fault']}: {one['file']}" for one in problems)]
    facts = {"status": result.status, "signer": result.signer, "problems": problems, "exit_code": code}
    print_result(as_json, facts, "\n".join(lines))
    return code


@command("audit", "medsanitize audit release --policy policy.yaml")
@click.argument("release")
@click.option("--policy", type=FILE, help="Search for all identifiers in the state of this policy as well.")
def audit(release: str, policy: Path | None, *, as_json: bool, **_: Any) -> int:
    """Audit a release with an independent reader: search it for identifiers and unexpected data.

    RELEASE is a folder, or an address in a store: s3://, gs://, abfs:// or https:// (extra stores).
    """
    from medsanitize.api.jobs import audit

    result = audit(release, policy=policy)
    findings = [{"file": file, "location": one.location, "rule": one.rule} for file, one in result.findings]
    code = 0 if result.passed else 3
    lines = [
        f"{result.objects} objects and {result.files} files read; known identifiers: {result.identifiers}.",
        *(f"  {one['rule']} at {one['location']} in {one['file']}" for one in findings),
        "Nothing was found." if result.passed else f"{len(findings)} findings.",
    ]
    facts = {"objects": result.objects, "files": result.files, "identifiers": str(result.identifiers)}
    print_result(as_json, {**facts, "findings": findings, "exit_code": code}, "\n".join(lines))
    return code


@command("conformance", "medsanitize conformance release")
@click.argument("release", type=FILE)
def conformance(release: Path, *, as_json: bool, **_: Any) -> int:
    """Print the DICOM conformance statement of a release, with the options of PS3.15 that were applied."""
    from collections import Counter

    from medsanitize.policies.tables.requirements import requirements
    from medsanitize.release.conformance import read_statement

    statement = read_statement(release)
    answers = dict(Counter(one.answer for one in requirements()))
    facts = {"statement": statement, "requirements": answers, "exit_code": 0}
    print_result(as_json, facts, statement.rstrip("\n"))
    return 0


@command("wipe", "medsanitize wipe archive/S1.svs archive/S2.ndpi --yes")
@click.argument("slides", type=FILE, nargs=-1, required=True)
@click.option("--yes", is_flag=True, help="Overwrite the files without asking for confirmation.")
def wipe(slides: tuple[Path, ...], yes: bool, *, as_json: bool, **_: Any) -> int:
    """Overwrite everything but the tissue in your own copies of slides (TIFF formats), in place.

    Label and macro images are lost. A wiped slide is not a release: comments inside tiles remain, and nothing
    is checked. To release slides, use run.
    """
    from medsanitize.pipeline.jobs.wipe_slide import wipe_slides

    if not yes:
        click.confirm(f"Overwrite {len(slides)} files in place? This cannot be undone", abort=True, err=True)
    done = wipe_slides(slides)
    refused = sum(done.refused.values())
    code = 1 if refused else 0
    lines = [f"{done.wiped} slides wiped, {refused} refused and unchanged. Wiped slides are not a release."]
    lines += [f"  {count}  {rule}" for rule, count in done.refused.items()]
    print_result(as_json, {"wiped": done.wiped, "refused": done.refused, "exit_code": code}, "\n".join(lines))
    return code


@click.group()
def registry() -> None:
    """Manage the registry: digests of earlier releases, with which new ones are compared."""


_REGISTRY_FOLDER = click.option(
    "--registry", "folder", type=FILE, required=True, help="Folder of the registry."
)


@command("add", "medsanitize registry add release --registry registry", group=registry)
@click.argument("release", type=FILE)
@_REGISTRY_FOLDER
@click.option("--embed", is_flag=True, help="Store encrypted embeddings as well, for overlap in policies.")
@click.option("--model", type=FILE, multiple=True, help="Retrieval model to embed with; one per modality.")
@click.option(
    "--verifier", type=FILE, multiple=True, help="Verification model to embed with; one per modality."
)
@KIND
@click.option(
    "--key", type=FILE, help=f"Key of the registry (keygen); by default from the variable {_KEY_VARIABLE}."
)
@click.option("--workers", type=click.IntRange(1, 1024), help="Processes to use; by default one per core.")
def registry_add(
    release: Path, folder: Path, *, as_json: bool, log_json: bool, embed: bool, **options: Any
) -> int:
    """Verify a published release, and add its digests; with --embed, its embeddings as well.

    Embeddings of different models are stored side by side, because only embeddings of the same models are
    compared.
    """
    from medsanitize.pipeline.stages.register import register
    from medsanitize.release.registry import Registry

    if embed or options["model"] or options["verifier"]:
        added = _embed(release, Registry(folder), options, log_json=log_json)
    else:
        added = register(release, Registry(folder))
    entry = added.entry
    text = f"Added {entry.name} {entry.version}: {entry.objects:,} objects, {added.embeddings:,} embeddings."
    text += f" {added.missing:,} objects could not be embedded." if added.missing else ""
    facts = {"name": entry.name, "version": entry.version, "objects": entry.objects}
    print_result(as_json, {**facts, "embeddings": added.embeddings, "not_embedded": added.missing}, text)
    return 0


def _embed(release: Path, registry: Registry, options: dict[str, Any], *, log_json: bool) -> Registration:
    from medsanitize.pipeline.runtime.machine import usable_cores
    from medsanitize.pipeline.stages.register import register_with_embeddings
    from medsanitize.policies.model import RegistryKey
    from medsanitize.policies.release_key import read_registry_key
    from medsanitize.release.embeddings import Vault
    from medsanitize.verifiers.reid.overlap.models import ModelPaths

    key = options["key"]
    # The key comes from a file or the environment, never from the command line, which others can read.
    vault = Vault(read_registry_key(RegistryKey(file=key, env=None if key else _KEY_VARIABLE)))
    workers = options["workers"] or usable_cores()
    with long_running(log_json) as (progress, cancellation):
        return register_with_embeddings(
            release,
            registry,
            ModelPaths(options["model"], options["verifier"]),
            vault,
            progress,
            cancellation,
            workers=workers,
            kind=options["kind"],
        )


@command("list", "medsanitize registry list --registry registry", group=registry)
@_REGISTRY_FOLDER
def registry_list(folder: Path, *, as_json: bool, **_: Any) -> int:
    """List the releases in a registry."""
    from dataclasses import asdict

    from medsanitize.release.registry import Registry

    entries = Registry(folder).list()
    lines = [f"{entry.name} {entry.version} ({entry.mode}): {entry.objects:,} objects" for entry in entries]
    facts = {"releases": [asdict(entry) for entry in entries]}
    print_result(as_json, facts, "\n".join(lines) or "The registry is empty.")
    return 0


@command("remove", "medsanitize registry remove chest-ct 1.0 --registry registry", group=registry)
@click.argument("name")
@click.argument("version")
@_REGISTRY_FOLDER
def registry_remove(name: str, version: str, folder: Path, *, as_json: bool, **_: Any) -> int:
    """Remove a release, and list the releases that depend on it."""
    from dataclasses import asdict

    from medsanitize.release.registry import Registry

    affected = Registry(folder).remove(name, version)
    lines = [f"Removed {name} {version}. Releases that depend on it: {len(affected)}"]
    lines += [f"  {one.entry.name} {one.entry.version}: {one.shared:,} shared objects" for one in affected]
    print_result(as_json, {"affected": [asdict(one) for one in affected]}, "\n".join(lines))
    return 0


@command("serve", "medsanitize registry serve consortium.yaml", group=registry)
@click.argument("consortium", type=FILE)
def registry_serve(consortium: Path, *, as_json: bool, **_: Any) -> int:
    """Let members of a consortium ask, privately, whether a release shares images with registered ones.

    CONSORTIUM is a YAML file that names the registry, the keys of the party that serves it, and its members.
    Members ask with overlap --with, or in a run before publication (see medsanitize party).
    """
    from medsanitize.commands.party import started_as, stop_on_signals
    from medsanitize.pipeline.jobs.serve_registry import serve_registry
    from medsanitize.pipeline.runtime.optional_dependencies import check_extra
    from medsanitize.policies.consortium import load_consortium

    check_extra("party")
    serve_registry(load_consortium(consortium), stop_on_signals, started_as(as_json))
    return 0


@command("search", "medsanitize registry search release --policy policy.yaml", group=registry)
@click.argument("release", type=FILE)
@click.option("--policy", type=FILE, required=True, help="The policy with the agreements with partners.")
@click.option(
    "--with",
    "partners",
    multiple=True,
    metavar="PARTNER",
    help="Ask this partner only: its name or address in the policy. By default all partners are asked.",
)
def registry_search(
    release: Path, policy: Path, partners: tuple[str, ...], *, as_json: bool, log_json: bool
) -> int:
    """Ask the registries of other hospitals, privately, how many items of a release they have.

    Partners serve their registry (registry serve) or a release (party serve). Each is asked in turn, by the
    agreement with it, and every question counts against its budget. The answers are counts: an agreement that
    reveals which items or patients are common is refused. Exit code 3: a registry has items of the release;
    0: none has; 1: a comparison is inconclusive. A partner that cannot be asked gives its own exit code.
    """
    from medsanitize.commands.overlap import overall_result, partner_facts, partner_lines, partner_table
    from medsanitize.pipeline.jobs.search_registries import search_registries
    from medsanitize.policies.load import load

    with long_running(log_json) as (progress, cancellation):
        rows = search_registries(load(policy), release, partners, progress, cancellation)
    told = [partner_facts(one) for one in rows]
    result, code = overall_result(told)
    having = sum(one["result"] == "overlapping" for one in told)
    lines = [
        *partner_table(told),
        *(line for one in rows for line in partner_lines(one)),
        f"{having} of {len(rows)} partners have items or patients of this release.",
    ]
    print_result(
        as_json, {"result": result, "having": having, "partners": told, "exit_code": code}, "\n".join(lines)
    )
    return code
