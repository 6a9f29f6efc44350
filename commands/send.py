"""The command send: releases to a PACS."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from medsanitize.commands.command import FILE, command, long_running, print_result

if TYPE_CHECKING:
    from medsanitize.pipeline.jobs.send_to_pacs import SendResult


@command("send", "medsanitize send release https://pacs.example.org/dicom-web --token PACS_TOKEN")
@click.argument("release", type=FILE)
@click.argument("target")
@click.option("--key", type=FILE, help="Public key that must have signed the release.")
@click.option("--calling", default="MEDSANITIZE", show_default=True, help="Our AE title.")
@click.option("--token", metavar="NAME", help="Environment variable that holds a bearer token.")
@click.option("--login", metavar="NAME", help="Environment variable that holds user:password.")
def send(
    release: Path,
    target: str,
    key: Path | None,
    calling: str,
    token: str | None,
    login: str | None,
    *,
    as_json: bool,
    log_json: bool,
) -> int:
    """Verify a release and send its DICOM objects to a PACS.

    TARGET is a DICOMweb service (https://host/path, STOW-RS) or a DICOM peer (AET@host:port, C-STORE).
    Objects that the PACS already has are not sent again, so the same command resumes.
    """
    from medsanitize.errors import UsageError
    from medsanitize.pipeline.runtime.optional_dependencies import check_extra

    check_extra("pacs")
    from medsanitize.pipeline.jobs.send_to_pacs import send as send_release

    if token and login:
        raise UsageError("A service takes one credential", "Give --token or --login")
    credential = ("token", token) if token else ("login", login) if login else ("", "")
    with long_running(log_json) as (progress, cancellation):
        result = send_release(
            release, target, progress, cancellation, key=key, calling=calling, credential=credential
        )
    code = 1 if result.refused else 0
    facts: dict[str, Any] = {
        "objects": result.objects,
        "sent": result.sent,
        "present": result.present,
        "changed": result.changed,
        "refused": dict(result.refused),
        "not_dicom": result.not_dicom,
        "queried": result.queried,
    }
    print_result(as_json, {**facts, "exit_code": code}, _lines(result))
    return code


def _lines(result: SendResult) -> str:
    lines = [f"{result.sent:,} of {result.objects:,} objects sent; {result.present:,} were present before."]
    if result.changed:
        lines.append(f"{result.changed:,} of them were stored with changes by the PACS.")
    if result.not_dicom:
        lines.append(f"{result.not_dicom:,} objects are not DICOM and were not sent.")
    lines += [f"  {count:,} refused: {answer}" for answer, count in result.refused.items()]
    return "\n".join(lines)
