"""The commands of policy: rules of other programs as a policy."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from medsanitize.commands.command import FILE, command, print_result
from medsanitize.commands.policy import NAME, PRESET, write_new_policy

if TYPE_CHECKING:
    from medsanitize.pipeline.jobs.import_policy import ImportedPolicy

_MOST_SHOWN = 20


@click.group()
def policy() -> None:
    """Make a policy from the rules of another de-identification program."""


@command("import", "medsanitize policy import anonymizer.script policy.yaml --name chest-ct", group=policy)
@click.argument("rules", type=FILE)
@click.argument("target", metavar="[POLICY]", type=FILE, default=Path("policy.yaml"))
@PRESET
@NAME
def import_rules(rules: Path, target: Path, preset: Any, name: str, *, as_json: bool, **_: Any) -> int:
    """Write a policy from the RULES of another program; an existing file is never overwritten.

    RULES is a script of CTP or the RSNA Anonymizer (XML), a recipe of pydicom's deid, a dictionary of
    Kitware's dicom-anonymizer (JSON), rules of DSA ImageDePHI (YAML) or settings of DSA WSI DeID. Rules that
    are stricter than the preset are taken over. No rule weakens the preset: those that leave more of a value
    are listed, as are those that a policy cannot express.
    """
    from medsanitize.pipeline.jobs.import_policy import import_policy

    made = import_policy(rules, preset, name)
    write_new_policy(target, made.text)
    facts: dict[str, Any] = {"policy": str(target), "language": made.language, "rules": made.rules}
    for part in ("carried", "weaker", "not_carried_over"):
        facts[part] = [asdict(one) for one in getattr(made, part)]
    print_result(
        as_json,
        {**facts, "unnamed": list(made.unnamed), "exit_code": 0},
        "\n".join(_lines(made, target)),
    )
    return 0


def _lines(made: ImportedPolicy, target: Path) -> list[str]:
    lines = [
        f"Wrote {target} from {made.rules:,} rules ({made.language}).",
        f"{len(made.carried):,} are stricter than the preset, and in the policy.",
    ]
    parts = (
        ("leave more of a value than the preset, which holds", [str(one) for one in made.weaker]),
        ("were not carried over", [str(one) for one in made.not_carried_over]),
        ("attributes are kept there by not being named, and not by the preset", list(made.unnamed)),
    )
    for heading, entries in parts:
        lines.append(f"{len(entries):,} {heading}{':' if entries else '.'}")
        lines += [f"  {one}" for one in entries[:_MOST_SHOWN]]
        if len(entries) > _MOST_SHOWN:
            lines.append(f"  and {len(entries) - _MOST_SHOWN:,} more, listed at the end of the policy")
    return [*lines, f"Edit it, then: medsanitize validate {target}"]
