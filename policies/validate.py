"""Rules about a policy as a whole, beyond the type of each value."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

from medsanitize.errors import Problem
from medsanitize.policies import tag_patterns
from medsanitize.policies.draft import Draft, Steps, path_problem
from medsanitize.policies.inputs import is_url
from medsanitize.policies.site_lists import NAMES as SITE_LISTS
from medsanitize.policies.site_lists import entry_problem
from medsanitize.policies.validate_inputs import check_pacs, check_stores


def check_policy(draft: Draft) -> Iterator[Problem]:
    """Yield every contradiction in a policy."""
    for rule in (
        _published,
        _card,
        _keys,
        _registry,
        _anonymous,
        _dates,
        _faces,
        _readers,
        _macro,
        _overrides,
        _site_lists,
        _paths,
        _files,
        _inputs,
        check_pacs,
        check_stores,
        _tables,
        _synthesize,
        _agreements,
    ):
        yield from rule(draft)


_SYNTHESIZE = ("model", "verifier", "retrieval", "federated_calibration")


def path_fields(data: dict[str, Any]) -> Iterator[Steps]:
    """Yield the paths of keys whose values are files or folders."""
    yield from (("output",), ("state",), ("exclude",), ("identities",), ("keys", "file"), ("keys", "signing"))
    yield from (("pseudonyms", "table"), ("registry", "path"), ("wsi", "specimens", "file"))
    yield from (("registry", "key", "file"), ("text", "deny_list"), ("text", "allow_list"))
    yield from (("overlap", name) for name in ("model", "verifier", "calibration"))
    yield from _partner_paths(data.get("partners"))
    yield from (("synthesize", name) for name in _SYNTHESIZE)
    yield from (("synthesize", "reference", name) for name in ("images", "table"))
    for section, rest in (("inputs", ()), ("tables", ("file",))):
        values = data.get(section)
        for index in range(len(values) if isinstance(values, list) else 0):
            yield (section, index, *rest)
    inputs = data.get("inputs")
    for index, value in enumerate(inputs if isinstance(inputs, list) else ()):
        if isinstance(value, dict):
            yield ("inputs", index, "worklist")


def _partner_paths(section: Any) -> Iterator[Steps]:
    yield ("partners", "party")
    if not isinstance(section, dict):
        return
    for name in section.get("classifiers") or ():
        yield ("partners", "classifiers", name)
    agreements = section.get("agreements")
    for index in range(len(agreements) if isinstance(agreements, list) else 0):
        yield ("partners", "agreements", index, "near", "model")
        yield ("partners", "agreements", index, "ask", "retrieval")


def _published(draft: Draft) -> Iterator[Problem]:
    value = draft.get("release", "date")
    # Other texts are reported by the model's pattern.
    if not isinstance(value, str) or not re.fullmatch(r"\d{4}-\d{2}-\d{2}", value):
        return
    try:
        date.fromisoformat(value)
    except ValueError:
        yield draft.problem(("release", "date"), "The date does not exist", "Write the date as YYYY-MM-DD")


def _card(draft: Draft) -> Iterator[Problem]:
    path: Steps = ("release", "card")
    epsilon, ceiling = draft.get(*path, "epsilon"), draft.get(*path, "ceiling")
    ceiling = 3 if ceiling is None else ceiling
    if isinstance(epsilon, int | float) and isinstance(ceiling, int | float) and epsilon > ceiling:
        what = "release.card.epsilon is above the ceiling of all versions together"
        yield draft.problem((*path, "epsilon"), what, "Use a smaller epsilon, or a larger ceiling")
    ages = draft.get(*path, "ages")
    whole = isinstance(ages, list) and bool(ages) and all(isinstance(one, int) for one in ages)
    if whole and (ages[0] != 0 or ages != sorted(set(ages))):
        what = "release.card.ages does not ascend from 0"
        yield draft.problem((*path, "ages"), what, "Write the youngest age of each group: [0, 18, 65]")
    tables = {one.get("name") for one in draft.items("tables") if isinstance(one, dict)}
    for index, one in enumerate(draft.items(*path, "findings")):
        if isinstance(one, dict) and one.get("table") not in tables:
            what = "release.card.findings names a table that is not in tables"
            steps: Steps = (*path, "findings", index, "table")
            yield draft.problem(steps, what, "Describe the table in the section tables")


def _keys(draft: Draft) -> Iterator[Problem]:
    given = [name for name in ("file", "env", "command") if draft.get("keys", name) is not None]
    anonymous = draft.get("release", "mode") == "anonymous"
    if len(given) > 1:
        yield draft.problem(
            ("keys", given[1]),
            f"The release key has two sources: keys.{given[0]} and keys.{given[1]}",
            "Keep exactly one of file, env and command",
        )
    elif not given and not anonymous:
        yield draft.problem(
            ("keys",),
            "The release key has no source",
            "Write keys: {file: ./release.key} and create the file: medsanitize keygen ./release.key",
        )


def _registry(draft: Draft) -> Iterator[Problem]:
    given = [name for name in ("file", "env") if draft.get("registry", "key", name) is not None]
    remedy = "Write registry.key: {file: ./registry.key} and create it: medsanitize keygen ./registry.key"
    if draft.get("registry", "key") is not None and len(given) != 1:
        what = "The registry key must have exactly one source: file or env"
        yield draft.problem(("registry", "key"), what, remedy)
    elif draft.get("overlap") is not None and not given:
        what = "overlap needs the encrypted embeddings of the registry, but registry.key is not set"
        yield draft.problem(("overlap",), what, remedy)


def _anonymous(draft: Draft) -> Iterator[Problem]:
    if draft.get("release", "mode") != "anonymous":
        return
    # Values that persist across releases would link an anonymous object to its patient.
    remedy = "Delete it, or write release.mode: pseudonymous"
    if draft.get("dicom", "options", "retain_uids") is True:
        path: Steps = ("dicom", "options", "retain_uids")
        yield draft.problem(path, "An anonymous release cannot keep UIDs: they link to the source", remedy)
    if draft.get("pseudonyms", "table") is not None:
        path = ("pseudonyms", "table")
        yield draft.problem(path, "An anonymous release cannot use an external pseudonym table", remedy)
    if draft.get("keys", "scope") == "project":
        path = ("keys", "scope")
        yield draft.problem(path, "An anonymous release cannot share pseudonyms with other releases", remedy)
    if draft.get("release", "approve") not in (None, "not required"):
        path = ("release", "approve")
        what = "An anonymous run cannot wait for approval: its key is deleted when it stops"
        yield draft.problem(path, what, remedy)


def _dates(draft: Draft) -> Iterator[Problem]:
    options: Steps = ("dicom", "options")
    full, modified = "retain_longitudinal_full_dates", "retain_longitudinal_modified_dates"
    if draft.get(*options, full) is True and draft.get(*options, modified) is True:
        yield draft.problem(
            (*options, full),
            f"{full} and {modified} are mutually exclusive",
            f"Write {modified}: false, or {full}: false",
        )
    if (
        draft.get("dicom", "dates", "method") == "year"
        and draft.get("dicom", "dates", "keep_weekday") is True
    ):
        path = ("dicom", "dates", "keep_weekday")
        yield draft.problem(path, "keep_weekday has no effect when only the year is kept", "Delete it")


def _faces(draft: Draft) -> Iterator[Problem]:
    option: Steps = ("dicom", "options", "clean_recognizable_visual_features")
    faces = draft.get("pixels", "faces")
    # The option code 113102 in the objects states that faces are altered.
    if draft.get(*option) is True and faces in ("ignore", "flag"):
        yield draft.problem(
            option,
            f"clean_recognizable_visual_features is not met by pixels.faces: {faces}",
            "Write pixels.faces: deface, or quarantine, or clean_recognizable_visual_features: false",
        )


def _readers(draft: Draft) -> Iterator[Problem]:
    path: Steps = ("pixels", "readers")
    readers = draft.items(*path)
    if readers and readers not in (["rapidocr"], ["rapidocr", "tesseract"]):
        what = "pixels.readers must begin with rapidocr, which finds the text, and name no reader twice"
        yield draft.problem(path, what, "Write [rapidocr], or [rapidocr, tesseract]")


def _macro(draft: Draft) -> Iterator[Problem]:
    path: Steps = ("wsi", "macro", "keep")
    part = draft.items(*path)
    # Other forms are reported by the model.
    if len(part) != 4 or not all(isinstance(one, int | float) for one in part):
        return
    left, top, right, bottom = part
    if left >= right or top >= bottom:
        what = "wsi.macro.keep is an empty area"
        yield draft.problem(path, what, "Write [left, top, right, bottom], as in [0.3, 0, 1, 1]")
    elif list(part) == [0, 0, 1, 1]:
        what = "wsi.macro.keep is the whole macro image, which contains the label"
        yield draft.problem(path, what, "Leave out the label area, as in [0.3, 0, 1, 1]")


def _overrides(draft: Draft) -> Iterator[Problem]:
    overrides = draft.get("dicom", "attributes")
    for mask, action in overrides.items() if isinstance(overrides, dict) else ():
        if action == "U" and "x" not in mask and tag_patterns.dictionary_vr(mask) not in ("UI", ""):
            path = ("dicom", "attributes", mask)
            yield draft.problem(
                path, "Action U applies only to UIDs; this attribute has another VR", "Write D, Z, X, K or C"
            )


def _site_lists(draft: Draft) -> Iterator[Problem]:
    for name in SITE_LISTS:
        for index, entry in enumerate(draft.items("text", name)):
            # An empty entry is reported by the model.
            wrong = entry_problem(entry) if isinstance(entry, str) and entry else None
            if wrong is not None:
                yield draft.problem(("text", name, index), *wrong)


def _paths(draft: Draft) -> Iterator[Problem]:
    for path in path_fields(draft.data):
        value = draft.get(*path)
        may_be_url = path == ("output",) or (path[0] == "inputs" and len(path) == 2)
        if isinstance(value, str) and not (may_be_url and is_url(value)):
            wrong = path_problem(value)
            if wrong is not None:
                yield draft.problem(path, *wrong)


def _inputs(draft: Draft) -> Iterator[Problem]:
    seen: dict[Path, int] = {}
    for index in range(len(draft.items("inputs"))):
        here = draft.real("inputs", index)
        if here is None:
            continue
        # Objects of nested inputs would be duplicates of themselves.
        for other, first in seen.items():
            if _within(here, other) or _within(other, here):
                same = "is" if here == other else "overlaps"
                yield draft.problem(
                    ("inputs", index),
                    f"Input {index + 1} {same} input {first + 1}",
                    "List each folder once, and no folder inside another",
                )
                break
        else:
            seen[here] = index


def _files(draft: Draft) -> Iterator[Problem]:
    """Yield root folders inside each other, and private files inside the published folder."""
    inputs = [real for i in range(len(draft.items("inputs"))) if (real := draft.real("inputs", i))]
    output, state = draft.real("output"), draft.real("state")
    registry = draft.real("registry", "path")
    for name, here in (("output", output), ("state", state), ("registry.path", registry)):
        path: Steps = tuple(name.split("."))
        if here is None:
            continue
        if any(_within(here, source) for source in inputs):
            yield draft.problem(path, f"{name} is inside an input; inputs are never written to", _OUTSIDE)
        elif any(_within(source, here) for source in inputs):
            yield draft.problem(path, f"An input is inside {name}", _OUTSIDE)
    if output and state and (_within(state, output) or _within(output, state)):
        inner = "state is inside output" if _within(state, output) else "output is inside state"
        yield draft.problem(("state",), inner, _OUTSIDE)
    for path in path_fields(draft.data):
        here = draft.real(*path)
        if (
            (path[0] not in ("inputs", "output", "state") or len(path) > 2)
            and here
            and output
            and _within(here, output)
        ):
            name = ".".join(step for step in path if isinstance(step, str))
            yield draft.problem(path, f"{name} is inside output, which is published", _OUTSIDE)


_OUTSIDE = "Choose a folder outside of it"


def _within(inner: Path, outer: Path) -> bool:
    return inner == outer or outer in inner.parents


def _tables(draft: Draft) -> Iterator[Problem]:
    names: dict[str, int] = {}
    for index, table in enumerate(draft.items("tables")):
        if not isinstance(table, dict):
            continue
        name = table.get("name")
        if isinstance(name, str):
            if name in names:
                message = f"Table {index + 1} has the same name as table {names[name] + 1}"
                yield draft.problem(("tables", index, "name"), message, "Give each table a unique name")
            names.setdefault(name, index)
        yield from _columns(draft, index, table)


def _synthesize(draft: Draft) -> Iterator[Problem]:
    path: Steps = ("synthesize", "labels")
    by_label, labels = draft.get("synthesize", "replace") == "by-label", draft.get(*path)
    if by_label and not labels:
        what = "synthesize.replace: by-label requires labels"
        yield draft.problem(path, what, "Write synthesize.labels: [LABEL], or replace: all")
    elif labels and not by_label:
        what = "synthesize.labels has no effect without replace: by-label"
        yield draft.problem(path, what, "Delete it, or write replace: by-label")
    if by_label and not all(isinstance(one, str) and not is_url(one) for one in draft.items("inputs")):
        what = "synthesize.replace: by-label requires local input folders: its table lists files"
        remedy = "Copy the objects to a local folder, or write replace: all or flagged"
        yield draft.problem(("synthesize", "replace"), what, remedy)
    defaults = {"training": "train", "holdout": "holdout", "calibration": "calibration"}
    parts = {name: draft.get("synthesize", "reference", name) or value for name, value in defaults.items()}
    if draft.get("synthesize", "reference") is not None and len(set(map(str, parts.values()))) < len(parts):
        path = ("synthesize", "reference")
        what = "Two splits of synthesize.reference have the same name"
        yield draft.problem(path, what, "Use different splits for training, holdout and calibration")


def _agreements(draft: Draft) -> Iterator[Problem]:
    """Check that each partner has one agreement, and that patients are compared under a contract only."""
    seen: set[str] = set()
    for index, one in enumerate(draft.items("partners", "agreements")):
        if not isinstance(one, dict):
            continue
        path: Steps = ("partners", "agreements", index)
        if "patients" in (one.get("compare") or ()) and not one.get("contract"):
            what = "Patient identifiers can be guessed, so they are compared only under a contract"
            remedy = "Name the contract in both policies, or compare pixels only"
            yield draft.problem((*path, "compare"), what, remedy)
        name = one.get("partner")
        if isinstance(name, str) and name in seen:
            what = "Two agreements are with the same partner"
            yield draft.problem((*path, "partner"), what, "Write one agreement for each partner")
        seen.add(str(name))
        yield from _questions(draft, path, one.get("ask"))


def _questions(draft: Draft, path: Steps, ask: Any) -> Iterator[Problem]:
    """Check that questions are of something, and name each classifier once."""
    if not isinstance(ask, dict):
        return
    models, search = ask.get("models"), ask.get("search")
    if not models and not search:
        what = "The questions of an agreement name neither a classifier nor a search"
        yield draft.problem((*path, "ask"), what, "Write ask: {models: [NAME]} or ask: {search: true}")
    if ask.get("retrieval") is not None and not search:
        what = "A retrieval model is named for a search that is not agreed"
        yield draft.problem((*path, "ask", "retrieval"), what, "Write search: true, or delete retrieval")
    names = [str(one) for one in models] if isinstance(models, list) else []
    if len(set(names)) < len(names):
        yield draft.problem((*path, "ask", "models"), "A classifier is named twice", "Name each once")


def _columns(draft: Draft, index: int, table: dict[str, Any]) -> Iterator[Problem]:
    """Check that each column has one role: as ID and date, it would be treated in two ways."""
    seen: set[str] = set()
    roles = (
        "patient",
        "issuer",
        "study",
        "instance",
        "accession",
        "dates",
        "ages",
        "zip_codes",
        "keep",
        "times",
    )
    for role in roles:
        value = table.get(role)
        several = isinstance(value, (list, dict))
        for position, column in enumerate(list(value or ()) if several else [value]):
            if not isinstance(column, str):
                continue
            if column in seen:
                place = column if isinstance(value, dict) else position
                path: Steps = ("tables", index, role, place) if several else ("tables", index, role)
                yield draft.problem(
                    path, f"A column of {role} already has another role", "Give each column one role"
                )
            seen.add(column)
    times, dates = table.get("times"), table.get("dates")
    taken: set[str] = set()
    for column, day in times.items() if isinstance(times, dict) else ():
        if isinstance(day, str) and day in taken:
            what = "Two columns of times name one date, which can move with one of them only"
            yield draft.problem(("tables", index, "times", column), what, "Give each time its own date")
        taken.add(str(day))
        if not isinstance(dates, list) or day not in dates:
            what = "A column of times names a date that is not a column of dates"
            yield draft.problem(("tables", index, "times", column), what, "Add it to dates")
