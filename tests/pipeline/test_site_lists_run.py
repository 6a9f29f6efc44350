"""A run with lists of the site: never-words are cut, safe words stay, a changed list sanitizes again."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pydicom
import pytest
from medsanitize import Deidentifier, ReleaseKey
from medsanitize.errors import PolicyError
from medsanitize.pipeline.jobs.export_ledger import audit_with_state
from medsanitize.pipeline.plan import plan
from medsanitize.pipeline.run import Options, run
from medsanitize.policies.model import Policy
from medsanitize.progress import NoProgress
from medsanitize.release.manifest import read_policy_digest

from tests.helpers.hospital import prepare, write_ct

ONE = Options(workers=1)
NEVER = "Kaltenbrunner  # reads MR\nHaus Abendsonne\nChest Axial Lung\nQuixleyvane, Abcd\n"
SAFE = "MRT Werner\nZorbex 4711\nQUIXLEYVANE\n"
STUDIES = {
    1: ("CT chest Kaltenbrunner", "CT chest"),
    2: ("CT chest by Kaltenbruners", "CT chest by"),
    3: ("HAUS ABENDSONE THORAX", "THORAX"),
    4: ("MRT Werner Zorbex 4711 chest", "MRT Werner Zorbex 4711 chest"),
    5: ("CT chest Quixleyvane", "CT chest"),
}
QUICK = {
    "preset": "research",
    "dicom": "{options: {clean_pixel_data: false}}",
    "pixels": "{at_risk: release, faces: ignore}",
}


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """An export of five studies, with both lists beside it."""
    for number, (description, _) in STUDIES.items():
        write_ct(
            tmp_path / f"export/{number}.dcm",
            number,
            f"P{number}",
            number,
            StudyDescription=description,
            SeriesDescription="CHEST AXIAL LUNG",
        )
    (tmp_path / "never.txt").write_text(NEVER)
    (tmp_path / "safe.txt").write_text(SAFE)
    return tmp_path


def policy(site: Path, text: str = "deny_list: ./never.txt, allow_list: ./safe.txt", **more: str) -> Policy:
    return prepare(site, text=f"{{{text}}}", **{**QUICK, **more})


def released(policy: Policy) -> list[pydicom.Dataset]:
    assert isinstance(policy.output, Path)
    return [pydicom.dcmread(path) for path in sorted(policy.output.rglob("*.dcm"))]


def descriptions(policy: Policy) -> set[str]:
    return {str(one.get("StudyDescription", "")) for one in released(policy)}


def test_never_words_are_cut_and_safe_words_stay(site: Path) -> None:
    own = policy(site)
    assert run(own, ONE).ending == "published"
    assert descriptions(own) == {left for _, left in STUDIES.values()}
    assert all("SeriesDescription" not in one or not one.SeriesDescription for one in released(own))


def test_the_vocabulary_filter_applies_the_same_lists(site: Path) -> None:
    own = policy(site, "action: keep-vocabulary, deny_list: ./never.txt, allow_list: ./safe.txt")
    run(own, ONE)
    assert "MRT Werner Zorbex 4711 chest" in descriptions(own)
    assert not any("kaltenbr" in text.lower() or "quix" in text.lower() for text in descriptions(own))
    assert all("SeriesDescription" not in one or not one.SeriesDescription for one in released(own))


def test_the_state_and_the_release_contain_no_entry(site: Path) -> None:
    own = policy(site)
    run(own, ONE)
    assert isinstance(own.output, Path)
    for root in (own.output, own.state):
        for path in root.rglob("*"):
            content = path.read_bytes() if path.is_file() else b""
            assert b"Kaltenbrunner" not in content
            assert b"Abendsonne" not in content


def test_a_changed_list_sanitizes_again_and_a_changed_comment_does_not(site: Path) -> None:
    own = policy(site, release='{name: chest-ct, version: "1.0", mode: pseudonymous, approve: required}')
    messages: list[str] = []

    class Listener(NoProgress):
        def message(self, text: str) -> None:
            messages.append(text)

    assert run(own, ONE).ending == "awaiting_approval"
    (site / "never.txt").write_text("# our staff\n" + NEVER.replace("# reads MR", "# reads CT"))
    run(own, ONE, progress=Listener())
    assert messages == []
    (site / "never.txt").write_text(NEVER + "Thorax\n")
    result = run(own, ONE, progress=Listener())
    assert messages == ["Starting again: the policy or one of its lists has changed since the last run."]
    assert result.ending == "awaiting_approval"


def test_an_inline_list_gives_the_same_release_as_a_file(site: Path) -> None:
    by_file = policy(site)
    run(by_file, ONE)
    entries = ", ".join(f'"{line.partition("  #")[0]}"' for line in NEVER.splitlines())
    inline = policy(site, f"deny_list: [{entries}], allow_list: ./safe.txt", output="./other", state="./s2")
    run(inline, ONE)
    assert isinstance(by_file.output, Path)
    assert isinstance(inline.output, Path)
    assert read_policy_digest(by_file.output) == read_policy_digest(inline.output)
    assert descriptions(inline) == descriptions(by_file)


def test_an_invalid_list_stops_a_run_before_it_reads_an_input(site: Path) -> None:
    (site / "never.txt").write_text("Kaltenbrunner\nx\n")
    own = policy(site)
    for start in (run, plan):
        with pytest.raises(PolicyError) as caught:
            start(own, ONE)
        assert "2:1: The entry is a single character" in str(caught.value)
    assert not (site / "state").exists()


def test_the_audit_refuses_a_release_that_still_contains_a_never_word(site: Path) -> None:
    hidden = b"Kaltenbrunner"
    data = pydicom.dcmread(site / "export/1.dcm")
    data.PixelData = hidden + b"\0" + data.PixelData[len(hidden) + 1 :]
    data.save_as(site / "export/1.dcm")
    result = run(policy(site, audit="{in_pixels: refuse}"), ONE)
    assert result.ending == "refused"
    assert {gate.name for gate in result.gates if gate.result == "failed"} == {"residual identifiers"}


def test_cells_of_tables_with_a_never_word_are_emptied(site: Path) -> None:
    rows = "id,finding\nP1,effusion\nP2,seen by kaltenbrunners\n"
    (site / "labels.csv").write_text(rows)
    table = "[{name: labels, file: ./labels.csv, patient: id, keep: [finding]}]"
    own = policy(site, tables=table)
    assert run(own, ONE).ending == "published"
    assert isinstance(own.output, Path)
    kept = pq.read_table(own.output / "tables/labels.parquet").column("finding").to_pylist()
    assert sorted(kept, key=str) == [None, "effusion"]


def test_ordinary_and_short_never_words_and_the_own_institution_never_stop_a_release(site: Path) -> None:
    (site / "never.txt").write_text(NEVER + "Thorax\nCT\nModel\nSiemens\nWaldhausklinikum Zorb\n")
    creator = "creator: {name: Waldhausklinikum Zorb}"
    own = policy(site, release=f'{{name: ct, version: "1", mode: pseudonymous, {creator}}}')
    assert run(own, ONE).ending == "published"
    assert not any("CT" in text or "THORAX" in text for text in descriptions(own))


def test_a_later_audit_searches_for_never_words(site: Path) -> None:
    own = policy(site)
    run(own, ONE)
    assert isinstance(own.output, Path)
    (site / "never.txt").write_text(NEVER + "Longimpossibleword\n")
    assert audit_with_state(str(own.output), own).passed
    (own.output / "README.txt").write_text("by Longimpossibleword")
    rules = {finding.rule for _, finding in audit_with_state(str(own.output), own).findings}
    assert "audit:institution" in rules


def test_single_objects_are_cleaned_with_the_lists(site: Path) -> None:
    policy(site)
    deidentify = Deidentifier(site / "policy.yaml", ReleaseKey.generate())
    result = deidentify(site / "export/2.dcm")
    assert result.dataset.StudyDescription == "CT chest by"
