"""Exports of a published release: what other libraries read, resumed and repeated."""

from __future__ import annotations

import gzip
import json
import shutil
import signal
import tarfile
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from io import BytesIO
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pydicom
import pytest
from click.testing import CliRunner
from medsanitize.cli import cli
from medsanitize.errors import IntegrityError, UsageError
from medsanitize.progress import Cancellation, Cancelled, NoProgress
from medsanitize.release.exports import nifti
from medsanitize.release.exports.export import Form, export_release
from medsanitize.release.exports.export_folder import open_folder
from medsanitize.release.exports.released_objects import released_objects
from medsanitize.release.exports.shards import shards, write_shards
from medsanitize.release.exports.webdataset import _FORMAT, _member, write_tar

from tests.helpers.hospital import prepare, write_ct
from tests.helpers.synthesis import run_policy

EVERY_FORM = ["webdataset", "huggingface", pytest.param("nifti", marks=pytest.mark.export)]


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release of six slices: two series of two patients."""
    base = tmp_path_factory.mktemp("export")
    for number in range(6):
        position = {"ImagePositionPatient": [0, 0, 2.5 * number], "InstanceNumber": number}
        write_ct(base / f"export/{number}.dcm", number, f"MRN{number // 3}", number // 3, **position)
    assert run_policy(prepare(base)).ending == "published"
    return base / "release"


def export(release: Path, output: Path, form: Form = "webdataset") -> Path:
    export_release(release, output, form, NoProgress(), Cancellation())
    return output


def tree(root: Path) -> dict[str, str]:
    files = (path for path in root.rglob("*") if path.is_file())
    return {path.relative_to(root).as_posix(): sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.mark.parametrize(
    "form", ["webdataset", "huggingface", pytest.param("nifti", marks=pytest.mark.export)]
)
def test_the_same_release_gives_the_same_bytes(form: Form, release: Path, tmp_path: Path) -> None:
    first, second = (tree(export(release, tmp_path / name, form)) for name in ("a", "b"))

    assert first == second


@pytest.mark.parametrize(
    "form", ["webdataset", "huggingface", pytest.param("nifti", marks=pytest.mark.export)]
)
def test_export_json_names_the_release_and_every_file(form: Form, release: Path, tmp_path: Path) -> None:
    output = export(release, tmp_path / "out", form)

    said = json.loads((output / "EXPORT.json").read_text())
    assert said["release"]["digest"] == json.loads((release / "RELEASE.json").read_text())["digest"]
    assert said["files"] == {name: digest for name, digest in tree(output).items() if name != "EXPORT.json"}


def test_a_sample_of_a_webdataset_is_an_object_and_its_description(release: Path, tmp_path: Path) -> None:
    output = export(release, tmp_path / "out")

    with tarfile.open(output / "shard-000000.tar") as tar:
        members = {member.name: tar.extractfile(member).read() for member in tar}  # type: ignore[union-attr]
    assert len(members) == 12
    for name in (name for name in members if name.endswith(".dcm")):
        said = json.loads(members[name.replace(".dcm", ".json")])
        assert said["SOPInstanceUID"] == pydicom.dcmread(BytesIO(members[name])).SOPInstanceUID
        assert said["sha256"] == sha256(members[name]).hexdigest()


def test_parquet_has_the_bytes_and_what_the_header_says(release: Path, tmp_path: Path) -> None:
    output = export(release, tmp_path / "out", "huggingface")

    rows = pq.read_table(output / "data/part-00000.parquet").to_pylist()
    assert len(rows) == 6
    for row in rows:
        data = pydicom.dcmread(BytesIO(row["file"]))
        assert (row["PatientID"], row["file_name"]) == (data.PatientID, f"{data.SOPInstanceUID}.dcm")


@pytest.mark.export
def test_a_series_is_a_volume_with_its_spacing(release: Path, tmp_path: Path) -> None:
    import nibabel

    output = export(release, tmp_path / "out", "nifti")

    (path, _) = sorted(output.rglob("*.nii.gz"))
    volume = nibabel.load(path)
    assert (volume.shape, float(volume.header.get_zooms()[2])) == ((128, 128, 3), 2.5)
    assert json.loads(path.with_name("image.json").read_text())["Modality"] == "CT"


@pytest.mark.export
def test_a_volume_has_no_text_of_the_header(release: Path, tmp_path: Path) -> None:
    output = export(release, tmp_path / "out", "nifti")

    for path in output.rglob("*.nii.gz"):
        header = gzip.decompress(path.read_bytes())[:348]
        data_type, db_name, aux_file = header[4:14], header[14:32], header[228:252]
        assert not (data_type + db_name + aux_file).strip(b"\0")


def test_an_interrupted_export_goes_on(release: Path, tmp_path: Path) -> None:
    stop = Cancellation()

    class StopAfterOneShard(NoProgress):
        def advance(self, objects: int) -> None:
            stop.number = signal.SIGTERM * (objects > 0)

    def write(name: str, progress: NoProgress, cancellation: Cancellation) -> dict[str, str]:
        folder = open_folder(release, tmp_path / name, "webdataset").path
        one_tar = partial(write_tar, release=release, cancellation=cancellation)
        rows = released_objects(release)
        write_shards(rows, lambda n: folder / f"shard-{n:06d}.tar", one_tar, progress, shard_bytes=1)
        return tree(folder)

    with pytest.raises(Cancelled):
        write("out", StopAfterOneShard(), stop)
    assert sorted(path.name for path in (tmp_path / "out").glob("*.tar")) == ["shard-000000.tar"]

    resumed = write("out", NoProgress(), Cancellation())

    shards_of = (name for name in resumed if name.endswith(".tar"))
    assert {name: resumed[name] for name in shards_of} == {
        name: digest
        for name, digest in write("whole", NoProgress(), Cancellation()).items()
        if name.endswith(".tar")
    }


def test_a_folder_with_something_else_is_refused(release: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/notes.txt").write_text("x")

    with pytest.raises(UsageError, match="not empty"):
        export(release, tmp_path / "mine")


def test_a_folder_in_the_release_is_refused(release: Path) -> None:
    with pytest.raises(UsageError, match="in the release"):
        export(release, release / "shards")


def test_a_finished_export_is_not_overwritten(release: Path, tmp_path: Path) -> None:
    export(release, tmp_path / "out")

    with pytest.raises(UsageError, match="already contains an export"):
        export(release, tmp_path / "out", "huggingface")


def test_a_changed_object_stops_the_export(make_release: Callable[..., Path], tmp_path: Path) -> None:
    damaged = make_release(tmp_path / "release", contents=[b"first", b"second"])
    victim = sorted((damaged / "data").rglob("*.dcm"))[1]
    victim.write_bytes(b"sEcond")

    with pytest.raises(IntegrityError, match="missing or changed"):
        export(damaged, tmp_path / "out")
    assert not (tmp_path / "out/EXPORT.json").exists()


def test_a_patient_is_in_one_shard_unless_it_is_larger(release: Path) -> None:
    rows = list(released_objects(release))

    whole = [[one.object_id for one in shard] for shard in shards(rows, rows[0].bytes * 2)]
    divided = list(shards(rows, 1))

    assert whole == [[one.object_id for one in rows[:3]], [one.object_id for one in rows[3:]]]
    assert [len(shard) for shard in divided] == [1] * 6


@pytest.mark.export
def test_objects_without_a_place_in_the_form_are_counted(
    make_release: Callable[..., Path], tmp_path: Path
) -> None:
    made = make_release(tmp_path / "release")

    done = CliRunner().invoke(cli, ["export", "nifti", str(made), str(tmp_path / "out"), "--json"])

    said = json.loads(done.output)
    assert (done.exit_code, said["objects"], sum(said["left_out"].values())) == (1, 0, 6)


@pytest.mark.parametrize(
    ("column", "name"), [("PatientID", "../.."), ("PatientID", "/tmp"), ("object_id", "../x"), ("path", "/x")]
)
def test_a_name_that_leads_out_of_the_folder_stops_the_export(
    column: str, name: str, make_release: Callable[..., Path], tmp_path: Path
) -> None:
    made = make_release(tmp_path / "release")
    for place in (made / "manifest/index.parquet", made / "manifest/objects.parquet"):
        table = pq.read_table(place)
        if column in table.column_names:
            values = pa.array([name, *table[column].to_pylist()[1:]], pa.string())
            table = table.set_column(table.column_names.index(column), table.schema.field(column), values)
            pq.write_table(table, place, write_page_checksum=True)

    with pytest.raises(IntegrityError, match="unsafe name"):
        list(released_objects(made))


def test_a_slide_of_more_than_eight_gigabytes_fits_into_a_tar_file() -> None:
    header = BytesIO(_member("slide.svs", 9 << 30).tobuf(_FORMAT))

    with tarfile.open(fileobj=header) as tar:
        assert tar.next().size == 9 << 30  # type: ignore[union-attr]


@pytest.mark.export
def test_a_volume_has_no_file_that_the_manifest_does_not_have(release: Path, tmp_path: Path) -> None:
    changed = tmp_path / "release"
    shutil.copytree(release, changed)
    for folder in {path.parent for path in (changed / "data").rglob("*.dcm")}:
        data = pydicom.dcmread(sorted(folder.glob("*.dcm"))[0])
        data.SOPInstanceUID += ".9"
        data.file_meta.MediaStorageSOPInstanceUID = data.SOPInstanceUID
        data.ImagePositionPatient, data.InstanceNumber = [0, 0, 250], 99
        data.save_as(folder / "added.dcm")

    assert tree(export(changed, tmp_path / "a", "nifti")) == tree(export(release, tmp_path / "b", "nifti"))


@pytest.mark.export
def test_a_series_whose_conversion_does_not_end_is_left_out(
    release: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nifti, "_SECONDS", 1e-6)

    done = export_release(release, tmp_path / "out", "nifti", NoProgress(), Cancellation())

    assert (done.objects, sum(done.left_out.values())) == (0, 6)
