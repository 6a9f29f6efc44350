"""Loading a policy: what is accepted, and every error with its location and remedy."""

# ruff: noqa: E501  (one refusal a line reads as a table)

from __future__ import annotations

import os
from pathlib import Path

import pytest
from medsanitize.errors import PolicyError, Problem, UsageError
from medsanitize.policies.load import load, loads

BASE = Path("/data/project")

TEN_LINES = """\
version: 1
preset: ps3.15-basic
release: {name: chest-ct, version: "1.0", mode: pseudonymous}
inputs: [./export]
output: ./release
state: ./state
keys: {file: ./release.key}
"""


def problems(text: str) -> list[Problem]:
    with pytest.raises(PolicyError) as caught:
        loads(text, base=BASE)
    return list(caught.value.problems)


def places(text: str) -> list[tuple[int, int, str]]:
    return [(problem.line, problem.column, problem.message) for problem in problems(text)]


def test_a_ten_line_policy_is_valid() -> None:
    policy = loads(TEN_LINES, base=BASE)
    assert policy.release.name == "chest-ct"
    assert policy.release.version == "1.0"
    assert policy.inputs == (BASE / "export",)
    assert (policy.output, policy.state) == (BASE / "release", BASE / "state")
    assert policy.keys.file == BASE / "release.key"
    assert policy.pixels.at_risk == "release"
    assert not any(on for _, on in policy.dicom.options)


def test_paths_are_relative_to_the_policy(tmp_path: Path) -> None:
    file = tmp_path / "sub" / "policy.yaml"
    file.parent.mkdir()
    file.write_text(TEN_LINES.replace("./export", "../export").replace("./state", "/elsewhere/state"))
    policy = load(file)
    assert policy.inputs == (tmp_path / "export",)
    assert policy.output == tmp_path / "sub" / "release"
    assert policy.state == Path("/elsewhere/state")


def test_every_path_is_made_absolute() -> None:
    more = """\
exclude: x.csv
registry: {path: reg}
pseudonyms: {table: p.csv}
tables: [{name: t, file: t.csv, patient: id}]
"""
    text = TEN_LINES.replace(
        "keys: {file: ./release.key}", "keys: {command: [./bin/key, -q], signing: s.key}"
    )
    policy = loads(text + more, base=BASE)
    assert policy.exclude == BASE / "x.csv"
    assert policy.registry.path == BASE / "reg"
    assert policy.pseudonyms.table == BASE / "p.csv"
    assert policy.tables[0].file == BASE / "t.csv"
    assert policy.keys.signing == BASE / "s.key"
    assert policy.keys.command == (str(BASE / "bin/key"), "-q")


def test_a_command_found_on_the_path_remains_a_name() -> None:
    text = TEN_LINES.replace("{file: ./release.key}", "{command: [pass, show, key]}")
    assert loads(text, base=BASE).keys.command == ("pass", "show", "key")


def test_anonymous_release_needs_no_key() -> None:
    text = TEN_LINES.replace("pseudonymous", "anonymous").replace("keys: {file: ./release.key}\n", "")
    assert loads(text, base=BASE).keys.file is None


def test_user_overrides_merge_over_the_preset() -> None:
    more = """\
dicom:
  options: {clean_descriptors: false}
  attributes: {"(0020,4000)": K, StudyDescription: D}
deduplicate: {pixels: fail}
"""
    policy = loads(TEN_LINES.replace("ps3.15-basic", "research") + more, base=BASE)
    assert policy.dicom.options.clean_descriptors is False
    assert policy.dicom.options.retain_longitudinal_modified_dates is True
    assert policy.dicom.attributes["00204000"] == "K"
    assert policy.dicom.attributes["00081030"] == "D"
    assert policy.dicom.attributes["00104000"] == "X"
    assert (policy.deduplicate.bytes, policy.deduplicate.pixels) == ("drop", "fail")


@pytest.mark.parametrize(
    ("name", "mask"),
    [
        ("StudyDescription", "00081030"),
        ("KVP", "00180060"),
        ("'(0008,103E)'", "0008103e"),
        ("'0008103E'", "0008103e"),
        ("60XX3000", "60xx3000"),
        ("'(60xx,0022)'", "60xx0022"),
        ("OverlayDescription", "60xx0022"),
        ("0018xxxx", "0018xxxx"),
    ],
)
def test_attribute_names_become_masks(name: str, mask: str) -> None:
    policy = loads(f"{TEN_LINES}dicom:\n  attributes:\n    {name}: X\n", base=BASE)
    assert policy.dicom.attributes == {mask: "X"}


ATTRIBUTES = TEN_LINES + "dicom:\n  attributes:\n    "


@pytest.mark.parametrize(
    ("name", "message", "remedy"),
    [
        ("StudyDescripton", "Unknown attribute keyword", "Did you mean StudyDescription?"),
        ("'(0008,1030'", "Not an attribute name or tag", "Write a keyword such as"),
        ("'(0029,1010)'", "A private attribute cannot be identified by its block", "Set its private creator"),
        ("'00020016'", "Group 0002 is not part of the data set", "Delete this line"),
    ],
)
def test_unusable_attribute_names(name: str, message: str, remedy: str) -> None:
    (problem,) = problems(f"{ATTRIBUTES}{name}: X\n")
    assert (problem.line, problem.column) == (10, 5)
    assert problem.message.startswith(message)
    assert problem.remedy.startswith(remedy)


def test_one_attribute_under_two_names() -> None:
    text = f"{ATTRIBUTES}StudyDescription: X\n    '(0008,1030)': C\n"
    assert places(text) == [(11, 5, "Duplicate of the attribute in line 10")]


def test_action_for_uids_on_text() -> None:
    assert places(f"{ATTRIBUTES}PatientName: U\n") == [
        (10, 18, "Action U applies only to UIDs; this attribute has another VR")
    ]


def test_unknown_action() -> None:
    (problem,) = problems(f"{ATTRIBUTES}PatientName: Q\n")
    assert (problem.line, problem.column, problem.remedy) == (10, 18, "Write D, Z, X, K, C or U")


@pytest.mark.parametrize(
    ("more", "line", "column", "message", "remedy"),
    [
        ("pixel: {}", 8, 1, "The key 'pixel' is unknown", "Did you mean 'pixels'?"),
        ("pixels: {zz: 1}", 8, 10, "The key 'zz' is unknown", "Known here: at_risk, search, mask, regions, known_devices, readers, handwriting, lossy, faces"),
        ("dicom: {options: {retain_uid: true}}", 8, 19, "The key 'retain_uid' is unknown", "Did you mean 'retain_uids'?"),
        ("engine: {workers: 2.5}", 8, 19, "engine.workers has an invalid value", "Write a whole number"),
        ("engine: {workers: '2'}", 8, 19, "engine.workers has an invalid value", "Write a whole number"),
        ("engine: {workers: true}", 8, 19, "engine.workers has an invalid value", "Write a whole number"),
        ("engine: {workers: 0}", 8, 19, "engine.workers has an invalid value", "Write a number greater than or equal to 1"),
        ("engine: 4", 8, 9, "engine has an invalid value", "Write keys and values, as in {key: value}"),
        ("engine:", 8, 1, "engine has no value", "Write one, or delete the key"),
        ("exclude: 5", 8, 10, "exclude is a text and must be quoted", 'Put it in quotes, as in "1.0"'),
        ("exclude: [a]", 8, 10, "exclude has an invalid value", "Write text, in quotes"),
        ("exclude: ''", 8, 10, "The path is empty", "Set a file or folder, relative to the policy"),
        ("exclude: ~/a.csv", 8, 10, "Paths are not expanded: ~ does not mean the home folder here", "Write the full path"),
        ("exclude: s3://a/b", 8, 10, "A path must be local", "Mount the store, or copy its objects to a folder"),
        ('exclude: "a\\0b"', 8, 10, "The path holds a control character", "Rename the file or folder"),
        ("pixels: {readers: [tesseract]}", 8, 19, "pixels.readers must begin with rapidocr, which finds the text, and name no reader twice", "Write [rapidocr], or [rapidocr, tesseract]"),
        ("pixels: {at_risk: keep}", 8, 19, "pixels.at_risk has an invalid value", "Write release or quarantine"),
        ("tables: {a: b}", 8, 9, "tables has an invalid value", "Write a list, as in [a, b]"),
        ("tables: [{name: a, file: b}]", 8, 10, "The key 'tables.1.patient' is missing", "Add patient and its value"),
        ("dicom: {dates: {keep_weekday: yes}}", 8, 31, "The word is ambiguous between YAML versions", "Write true or false, or put it in quotes"),
        ("pseudonyms: {prefix: 'a b'}", 8, 22, "pseudonyms.prefix has an invalid value", "Write letters, digits and dashes, at most 24"),
        ("dicom: {safe_private: [{creator: A, group: '0028', element: '10', vr: LO}]}", 8, 44, "dicom.safe_private.1.group has an invalid value", "Write four hexadecimal digits of an odd number, in quotes"),
    ],
)  # fmt: skip
def test_refusals(more: str, line: int, column: int, message: str, remedy: str) -> None:
    assert problems(f"{TEN_LINES}{more}\n") == [Problem(line, column, message, remedy)]


@pytest.mark.parametrize(
    ("old", "new", "line", "column", "message"),
    [
        ("version: 1\n", "version: 2\n", 1, 10, "version has an invalid value"),
        ("version: 1\n", 'version: "1"\n', 1, 10, "version has an invalid value"),
        ("version: 1\n", "", 1, 1, "The key 'version' is missing"),
        ("ps3.15-basic", "best", 2, 9, "preset has an invalid value"),
        ('"1.0"', "1.0", 3, 36, "release.version is a text and must be quoted"),
        ("chest-ct", "Chest CT", 3, 17, "release.name has an invalid value"),
        (", mode: pseudonymous", "", 3, 1, "The key 'release.mode' is missing"),
        ("[./export]", "[]", 4, 9, "inputs has an invalid value"),
        ("[./export]", "./export", 4, 9, "inputs has an invalid value"),
        ("{file: ./release.key}", "{}", 7, 7, "The release key has no source"),
        ("{file: ./release.key}", "{file: a, env: B}", 7, 22, "The release key has two sources: keys.file and keys.env"),
        ("{file: ./release.key}", "{file: a, command: [b]}", 7, 26, "The release key has two sources: keys.file and keys.command"),
        ("{file: ./release.key}", "{env: 3-x}", 7, 13, "keys.env has an invalid value"),
        ("./release.key", "./release/key", 7, 14, "keys.file is inside output, which is published"),
        ("./state", "./release/state", 6, 8, "state is inside output"),
        ("output: ./release", "output: ./state/out", 6, 8, "output is inside state"),
        ("./state", "./release", 6, 8, "state is inside output"),
        ("./state", "./export/state", 6, 8, "state is inside an input; inputs are never written to"),
        ("output: ./release", "output: ./export/out", 5, 9, "output is inside an input; inputs are never written to"),
        ("output: ./release", "output: ./export/../export", 5, 9, "output is inside an input; inputs are never written to"),
        ("[./export]", "[./release/x]", 5, 9, "An input is inside output"),
        ("[./export]", "[./export, ./b, export]", 4, 25, "Input 3 is input 1"),
        ("[./export]", "[./export/a, ./export]", 4, 22, "Input 2 overlaps input 1"),
    ],
)  # fmt: skip
def test_refusals_in_the_ten_lines(old: str, new: str, line: int, column: int, message: str) -> None:
    assert places(TEN_LINES.replace(old, new)) == [(line, column, message)]


def test_an_unquoted_version_error_suggests_quoting() -> None:
    (problem,) = problems(TEN_LINES.replace('"1.0"', "1.0"))
    assert problem.remedy == 'Put it in quotes, as in "1.0"'


@pytest.mark.parametrize(
    ("more", "line", "column", "message"),
    [
        ("dicom: {options: {retain_uids: true}}", 8, 32, "An anonymous release cannot keep UIDs: they link to the source"),
        ("pseudonyms: {table: p.csv}", 8, 21, "An anonymous release cannot use an external pseudonym table"),
    ],
)  # fmt: skip
def test_refusals_of_anonymous_releases(more: str, line: int, column: int, message: str) -> None:
    text = TEN_LINES.replace("pseudonymous", "anonymous")
    assert places(f"{text}{more}\n") == [(line, column, message)]


def test_anonymous_release_has_no_project_scope() -> None:
    text = TEN_LINES.replace("pseudonymous", "anonymous").replace(
        "./release.key", "./release.key, scope: project"
    )
    assert places(text) == [(7, 36, "An anonymous release cannot share pseudonyms with other releases")]


def test_full_and_modified_dates_at_once() -> None:
    text = TEN_LINES.replace("ps3.15-basic", "research")
    (problem,) = problems(text + "dicom: {options: {retain_longitudinal_full_dates: true}}\n")
    assert (problem.line, problem.column) == (8, 51)
    assert problem.remedy.startswith("Write retain_longitudinal_modified_dates: false")


def test_weekday_without_a_shift() -> None:
    text = TEN_LINES.replace("ps3.15-basic", "hipaa-safe-harbor")
    found = places(text + "dicom: {dates: {keep_weekday: true}}\n")
    assert found == [(8, 31, "keep_weekday has no effect when only the year is kept")]


@pytest.mark.parametrize(
    ("columns", "what"),
    [
        ("dates: [day], times: {at: night}", "A column of times names a date that is not a column of dates"),
        (
            "dates: [day], times: {a: day, b: day}",
            "Two columns of times name one date, which can move with one of them only",
        ),
        ("dates: [day], times: {day: day}", "A column of times already has another role"),
    ],
)
def test_a_time_of_a_table_has_one_role_and_a_date(columns: str, what: str) -> None:
    more = f"tables: [{{name: labels, file: a.csv, patient: id, {columns}}}]\n"

    assert [text for _, _, text in places(TEN_LINES + more)] == [what]


def test_tables_with_one_name_and_columns_with_two_roles() -> None:
    more = """\
tables:
  - {name: labels, file: a.csv, patient: id, keep: [x, id]}
  - {name: labels, file: b.csv, patient: id}
"""
    assert places(TEN_LINES + more) == [
        (9, 56, "A column of keep already has another role"),
        (10, 12, "Table 2 has the same name as table 1"),
    ]


def test_links_are_resolved_before_paths_are_compared(tmp_path: Path) -> None:
    (tmp_path / "export").mkdir()
    (tmp_path / "alias").symlink_to("export")
    with pytest.raises(PolicyError) as caught:
        loads(TEN_LINES.replace("output: ./release", "output: ./alias/out"), base=tmp_path)
    assert caught.value.problems[0].message.startswith("output is inside an input")


def test_all_problems_at_once_in_order() -> None:
    text = """\
version: 2
preset: reserch
release: {name: A, version: 1.0, mode: secret}
inputs: no
output: [x]
keys: {file: a, file: b, env: C}
dicom: {attributes: {Foo: X}}
extra: 0010
"""
    assert [(line, column) for line, column, _ in places(text)] == [
        (1, 1),  # state is missing
        (1, 10),
        (2, 9),
        (3, 17),
        (3, 29),
        (3, 40),
        (4, 9),
        (5, 9),
        (6, 17),
        (6, 31),
        (7, 22),
        (8, 1),
        (8, 8),
    ]


def test_two_missing_keys_of_one_section_are_both_reported() -> None:
    messages = [
        message for _, _, message in places(TEN_LINES.replace(', version: "1.0", mode: pseudonymous', ""))
    ]
    assert messages == ["The key 'release.mode' is missing", "The key 'release.version' is missing"]


def test_messages_contain_no_values() -> None:
    secret = "hunter2-0123456789abcdef"
    text = TEN_LINES.replace("chest-ct", f"'{secret} !'").replace(
        "{file: ./release.key}", f"{{env: '{secret}'}}"
    )
    text += f"pixels: {{at_risk: {secret}}}\nengine: {{workers: {secret}}}\nexclude: [{secret}]\n{secret * 3}: 1\n"
    with pytest.raises(PolicyError) as caught:
        loads(text, base=BASE)
    assert len(caught.value.problems) == 6
    assert secret not in str(caught.value) + repr(caught.value)


def test_error_text_states_line_column_and_remedy() -> None:
    with pytest.raises(PolicyError) as caught:
        loads(TEN_LINES + "pixel: {}\n", base=BASE)
    assert str(caught.value) == (
        "The policy is invalid:\n  8:1: The key 'pixel' is unknown. Did you mean 'pixels'?."
    )


def test_file_that_is_not_utf_8(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_bytes(TEN_LINES.encode() + b"# caf\xe9\n")
    with pytest.raises(PolicyError) as caught:
        load(file)
    assert caught.value.problems == (Problem(8, 6, "The policy is not UTF-8", "Save it as UTF-8"),)


def test_byte_order_mark_is_accepted(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_bytes(b"\xef\xbb\xbf" + TEN_LINES.encode())
    assert load(file).version == 1


def test_file_over_one_megabyte(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_bytes(TEN_LINES.encode() + b"#" * 1_000_000)
    with pytest.raises(PolicyError) as caught:
        load(file)
    assert caught.value.problems[0].message == "The policy is larger than 1 MB"


@pytest.mark.parametrize("name", ["missing.yaml", "."])
def test_unreadable_policy(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError) as caught:
        load(tmp_path / name)
    assert "medsanitize init" in str(caught.value)
    assert str(tmp_path) not in str(caught.value)


@pytest.mark.parametrize("address", ["head.example.org:6379", "10.0.0.1:6379", "[fd00::1]:6379"])
def test_a_cluster_head_is_host_and_port(address: str) -> None:
    assert (
        loads(TEN_LINES + f'engine: {{kind: ray, address: "{address}"}}\n', base=BASE).engine.address
        == address
    )


@pytest.mark.parametrize("address", ["ray://head:10001", "fd00::1:6379", "[head]:6379", "head", "[::1]"])
def test_a_head_without_host_and_port_is_rejected(address: str) -> None:
    with pytest.raises(PolicyError):
        loads(TEN_LINES + f'engine: {{kind: ray, address: "{address}"}}\n', base=BASE)


def test_relative_base_is_resolved_from_the_working_directory() -> None:
    assert loads(TEN_LINES, base=Path(".")).output == Path(os.getcwd()) / "release"
