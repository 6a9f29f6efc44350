"""A release is sent completely, unchanged and once to a real archive."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path

import pydicom
import pytest
from click.testing import CliRunner
from medsanitize.cli import cli
from medsanitize.errors import EnvironmentFailure, IntegrityError, UsageError
from medsanitize.pipeline.jobs.send_to_pacs import SendResult, send
from medsanitize.pipeline.run import Options, run
from medsanitize.progress import Cancellation, Cancelled, NoProgress
from medsanitize.release.manifest import read_rows

from tests.helpers.hospital import prepare
from tests.helpers.orthanc import VARIABLE, Orthanc

LOGIN = ("login", VARIABLE)


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory, hospital: Path) -> Path:
    policy = prepare(tmp_path_factory.mktemp("release"), inputs=f"[{hospital}]")
    run(policy, Options(workers=1))
    return Path(policy.output)


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Orthanc]:
    """An initially empty Orthanc."""
    one = Orthanc(tmp_path_factory.mktemp("receiver"))
    one.start()
    yield one
    one.kill()


@pytest.fixture
def sends(release: Path, archive: Orthanc) -> Callable[..., SendResult]:
    """Send the release by one protocol, web or dimse, to the emptied archive."""
    archive.empty()

    def way(how: str, stop: Cancellation | None = None) -> SendResult:
        if how == "web":
            return send(release, archive.web, NoProgress(), stop or Cancellation(), credential=LOGIN)
        return send(release, archive.peer, NoProgress(), stop or Cancellation())

    return way


def instances(release: Path) -> set[str]:
    return {row.instance for row in read_rows(release)}


@pytest.mark.parametrize("how", ["web", "dimse"])
def test_every_object_of_a_release_is_sent(
    how: str, sends: Callable[..., SendResult], release: Path, archive: Orthanc
) -> None:
    sent = sends(how)
    assert (sent.sent, set(archive.objects())) == (sent.objects, instances(release))


def test_stow_sends_the_released_file_byte_for_byte(
    sends: Callable[..., SendResult], release: Path, archive: Orthanc
) -> None:
    sends("web")
    assert set(archive.objects().values()) == {
        (release / row.path).read_bytes() for row in read_rows(release)
    }


def test_dimse_keeps_the_transfer_syntax(
    sends: Callable[..., SendResult], release: Path, archive: Orthanc
) -> None:
    sends("dimse")
    arrived = {
        uid: str(pydicom.dcmread(BytesIO(one), stop_before_pixels=True).file_meta.TransferSyntaxUID)
        for uid, one in archive.objects().items()
    }
    assert arrived == {row.instance: row.transfer_syntax for row in read_rows(release)}


@pytest.mark.parametrize("how", ["web", "dimse"])
def test_sending_again_sends_only_missing_objects(
    how: str, sends: Callable[..., SendResult], release: Path, archive: Orthanc
) -> None:
    first = sends(how)
    archive.remove(min(instances(release)))
    again = sends(how)
    assert (again.sent, again.present) == (1, first.objects - 1)
    assert len(archive.objects()) == first.objects


def test_a_signal_stops_sending_between_two_objects(
    sends: Callable[..., SendResult], archive: Orthanc
) -> None:
    stop = Cancellation()
    stop.number = 15
    with pytest.raises(Cancelled):
        sends("web", stop)
    assert archive.objects() == {}


def test_objects_rejected_by_the_peer_are_counted_and_reported(
    release: Path, archive: Orthanc, sends: Callable[..., SendResult]
) -> None:
    archive.kill()
    archive.set(Jpeg2000TransferSyntaxAccepted=False)
    archive.start()
    try:
        sent = sends("dimse")
    finally:
        archive.kill()
        archive.set(Jpeg2000TransferSyntaxAccepted=True)
        archive.start()
    jpeg_2000 = sum(row.transfer_syntax.startswith("1.2.840.10008.1.2.4.9") for row in read_rows(release))
    assert sent.refused == {"class or transfer syntax not accepted": jpeg_2000}
    assert sent.sent == sent.objects - jpeg_2000


@pytest.mark.usefixtures("sends")
def test_a_modified_release_is_not_sent(tmp_path: Path, release: Path, archive: Orthanc) -> None:
    changed = tmp_path / "changed"
    shutil.copytree(release, changed)
    (changed / "report.html").write_text("other")
    with pytest.raises(IntegrityError, match="nothing was sent"):
        send(changed, archive.web, NoProgress(), Cancellation(), credential=LOGIN)
    assert archive.objects() == {}


def test_an_archive_that_is_down_exits_5(archive: Orthanc, sends: Callable[..., SendResult]) -> None:
    archive.kill()
    try:
        with pytest.raises(EnvironmentFailure, match="cannot be used"):
            sends("dimse")
    finally:
        archive.start()


@pytest.mark.parametrize("target", ["pacs.example.org", "A@b", "https://user:word@host/x", "A@b:99999"])
def test_an_invalid_target_is_rejected(target: str, release: Path) -> None:
    with pytest.raises(UsageError):
        send(release, target, NoProgress(), Cancellation())


def test_credentials_are_not_sent_unencrypted(release: Path) -> None:
    with pytest.raises(UsageError, match="sent unencrypted"):
        send(release, "http://pacs.example.org/dicom-web", NoProgress(), Cancellation(), credential=LOGIN)


@pytest.mark.parametrize("option", ["--token", "--login"])
def test_a_secret_given_as_variable_name_is_not_quoted(option: str, tmp_path: Path) -> None:
    target = "https://pacs.example.org/dicom-web"
    done = CliRunner().invoke(cli, ["send", str(tmp_path), target, option, "eyJhbGciOi.HUSH-hush"])
    assert (done.exit_code, "eyJ" in done.output) == (2, False)


@pytest.mark.parametrize("name", ["a.b", "1A", "A B", "steward:word", "A" * 129])
def test_an_invalid_variable_name_is_rejected(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a valid name of an environment variable"):
        send(
            tmp_path,
            "https://pacs.example.org/dicom-web",
            NoProgress(),
            Cancellation(),
            credential=("token", name),
        )


@pytest.mark.usefixtures("sends")
def test_the_command_reports_what_it_sent(release: Path, archive: Orthanc) -> None:
    done = CliRunner().invoke(cli, ["send", str(release), archive.web, "--login", VARIABLE, "--json"])
    told = json.loads(done.stdout)
    assert (done.exit_code, told["sent"], told["exit_code"]) == (0, told["objects"], 0)
