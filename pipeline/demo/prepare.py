"""The demo: an export, a policy and keys for it, and a summary."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from medsanitize.errors import UsageError
from medsanitize.pipeline.runtime.result import RunResult
from medsanitize.release.atomic_io import storage_errors

_MIN_IDENTIFIER_LENGTH = 5
# Values in several encodings, as an attacker would search for them.
_ENCODINGS = ("utf-8", "latin-1", "utf-16-le", "utf-16-be")


@dataclass(frozen=True, slots=True)
class Demo:
    """A prepared demo: its policy, number of files and patients, and planted identifiers."""

    policy: Path
    files: int
    patients: int
    planted: tuple[str, ...]


def prepare_demo(folder: Path) -> Demo:
    """Create ``export``, ``policy.yaml``, ``release.key`` and ``signing.key`` in a new folder.

    If the extra ``verify`` is installed, ``elsewhere`` contains images of another hospital that treated one
    of the patients.

    Parameters
    ----------
    folder : Path
        A new or empty folder.

    Raises
    ------
    UsageError
        The folder is not empty, or an extra that the policy needs is not installed.
    """
    from medsanitize.pipeline.demo.export import make_export
    from medsanitize.pipeline.runtime.optional_dependencies import check_extras
    from medsanitize.policies.load import loads
    from medsanitize.policies.release_key import generate_release_key
    from medsanitize.policies.template import policy_template
    from medsanitize.release.attestation import generate_signing_key

    require_empty(folder)
    content = _with_signing(policy_template("research", "demo"))
    check_extras(loads(content, base=folder.absolute()))
    with storage_errors():
        folder.mkdir(parents=True, exist_ok=True)
        export = make_export(folder / "export")
        policy = folder / "policy.yaml"
        policy.write_text(content, encoding="utf-8")
        _write_other_hospital(folder / "elsewhere")
    generate_release_key(folder / "release.key")
    generate_signing_key(folder / "signing.key")
    return Demo(policy, export.files, export.patients, tuple(_values(export.planted)))


def require_empty(folder: Path) -> None:
    """Refuse a folder for a demo that exists and is not empty.

    Raises
    ------
    UsageError
        The folder is not empty.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError("The folder for the demo is not empty", "Name a new folder")


def _write_other_hospital(folder: Path) -> None:
    """Create the other hospital's images; the first patient is in the export as well."""
    from medsanitize.generators.phantoms.cohorts import write_chests
    from medsanitize.pipeline.demo.images import CHEST, CHEST_SIZE
    from medsanitize.pipeline.runtime.optional_dependencies import is_missing

    if not is_missing("verify"):
        write_chests(folder, range(CHEST, CHEST + 4), visits=(1, 1), size=CHEST_SIZE)


def _with_signing(text: str) -> str:
    return text.replace("\n#  signing: ./signing.key", "\n  signing: ./signing.key")


def _values(table: Path) -> Iterator[str]:
    with table.open(encoding="utf-8", newline="") as file:
        found = {row["value"] for row in csv.DictReader(file)}
    # Shorter values occur in compressed data by chance.
    yield from sorted(value for value in found if len(value) >= _MIN_IDENTIFIER_LENGTH)


def count_surviving_identifiers(demo: Demo, result: RunResult) -> int:
    """Count the planted identifiers that occur in any byte or file name of the release."""
    if result.release is None:
        return 0
    release = Path(result.release)
    files = sorted(path for path in release.rglob("*") if path.is_file())
    # Names of files count as well: a release must not contain a value in a path.
    names = (str(path.relative_to(release)).encode() for path in files)
    content = b"\0".join((*names, *(path.read_bytes() for path in files)))
    return sum(any(spelling in content for spelling in _encodings_of(value)) for value in demo.planted)


def _encodings_of(value: str) -> set[bytes]:
    spellings = set()
    for encoding in _ENCODINGS:
        try:
            spellings.add(value.encode(encoding))
        except UnicodeEncodeError:
            continue
    return spellings


def show_demo(demo: Demo, result: RunResult, survivors: int) -> None:
    """Print what was planted, what survives, and the next commands."""
    from medsanitize.pipeline.reporting.console import show_result
    from rich.console import Console
    from rich.panel import Panel

    show_result(result, title="medsanitize demo")
    tone = "green" if survivors == 0 and result.release else "red"
    lines = [
        f"The export: {demo.files} files of {demo.patients} invented patients.",
        f"[bold {tone}]{len(demo.planted)} identifiers were planted; {survivors} survive in the release.[/]",
    ]
    console = Console(soft_wrap=True, highlight=False)
    console.print(Panel("\n".join(lines)))
    elsewhere = demo.policy.parent / "elsewhere"
    again = f"Shared patients:    medsanitize overlap {result.release} {elsewhere}"
    for line in (
        f"Read the report:    {Path(result.release) / 'report.html' if result.release else result.report}",
        f"Check the release:  medsanitize verify {result.release or 'RELEASE'}",
        f"Export the ledger:  medsanitize ledger {demo.policy} --patients patients.csv",
        *([again] if result.release and elsewhere.exists() else []),
        f"Make it your own:   edit {demo.policy}, then medsanitize plan {demo.policy}",
    ):
        console.print(line)
