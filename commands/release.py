"""Commands on releases (verify, audit, conformance, registry), and wipe for slides outside releases."""

from __future__ import annotations

import json
from dataclasses import asdict
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from medsanitize.commands.command import FILE, aligned, command, long_running, print_result
from medsanitize.commands.options import KIND

if TYPE_CHECKING:
    from medsanitize.pipeline.stages.register import Registration
    from medsanitize.release.exports.export import Form
    from medsanitize.release.registry import Registry

_CHANGED: Final = {
    "added": "added",
    "removed": "removed",
    "header": "with another header",
    "pixels": "with other pixels",
    "same": "same",
}
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


@command("query", "medsanitize query release 'SELECT Modality, count(*) FROM series GROUP BY Modality'")
@click.argument("release", type=FILE)
@click.argument("sql")
def query(release: Path, sql: str, *, as_json: bool, **_: Any) -> int:
    """Query a release in SQL: what its headers say, by object and by series, and its manifest.

    Tables: index (one row per object) and series, with columns named as in DICOM and idc-index; objects and
    patients, the manifest. The query can read nothing else.
    """
    from medsanitize.api.release import Release

    found = Release(release).query(sql)
    rows = found.to_pylist()
    cells = [tuple("" if cell is None else str(cell) for cell in row.values()) for row in rows]
    lines = aligned([tuple(found.column_names), *cells])
    # A value of a header must not move the cursor of the terminal.
    text = "\n".join("".join(one if one.isprintable() else "?" for one in line) for line in lines)
    plain = [{name: _as_json(cell) for name, cell in row.items()} for row in rows]
    facts = {"columns": found.column_names, "rows": plain, "exit_code": 0}
    print_result(as_json, facts, text)
    return 0


def _as_json(cell: object) -> object:
    """Return a value of a query as JSON has it; what JSON has no form for becomes text, and NaN null."""
    if isinstance(cell, float):
        return cell if isfinite(cell) else None
    return cell if cell is None or isinstance(cell, str | int) else json.loads(json.dumps(cell, default=str))


@command("diff", "medsanitize diff release-1.0 release-1.1")
@click.argument("before", type=FILE)
@click.argument("after", type=FILE)
def diff(before: Path, after: Path, *, as_json: bool, **_: Any) -> int:
    """Show what changed from one release to another: objects and patients added, removed or changed.

    Releases with different release keys have no pseudonyms in common. --json lists every object.
    """
    from medsanitize.api.release import Release

    older, newer = Release(before), Release(after)
    found = newer.differences(older)
    objects = (f"{found.objects[change]:,} {words}" for change, words in _CHANGED.items())
    patients = (f"{number:,} {change}" for change, number in found.patients.items())
    lines = [
        f"{older.name} {older.version} -> {newer.name} {newer.version}",
        f"Objects: {', '.join(objects)}.",
        f"Patients: {', '.join(patients)}.",
        "The policy is the same." if found.same_policy else "The policy changed.",
    ]
    facts = {
        "objects": dict(found.objects),
        "patients": dict(found.patients),
        "changed": [asdict(one) for one in found.changed],
        "same_policy": found.same_policy,
    }
    print_result(as_json, {**facts, "exit_code": 0}, "\n".join(lines))
    return 0


@command("export", "medsanitize export webdataset release shards")
@click.argument("form", type=click.Choice(["huggingface", "nifti", "webdataset"]))
@click.argument("release", type=FILE)
@click.argument("output", type=FILE)
def export(form: Form, release: Path, output: Path, *, as_json: bool, log_json: bool) -> int:
    """Export a release for other programs: the objects with what their headers say.

    huggingface writes Parquet files with the objects in them, webdataset tar files, nifti a volume with BIDS
    sidecar for each series (extra export). After an interruption, the same command goes on. The same release
    gives the same bytes; EXPORT.json names the release and the digest of every file.
    """
    from medsanitize.release.exports.export import export_release

    with long_running(log_json) as (progress, cancellation):
        done = export_release(release, output, form, progress, cancellation)
    lines = [f"Objects: {done.objects:,}. Files: {done.files:,}."]
    lines += [f"Left out: {count:,} {reason}." for reason, count in done.left_out.items()]
    code = 1 if done.left_out else 0
    facts = {"objects": done.objects, "files": done.files, "left_out": done.left_out, "exit_code": code}
    print_result(as_json, facts, "\n".join(lines))
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
