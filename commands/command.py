"""Shared parts of all commands: the example, --json and --log-json, exit codes and error messages."""

from __future__ import annotations

import functools
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from medsanitize.progress import Cancellation, Progress

FILE = click.Path(path_type=Path)
_COMMON = (
    click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object on stdout."),
    click.option("--log-json", is_flag=True, help="Write messages and progress as JSON lines on stderr."),
)


def command(
    name: str, example: str, group: click.Group | None = None
) -> Callable[[Callable[..., int]], click.Command]:
    """Turn a function that returns an exit code into a command with --json, --log-json and an example.

    Parameters
    ----------
    name : str
        Name of the command.
    example : str
        Example shown at the end of its help.
    group : click.Group or None
        Group of a subcommand.
    """

    def register(function: Callable[..., int]) -> click.Command:
        @functools.wraps(function)
        def guarded(*, log_json: bool, **arguments: Any) -> None:
            # Set by `main` only: a program that calls the commands has no need of a temporary folder.
            prepare = click.get_current_context().obj
            if prepare is not None:
                prepare()
            _run_and_exit(lambda: function(log_json=log_json, **arguments), arguments["as_json"], log_json)

        wrapped: Callable[..., Any] = guarded
        for option in reversed(_COMMON):
            wrapped = option(wrapped)
        register_command = group.command if group is not None else click.command
        return register_command(name, epilog=f"\b\nExample:\n  {example}")(wrapped)

    return register


def _run_and_exit(work: Callable[[], int], as_json: bool, log_json: bool) -> None:
    """Run a command, and turn any error into one sentence and an exit code."""
    from medsanitize.pipeline.runtime.result import exit_code

    try:
        code = work()
    # click reports usage errors itself, with exit code 2.
    except click.ClickException:
        raise
    except BrokenPipeError:
        # The reader of the output has seen enough, as `head` does; the interpreter must not flush it again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 128 + signal.SIGPIPE
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001  a traceback could show element values
        code = exit_code(error)
        _report_error(error, int(code), as_json, log_json)
    sys.exit(code)


def _report_error(error: BaseException, code: int, as_json: bool, log_json: bool) -> None:
    from medsanitize.pipeline.reporting.json_log import log_failure
    from medsanitize.pipeline.runtime.result import describe_error, failed_ending

    text = describe_error(error)
    if as_json:
        print(json.dumps({"type": "error", "message": text, "exit_code": code}))
    if log_json:
        log_failure(failed_ending(error), code, type(error).__name__, text)
    else:
        print(f"medsanitize: {text}", file=sys.stderr)


@contextmanager
def long_running(log_json: bool) -> Iterator[tuple[Progress, Cancellation]]:
    """Provide progress on stderr, and cancellation by Ctrl-C and SIGTERM."""
    from medsanitize.pipeline.reporting.console import close_progress, progress_for
    from medsanitize.pipeline.runtime.signals import cancel_on_signals

    progress = progress_for(log_json)
    try:
        with cancel_on_signals() as cancellation:
            yield progress, cancellation
    finally:
        # The bar must be removed before an error message is printed.
        close_progress(progress)


def print_result(as_json: bool, facts: dict[str, Any], text: str) -> None:
    """Print a result on stdout, as one JSON object or as text."""
    click.echo(json.dumps({"type": "result", **facts}) if as_json else text)


def aligned(table: Sequence[tuple[str, ...]]) -> list[str]:
    """Format rows of a table with columns of equal width."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in table]


def login_name() -> str:
    """Return the name of the login; empty where the system has none."""
    import getpass

    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return ""
