"""Slides in a run: one object of any number of files, cleaned, audited, listed, compared."""

from __future__ import annotations

import base64
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import ModuleType

import openslide
import pydicom
import pytest
from medsanitize.errors import UsageError
from medsanitize.pipeline.evidence import CONTROLLER_REPORT
from medsanitize.pipeline.jobs.export_ledger import audit_with_state, export_ledger
from medsanitize.pipeline.plan import plan
from medsanitize.pipeline.run import Options, run
from medsanitize.pipeline.runtime import optional_dependencies
from medsanitize.pipeline.runtime.result import RunResult
from medsanitize.pipeline.stages import audit
from medsanitize.pipeline.stages.register import register
from medsanitize.pipeline.storage.sources import walk
from medsanitize.policies.model import Policy
from medsanitize.release.manifest import ObjectRow, read_rows
from medsanitize.release.registry import DATABASE, Registry
from medsanitize.release.verify import verify_release
from medsanitize.verifiers.leaks.audit import audit_release
from medsanitize.verifiers.leaks.pixel_digest import pixel_digest

from tests.helpers import slides
from tests.helpers.hospital import CANARIES, prepare, write_ct
from tests.helpers.slide_exports import fill, save

pytestmark = pytest.mark.wsi

ONE = Options(workers=1)


def slides_of(policy: Policy) -> dict[str, ObjectRow]:
    return {str(row.slide_vendor): row for row in read_rows(policy.output) if row.kind == "slide"}


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Policy, RunResult]:
    base = tmp_path_factory.mktemp("slides")
    policy = prepare(base)
    fill(policy.inputs[0])
    return policy, run(policy, ONE)


def test_a_slide_of_several_files_is_one_object(ran: tuple[Policy, RunResult]) -> None:
    policy, result = ran
    assert result.outcomes == {"released": 5, "dropped": 0, "quarantined": 0}
    assert (result.ending, verify_release(policy.output, key=None).status) == ("published", "intact")
    assert audit_release(policy.output).findings == ()


def test_slides_of_several_files_in_a_container_are_those_of_a_folder(
    ran: tuple[Policy, RunResult], tmp_path: Path
) -> None:
    fill(tmp_path / "made")
    policy = prepare(tmp_path)
    (tmp_path / "export").mkdir(exist_ok=True)
    shutil.make_archive(str(tmp_path / "export" / "slides"), "zip", tmp_path / "made")
    result = run(policy, ONE)
    assert (result.outcomes["released"], result.dropped) == (5, {"container-opened": 1})
    digests = [sorted(row.sha256 for row in read_rows(one.output)) for one in (policy, ran[0])]
    assert digests[0] == digests[1]


def test_the_manifest_describes_a_slide(ran: tuple[Policy, RunResult]) -> None:
    row = slides_of(ran[0])["aperio"]
    assert row.path == f"data/{row.patient}/+none/+none/{row.instance}.svs"
    assert (row.slide_levels, row.slide_mpp, row.slide_objective) == ("256x256,128x128", 0.5, 20.0)
    assert (row.kind, row.modality, row.rows, row.columns, row.pixels_sha256) == (
        "slide",
        "SM",
        256,
        256,
        None,
    )


def test_every_file_of_a_slide_is_in_the_checksums(ran: tuple[Policy, RunResult]) -> None:
    row = slides_of(ran[0])["mirax"]
    folder = row.path.removesuffix(".mrxs")
    lines = (ran[0].output / "SHA256SUMS").read_text().splitlines()
    names = {line[66:] for line in lines if line[66:].startswith(folder)}
    assert {f"{folder}.mrxs", f"{folder}/Slidedat.ini", f"{folder}/Index.dat"} < names
    sizes = sum((ran[0].output / name).stat().st_size for name in names)
    assert sizes == row.bytes


def test_a_viewer_shows_the_same_image_as_before(ran: tuple[Policy, RunResult]) -> None:
    for kind, vendor in (
        ("aperio", "aperio"),
        ("vms", "hamamatsu"),
        ("mirax", "mirax"),
        ("trestle", "trestle"),
    ):
        source = next(
            found for found in (ran[0].inputs[0] / kind).iterdir() if openslide.OpenSlide.detect_format(found)
        )
        with (
            openslide.OpenSlide(source) as old,
            openslide.OpenSlide(ran[0].output / slides_of(ran[0])[vendor].path) as new,
        ):
            assert old.level_dimensions == new.level_dimensions
            size = old.level_dimensions[0]
            assert old.read_region((0, 0), 0, size).tobytes() == new.read_region((0, 0), 0, size).tobytes()


def test_no_marker_and_no_file_name_remains_in_any_byte(ran: tuple[Policy, RunResult]) -> None:
    needles = [slides.MARKER.encode(), slides.MARKER.encode("utf-16-le"), CANARIES[0].encode(), b"2026:03:14"]
    needles.append(base64.b64encode(slides.MARKER.encode())[:-4])
    for path in (*ran[0].output.rglob("*"), *ran[0].state.rglob("*")):
        content = path.read_bytes() if path.is_file() else b""
        assert not any(needle in content + str(path).encode() for needle in needles), path.name


def test_the_ledger_maps_original_to_released_slides(ran: tuple[Policy, RunResult], tmp_path: Path) -> None:
    export_ledger(ran[0], uids=tmp_path / "uids.csv", patients=None)
    row = slides_of(ran[0])["aperio"]
    assert f"S26-{CANARIES[0]}-1234.svs,{row.instance}" in (tmp_path / "uids.csv").read_text()


def test_a_run_is_deterministic(ran: tuple[Policy, RunResult], tmp_path: Path) -> None:
    policy, first = ran
    other = policy.model_copy(update={"output": tmp_path / "out2", "state": tmp_path / "state2"})
    assert run(other, Options(workers=2)).digest == first.digest


def test_a_missing_file_quarantines_the_whole_slide(tmp_path: Path) -> None:
    policy = prepare(tmp_path)
    found = fill(policy.inputs[0], ("mirax", "vms"))
    (found["mirax"].with_suffix("") / "Index.dat").unlink()
    (found["vms"].parent / "a.jpg").unlink()
    result = plan(policy, ONE)
    assert result.outcomes == {"released": 0, "dropped": 0, "quarantined": 2}
    assert result.quarantined == {"slide-file-missing": 2}


@pytest.mark.parametrize(("action", "outcome"), [("drop", "dropped"), ("quarantine", "quarantined")])
def test_a_policy_can_exclude_slides(tmp_path: Path, action: str, outcome: str) -> None:
    policy = prepare(tmp_path, wsi=f"{{action: {action}}}")
    fill(policy.inputs[0])
    assert getattr(plan(policy, ONE), outcome) == {"slide": 5}


def test_a_file_claimed_by_a_slide_is_not_its_part(tmp_path: Path) -> None:
    write_ct(tmp_path / "in" / "ct.dcm", 1)
    (tmp_path / "in" / "x.vms").write_text(
        "[Virtual Microscope Specimen]\nMapFile=../in/ct.dcm\nImageFile=/etc/x\n"
    )
    found = list(walk((tmp_path / "in",)))
    assert [(Path(one.path.decode()).name, one.parts) for one in found] == [("ct.dcm", ()), ("x.vms", ())]


# -- lists of channels --------------------------------------------------------------------


def fill_afi(root: Path, *channels: str) -> Path:
    """A channel list in a folder: files of these names that are slides with different pixels."""
    root.mkdir(parents=True, exist_ok=True)
    makers = (slides.aperio, slides.aperio_gt450)
    for name, make in zip(channels, makers, strict=False):
        (root / name).write_bytes(bytes(make().data))
    listed = "".join(f"<Image><Path>{name}</Path><ID>{slides.MARKER}</ID></Image>" for name in channels)
    main = root / f"S26-{CANARIES[0]}-1234.afi"
    main.write_text(f"<ImageList>{listed}</ImageList>")
    return main


def test_a_list_of_channels_and_its_slides_are_one_object(tmp_path: Path) -> None:
    policy = prepare(tmp_path)
    fill_afi(policy.inputs[0], f"{CANARIES[1]}_DAPI.svs", f"{CANARIES[1]}_other.svs")
    result = run(policy, ONE)
    row = slides_of(policy)["aperio"]
    assert (result.ending, result.outcomes["released"]) == ("published", 1)
    assert row.path.endswith(f"{row.instance}.afi")
    listed = (policy.output / row.path).read_text()
    stem = (policy.output / row.path).with_suffix("")
    for name in (f"{stem.name}_1_DAPI.svs", f"{stem.name}_2.svs"):
        assert f"<Path>{name}</Path>" in listed
        assert openslide.OpenSlide.detect_format(stem.parent / name) == "aperio"
    assert audit_release(policy.output).findings == ()
    everything = b"".join(path.read_bytes() for path in policy.output.rglob("*") if path.is_file())
    assert not any(one.encode() in everything for one in (*CANARIES, slides.MARKER))


def test_the_ledger_maps_original_to_released_channels(tmp_path: Path) -> None:
    policy = prepare(tmp_path)
    fill_afi(policy.inputs[0], "one_FITC.svs", "two.svs")
    run(policy, ONE)
    export_ledger(policy, uids=tmp_path / "uids.csv", patients=None)
    told, instance = (tmp_path / "uids.csv").read_text(), slides_of(policy)["aperio"].instance
    assert f"one_FITC.svs,{instance}_1_FITC.svs" in told
    assert f"S26-{CANARIES[0]}-1234.afi,{instance}\n" in told.replace("\r", "")


@pytest.mark.parametrize(
    ("missing", "rule"),
    [("gone.svs", "slide-file-missing"), ("../far/b.svs", "slide-file-elsewhere"), ("ct.dcm", "")],
)
def test_a_channel_list_with_a_missing_file_is_quarantined(tmp_path: Path, missing: str, rule: str) -> None:
    policy = prepare(tmp_path)
    root = policy.inputs[0]
    fill_afi(root / "near", "a.svs").write_text(
        f"<ImageList><Path>a.svs</Path><Path>{missing}</Path></ImageList>"
    )
    fill_afi(root / "far", "b.svs").unlink()
    write_ct(root / "near" / "ct.dcm", 1)
    result = plan(policy, ONE)
    assert result.outcomes == {"released": 2, "dropped": 0, "quarantined": 1}
    assert result.quarantined == {rule or "slide-file-missing": 1}


def test_a_channel_list_without_input_files_is_quarantined(tmp_path: Path) -> None:
    policy = prepare(tmp_path)
    fill_afi(policy.inputs[0]).write_text("<ImageList><Path>a.svs</Path><Path>b.svs</Path></ImageList>")
    assert plan(policy, ONE).quarantined == {"slide-file-missing": 1}


@pytest.mark.parametrize(("verdict", "left"), [("flag", [".afi", ".svs"]), ("drop", [".afi"])])
def test_a_channel_is_found_in_its_list_and_on_its_own(tmp_path: Path, verdict: str, left: list[str]) -> None:
    policy = prepare(tmp_path, deduplicate=f"{{pixels: {verdict}}}")
    fill_afi(policy.inputs[0] / "a", "a_DAPI.svs", "b_FITC.svs")
    (policy.inputs[0] / "a" / "b_FITC.svs").write_bytes(bytes(slides.aperio(7).data))
    save(slides.aperio(), policy.inputs[0] / "z", "alone")
    assert run(policy, ONE).ending == "published"
    rows = [row for row in read_rows(policy.output) if row.kind == "slide"]
    assert sorted(Path(row.path).suffix for row in rows) == left
    assert {row.check_duplicates for row in rows} == {"flagged" if verdict == "flag" else "passed"}


def test_a_table_can_assign_a_list_by_its_channels(tmp_path: Path) -> None:
    policy = prepare(tmp_path, wsi="{specimens: {file: ./specimens.csv, slide: f, patient: p, stain: st}}")
    fill_afi(policy.inputs[0], "a_DAPI.svs", "b_FITC.svs")
    write_ct(policy.inputs[0] / "ct.dcm", 1)
    (tmp_path / "specimens.csv").write_text(
        f"f,p,st\na_DAPI.svs,{CANARIES[1]},DAPI\nb_FITC.svs,{CANARIES[1]},GFAP\n"
    )
    run(policy, ONE)
    ct = next(row for row in read_rows(policy.output) if row.kind == "dicom")
    assert (slides_of(policy)["aperio"].patient, slides_of(policy)["aperio"].slide_stain) == (
        ct.patient,
        None,
    )


def test_a_table_that_assigns_channels_to_two_patients_is_rejected(tmp_path: Path) -> None:
    policy = prepare(tmp_path, wsi="{specimens: {file: ./specimens.csv, slide: f, patient: p}}")
    fill_afi(policy.inputs[0], "a_DAPI.svs", "b_FITC.svs")
    (tmp_path / "specimens.csv").write_text("f,p\na_DAPI.svs,one\nb_FITC.svs,two\n")
    with pytest.raises(UsageError, match="one slide different specimens"):
        run(policy, ONE)


# -- damage -------------------------------------------------------------------------------


def cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def flipped(data: bytes) -> bytes:
    start = 16 if data.startswith(b"ZISRAW") else 4
    return data[:start] + bytes(255 - one for one in data[start : start + 80]) + data[start + 80 :]


@pytest.mark.parametrize("damage", [cut, flipped])
def test_damaged_slides_are_quarantined_and_never_dropped(
    tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    policy = prepare(tmp_path)
    for path in fill(policy.inputs[0], ("aperio", "hamamatsu", "leica", "philips", "ome", "zeiss")).values():
        path.write_bytes(damage(path.read_bytes()))
    assert plan(policy, ONE).outcomes == {"released": 0, "dropped": 0, "quarantined": 6}


@pytest.fixture
def tasks(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    # Workers import a task by the name of its module.
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "helpers")
    return import_module("engine_tasks")


def test_a_crashing_viewer_quarantines_only_the_slide(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tasks: ModuleType
) -> None:
    policy = prepare(tmp_path)
    fill(policy.inputs[0], ("aperio", "leica"))
    write_ct(policy.inputs[0] / "ct.dcm", 1)
    monkeypatch.setattr(audit, "audit_batch", tasks.audit_with_a_viewer_that_crashes)
    result = run(policy, ONE)
    assert (result.ending, result.quarantined) == ("published", {"audit:worker-died": 1})
    assert set(slides_of(policy)) == {"leica"}
    assert len(list(policy.output.rglob("*.dcm"))) == 1
    assert not list(policy.output.rglob("*.svs"))


def test_specimen_identifiers_of_slides_become_pseudonyms(tmp_path: Path) -> None:
    policy = prepare(
        tmp_path,
        wsi="{specimens: {file: ./specimens.csv, slide: f, patient: p, sample: s, block: b, stain: st}}",
    )
    fill(policy.inputs[0], ("aperio", "leica", "zeiss"))
    write_ct(policy.inputs[0] / "ct.dcm", 1)
    name = f"S26-{CANARIES[0]}-1234"
    (tmp_path / "specimens.csv").write_text(
        "f,p,s,b,st\n"
        f"aperio/{name}.svs,{CANARIES[1]},SAMPLE-77,B-1,H and E\n"
        f"leica/{name}.scn,{CANARIES[1]},SAMPLE-77,B-2,{CANARIES[0]}\n"
    )
    assert run(policy, ONE).ending == "published"
    rows = slides_of(policy)
    ct = next(row for row in read_rows(policy.output) if row.kind == "dicom")
    assert rows["aperio"].patient == rows["leica"].patient == ct.patient != rows["zeiss"].patient
    assert rows["aperio"].slide_sample == rows["leica"].slide_sample is not None
    assert rows["aperio"].slide_block != rows["leica"].slide_block
    assert [rows[one].slide_stain for one in ("aperio", "leica")] == ["H&E", None]
    table = (policy.output / "manifest" / "objects.parquet").read_bytes()
    assert b"SAMPLE-77" not in table


def test_slides_of_excluded_patients_are_dropped(tmp_path: Path) -> None:
    policy = prepare(
        tmp_path, wsi="{specimens: {file: ./specimens.csv, slide: f, patient: p}}", exclude="./exclude.csv"
    )
    fill(policy.inputs[0], ("aperio",))
    (tmp_path / "specimens.csv").write_text(f"f,p\naperio/S26-{CANARIES[0]}-1234.svs,{CANARIES[1]}\n")
    (tmp_path / "exclude.csv").write_text(f"patient_id\n{CANARIES[1]}\n")
    assert plan(policy, ONE).dropped == {"consent": 1}


def test_copies_of_a_slide_are_found_despite_different_metadata(tmp_path: Path) -> None:
    policy = prepare(tmp_path)
    root = policy.inputs[0]
    found = fill(root, ("aperio", "generic", "leica"))
    shutil.copy(found["aperio"], root / "again.svs")
    result = run(policy, ONE)
    assert result.dropped == {"duplicate-bytes": 1}
    assert {row.check_duplicates for row in slides_of(policy).values()} == {"flagged"}


def test_slides_without_the_extra_are_an_error_before_sanitizing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = prepare(tmp_path)
    fill(policy.inputs[0], ("aperio",))
    monkeypatch.setitem(optional_dependencies.MODULES, "wsi", ("openslide_that_is_not_there",))
    with pytest.raises(UsageError, match="'wsi'"):
        run(policy, ONE)
    assert not list(policy.output.rglob("*.svs"))


def test_auditing_slides_requires_the_extra(
    ran: tuple[Policy, RunResult], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = ran[0].output
    monkeypatch.setitem(optional_dependencies.MODULES, "wsi", ("openslide_that_is_not_there",))

    with pytest.raises(UsageError, match=r"medsanitize\[wsi\]"):
        audit_with_state(str(release), None)
    with pytest.raises(UsageError, match=r"medsanitize\[wsi\]"):
        register(release, Registry(tmp_path / "registry"))

    assert verify_release(release, key=None).status == "intact"


def slide_instance(path: Path, kind: str, **changes: object) -> None:
    data = pydicom.dcmread(write_ct(path, 1, **changes))
    data.SOPClassUID = data.file_meta.MediaStorageSOPClassUID = "1.2.840.10008.5.1.4.1.1.77.1.6"
    data.Modality, data.ContentTime = "SM", "133755.4"
    data.ImageType = ["ORIGINAL", "PRIMARY", kind, "NONE"] if kind else None
    data.LabelText = data.BarcodeValue = data.ContainerIdentifier = CANARIES[1]
    data.save_as(path)


@pytest.mark.parametrize(
    ("kind", "changes", "outcome"),
    [
        ("VOLUME", {}, "released"),
        ("THUMBNAIL", {}, "released"),
        ("LABEL", {}, "dropped"),
        ("OVERVIEW", {}, "dropped"),
        ("VOLUME", {"SpecimenLabelInImage": "YES"}, "dropped"),
        ("SOMETHING", {}, "quarantined"),
        ("", {"SpecimenLabelInImage": "NO"}, "released"),
        ("", {}, "quarantined"),
    ],
)
def test_pictures_of_dicom_slides_are_handled_by_their_content(
    tmp_path: Path, kind: str, changes: dict[str, str], outcome: str
) -> None:
    policy = replace_options(prepare(tmp_path))
    slide_instance(policy.inputs[0] / "a.dcm", kind, **changes)
    assert plan(policy, ONE).outcomes[outcome] == 1


def replace_options(policy: Policy) -> Policy:
    """The policy with shifted dates, as in research."""
    options = policy.dicom.options.model_copy(update={"retain_longitudinal_modified_dates": True})
    return policy.model_copy(update={"dicom": policy.dicom.model_copy(update={"options": options})})


def test_a_dicom_slide_keeps_neither_times_nor_label(tmp_path: Path) -> None:
    policy = replace_options(prepare(tmp_path))
    slide_instance(policy.inputs[0] / "a.dcm", "VOLUME")
    assert run(policy, replace(ONE, workers=1)).ending == "published"
    released = next(policy.output.rglob("*.dcm")).read_bytes()
    assert b"133755.4" not in released
    assert CANARIES[1].encode() not in released


def test_the_registry_finds_a_slide_of_an_earlier_release_in_another_container(tmp_path: Path) -> None:
    first = prepare(tmp_path, registry="{path: ./registry}")
    fill(first.inputs[0], ("aperio",))
    assert run(first, ONE).ending == "published"
    shutil.move(tmp_path / "export", tmp_path / "before")
    release = first.release.model_copy(update={"name": "other"})
    update = {"release": release, "output": tmp_path / "out2", "state": tmp_path / "state2"}
    second = first.model_copy(update=update)
    fill(second.inputs[0], ("generic",))
    run(second, ONE)
    assert slides_of(second)["generic-tiff"].check_registry == "flagged"


def save_dicom(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    slides.dicom().save_as(path, enforce_file_format=True)


@pytest.mark.parametrize(
    ("verdict", "left", "flagged"),
    [
        ("flag", ["dicom", "slide", "slide"], ["dicom", "slide"]),
        ("drop", ["dicom", "slide"], []),
        ("quarantine", ["slide"], []),
    ],
)
def test_the_same_tiles_are_found_in_a_vendors_file_and_in_dicom(
    tmp_path: Path, verdict: str, left: list[str], flagged: list[str]
) -> None:
    policy = prepare(tmp_path, deduplicate=f"{{pixels: {verdict}}}")
    fill(policy.inputs[0], ("aperio",))
    save_dicom(policy.inputs[0] / "a.dcm")
    save(slides.aperio(7), policy.inputs[0], "other")
    run(policy, ONE)
    rows = list(read_rows(policy.output))
    assert sorted(row.kind for row in rows) == left
    assert sorted(row.kind for row in rows if row.check_duplicates == "flagged") == flagged
    report = (policy.state / CONTROLLER_REPORT).read_text()
    assert ("has the same tiles as" in report) == (verdict == "flag")


def test_dicom_tiles_do_not_change_the_pixel_digest_in_the_manifest(tmp_path: Path) -> None:
    policy = prepare(tmp_path)
    save_dicom(policy.inputs[0] / "a.dcm")
    run(policy, ONE)
    row = next(iter(read_rows(policy.output)))
    assert row.pixels_sha256 == pixel_digest(policy.output / row.path)


@pytest.mark.parametrize("turned", [False, True])
def test_the_registry_matches_scans_between_vendor_format_and_dicom(tmp_path: Path, turned: bool) -> None:
    first = prepare(tmp_path, registry="{path: ./registry}")
    root = first.inputs[0]
    fills = [lambda: save_dicom(root / "a.dcm"), lambda: fill(root, ("generic",))]
    (fills[turned])()
    assert run(first, ONE).ending == "published"
    shutil.move(tmp_path / "export", tmp_path / "before")
    release = first.release.model_copy(update={"name": "other"})
    update = {"release": release, "output": tmp_path / "out2", "state": tmp_path / "state2"}
    second = first.model_copy(update=update)
    (fills[not turned])()
    run(second, ONE)
    assert [row.check_registry for row in read_rows(second.output)] == ["flagged"]


def test_manually_added_dicom_slides_have_the_tiles_of_their_run(tmp_path: Path) -> None:
    policy = prepare(tmp_path)
    save_dicom(policy.inputs[0] / "a.dcm")
    fill_afi(policy.inputs[0], "a_DAPI.svs", "b_FITC.svs")
    run(policy, ONE)
    register(policy.output, Registry(tmp_path / "by-hand"))
    by_hand, by_run = (digests(folder) for folder in (tmp_path / "by-hand", policy.state / "registry"))
    assert by_hand == by_run
    assert len(by_hand["by_pixels"]) == 3


def test_a_manually_added_release_has_the_same_registry_entries(
    ran: tuple[Policy, RunResult], tmp_path: Path
) -> None:
    policy, _ = ran
    register(policy.output, Registry(tmp_path))
    by_hand, by_run = (digests(folder) for folder in (tmp_path, policy.state / "registry"))
    assert by_hand == by_run
    assert by_hand["by_pixels"]


def digests(registry: Path) -> dict[str, list[bytes]]:
    """Digests that a registry compares, by bytes and by pixels or tiles."""
    with closing(sqlite3.connect(registry / DATABASE)) as db:
        bytes_, tiles = "SELECT digest FROM by_bytes", "SELECT digest FROM by_pixels"
        found = {"by_bytes": bytes_, "by_pixels": tiles}
        return {name: [row[0] for row in db.execute(query)] for name, query in found.items()}
