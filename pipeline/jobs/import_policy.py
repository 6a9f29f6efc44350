"""Turn the rules of another program into a policy: on a preset, which no imported rule weakens."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from medsanitize.pipeline.jobs.imported_text import imported_policy_text
from medsanitize.policies.load import loads
from medsanitize.policies.migration.foreign_rules import DeviceRegion, Effect, ForeignRule, ForeignRules
from medsanitize.policies.migration.read_rules import read_foreign_rules
from medsanitize.policies.model import Action, Policy, PresetName
from medsanitize.policies.tables.standard import confidentiality_rows, types_of_attributes
from medsanitize.policies.tag_patterns import dictionary_vr, display_name
from medsanitize.policies.template import policy_template
from medsanitize.sanitize.dicom.rules import GENERIC, AttributeRules

# How little a rule leaves: 0 the value, 1 what is computed from it, 2 the value cleaned or moved, 3 nothing.
_LEFT: Final[dict[Effect, int]] = {
    **{"keep": 0, "derive": 1, "clean": 2, "shift": 2},
    **dict.fromkeys(("uid", "replace", "empty", "remove"), 3),
}
_ACTIONS: Final[dict[Effect, Action]] = {
    **{"clean": "C", "shift": "C", "uid": "U", "replace": "D", "empty": "Z", "remove": "X"},
}
_LEFT_BY_ACTION: Final = {"K": 0, "C": 2, "D": 3, "U": 3, "X": 3, "Z": 3}
# The rule of the value representation, for attributes in no table (see docs/what-is-removed.md).
_LEFT_BY_VR: Final = {
    **dict.fromkeys(("LO", "LT", "SH", "ST", "UC", "UT", "DA", "DT", "TM", "AS", "SQ"), 2),
    **dict.fromkeys(("PN", "AE", "UR", "UI"), 3),
}
_DUMMY_VRS: Final = frozenset("LO LT SH ST UC UT DA DT TM PN AS".split())
# A sanitizer writes them itself, whatever a policy says.
_WRITTEN: Final = frozenset(("00080005", "00120062", "00120063", "00120064", "00280303", "00280301"))
# Codes, and items that must keep their code (PS3.3 8.8).
_CODES: Final = frozenset(("00080100", "00080102", "00080104", "00080119", "00080120"))


@dataclass(frozen=True, slots=True)
class ImportedRule:
    """A line of the imported file, and what became of it.

    Attributes
    ----------
    line : int
        Where it is written; 0 for an attribute that the file does not name.
    attribute : str
        Keyword or tag; empty for a rule on no single attribute.
    written : str
        Its action, or what it does.
    policy : str
        The action of the policy; empty if there is none to compare with.
    """

    line: int
    attribute: str
    written: str
    policy: str

    def __str__(self) -> str:
        where = f"line {self.line}: " if self.line else ""
        what = " ".join(filter(None, (self.attribute, self.written)))
        return f"{where}{what}{f'; policy: {self.policy}' if self.policy else ''}"


@dataclass(frozen=True, slots=True)
class ImportedPolicy:
    """A policy made from the rules of another program.

    Attributes
    ----------
    text : str
        YAML with comments, which `loads` accepts.
    language : str
        The program.
    rules : int
        Number of rules that were read.
    carried : tuple of ImportedRule
        Rules that are stricter than the preset, and are in the policy.
    weaker : tuple of ImportedRule
        Rules that leave more than the preset does; the preset holds.
    not_carried_over : tuple of ImportedRule
        Rules without an equivalent.
    unnamed : tuple of str
        Attributes that the preset removes or replaces, and that the file keeps by not naming them.
    """

    text: str
    language: str
    rules: int
    carried: tuple[ImportedRule, ...]
    weaker: tuple[ImportedRule, ...]
    not_carried_over: tuple[ImportedRule, ...]
    unnamed: tuple[str, ...]


@dataclass(slots=True)
class _Import:
    """What has been decided so far."""

    preset: Policy
    decide: AttributeRules
    attributes: dict[str, tuple[Action, ForeignRule]]
    options: dict[str, int]
    regions: list[DeviceRegion]
    carried: list[ImportedRule]
    weaker: list[ImportedRule]
    without: list[ImportedRule]


def import_policy(path: Path, preset: PresetName, name: str) -> ImportedPolicy:
    """Read a file of rules, and write them as a policy.

    Parameters
    ----------
    path : Path
        See `read_foreign_rules`.
    preset : str
        The preset that the policy starts from.
    name : str
        Name of the release.

    Raises
    ------
    PolicyError
        The file is not understood.
    UsageError
        The file cannot be read, or the name is invalid.
    """
    template = policy_template(preset, name)
    foreign = read_foreign_rules(path)
    policy = loads(template, base=Path.cwd())
    made = _Import(policy, AttributeRules(policy.dicom), {}, {}, list(foreign.regions), [], [], [])
    for rule in foreign.rules:
        _decide(made, rule)
    _settings(made, foreign)
    for note in foreign.notes:
        (made.weaker if note.weaker else made.without).append(ImportedRule(note.line, "", note.text, ""))
    for region in foreign.regions:
        made.carried.append(ImportedRule(region.line, "", "areas of a device", "pixels.regions"))
    unnamed = tuple(_unnamed(made, foreign)) if foreign.keeps_unnamed else ()
    for listed in (made.carried, made.weaker, made.without):
        listed.sort(key=lambda rule: (rule.line, rule.attribute))
    text = imported_policy_text(
        template,
        foreign.language,
        {mask: (action, rule.line, rule.written) for mask, (action, rule) in made.attributes.items()},
        made.options,
        made.regions,
        ([str(one) for one in made.weaker], [str(one) for one in made.without], unnamed),
    )
    loads(text, base=Path.cwd())  # what is written must be valid
    return ImportedPolicy(
        text,
        foreign.language,
        len(foreign.rules),
        tuple(made.carried),
        tuple(made.weaker),
        tuple(made.without),
        unnamed,
    )


# -- single attributes ----------------------------------------------------------------------


def _decide(made: _Import, rule: ForeignRule) -> None:
    if rule.attribute in _WRITTEN:
        return
    action, left = _preset_action(made.decide, rule.attribute)
    shown = ImportedRule(rule.line, display_name(rule.attribute), rule.written, action)
    if rule.effect in ("conditional", "unknown"):
        # Nothing can be stricter than a preset that leaves nothing.
        if left < 3:
            made.without.append(shown)
        return
    foreign = _LEFT[rule.effect]
    if foreign < left:
        made.weaker.append(shown)
    elif foreign > left:
        _carry(made, rule, shown)


def _carry(made: _Import, rule: ForeignRule, shown: ImportedRule) -> None:
    """Take over a rule that is stricter than the preset, as far as objects stay valid."""
    action = _valid_action(rule)
    if action is None:
        made.without.append(shown)
        return
    before = made.attributes.get(rule.attribute)
    if before is None or _LEFT_BY_ACTION[action] > _LEFT_BY_ACTION[before[0]]:
        made.attributes[rule.attribute] = action, rule
        made.carried.append(ImportedRule(shown.line, shown.attribute, shown.written, action))


def _valid_action(rule: ForeignRule) -> Action | None:
    """Return the action of a policy; None for a value that objects need, or that is only computed."""
    action = _ACTIONS.get(rule.effect)
    vr = dictionary_vr(rule.attribute)
    if action == "C" or action is None:
        return action if rule.effect == "clean" or vr in ("DA", "DT", "TM") else None
    if rule.attribute in _CODES or rule.attribute.startswith("0028") or vr == "UI":
        return None
    types = types_of_attributes().get(rule.attribute, frozenset())
    if "1" in types:
        return "D" if vr in _DUMMY_VRS else None
    if action == "X" and types & {"2", "2C"}:
        return "Z"
    return "D" if action == "U" else action


def _preset_action(decide: AttributeRules, mask: str) -> tuple[str, int]:
    """Return the action of the preset, and how little it leaves."""
    tag = int(mask.replace("x", "0"), 16)
    action = decide.rule(decide.scope(""), tag).action
    if action != GENERIC:
        return action, _LEFT_BY_ACTION[action]
    vr = dictionary_vr(mask)
    return f"rule of VR {vr}" if vr else "rule of the VR", _LEFT_BY_VR.get(vr, 0)


# -- the whole file -------------------------------------------------------------------------


def _settings(made: _Import, foreign: ForeignRules) -> None:
    """Switch options off that keep what the file removes as a whole."""
    options = made.preset.dicom.options
    for line, what in foreign.removed:
        option = {"private": "retain_safe_private", "overlays": "clean_graphics"}.get(what)
        if option is not None and getattr(options, option) and option not in made.options:
            made.options[option] = line
            made.carried.append(ImportedRule(line, "", f"{what} are removed", f"{option}: false"))


def _unnamed(made: _Import, foreign: ForeignRules) -> Iterator[str]:
    named = {rule.attribute for rule in foreign.rules}
    gone = {what for _, what in foreign.removed}
    for row in confidentiality_rows():
        whole = {"private": "private", "50": "curves", "60": "overlays"}.get(
            row.mask if row.mask == "private" else row.mask[:2]
        )
        # Group 0002 is written anew by every program.
        if (
            row.mask == "private"
            or row.mask.startswith("0002")
            or row.mask in named
            or (whole in gone and "x" in row.mask)
        ):
            continue
        if _preset_action(made.decide, row.mask)[1] == 3:
            yield display_name(row.mask)
