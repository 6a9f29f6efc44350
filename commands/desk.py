"""The command desk: the web application for a data steward."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from medsanitize.commands.command import FILE, command


@command("desk", "medsanitize desk /data/releases /data/exports")
@click.argument("roots", type=FILE, nargs=-1, metavar="[ROOT]...")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port; by default a free one.")
@click.option("--listen", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--certificate", type=FILE, help="Certificate (PEM) for TLS.")
@click.option("--private-key", type=FILE, help="Private key (PEM) of the certificate.")
@click.option("--password-file", type=FILE, help="File (mode 0600) with the password.")
@click.option("--public", metavar="ADDRESS", help="Address (https://HOST) of a proxy before the desk.")
@click.option("--idle", type=click.FloatRange(1, 1440), default=30.0, show_default=True, metavar="MINUTES",
              help="A session that is not used for so long ends.")  # fmt: skip
@click.option("--no-browser", is_flag=True, help="Print the address only.")
def desk(
    roots: tuple[Path, ...],
    port: int,
    listen: str,
    certificate: Path | None,
    private_key: Path | None,
    password_file: Path | None,
    public: str | None,
    idle: float,
    *,
    no_browser: bool,
    as_json: bool,
    **_: Any,
) -> int:
    """Open the web application: from an export to an approved release, in a browser.

    It reads and writes within the folders ROOT only (by default the working folder), and follows no link out
    of them. It listens on this machine; the address that it prints works once. Needs the extra desk.
    """
    from medsanitize.errors import UsageError
    from medsanitize.pipeline.runtime.optional_dependencies import is_missing
    from medsanitize.policies.release_key import read_private_file

    if is_missing("desk"):
        raise UsageError(
            "The extra 'desk' is not installed", "Install it with: pip install 'medsanitize[desk]'"
        )
    from medsanitize.commands.command import login_name, print_result
    from medsanitize.desk.server import DeskOptions, serve

    password = None
    if password_file is not None:
        stored = read_private_file(password_file, name="--password-file", remedy="Create it with mode 0600")
        password = stored.decode("utf-8", "replace").strip()
    options = DeskOptions(
        roots=roots or (Path(),),
        host=listen,
        port=port,
        public=public,
        certificate=certificate,
        private_key=private_key,
        password=password,
        idle_minutes=idle,
        open_browser=not no_browser,
        login=login_name(),
    )
    text = "The desk is open at this address, which works once"
    serve(options, lambda link: print_result(as_json, {"address": link}, f"{text}:\n{link}"))
    return 0
