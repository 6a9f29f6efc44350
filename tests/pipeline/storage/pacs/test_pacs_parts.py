"""Parts of reading a PACS: addresses, worklists, multipart responses, retries."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from medsanitize.errors import EnvironmentFailure, UsageError
from medsanitize.pipeline.storage.pacs import association as associations
from medsanitize.pipeline.storage.pacs import cfind_cget
from medsanitize.pipeline.storage.pacs import pacs_retry as retry
from medsanitize.pipeline.storage.pacs.address import (
    DimsePeer,
    Instance,
    WebService,
    address_of,
    instance_in,
    parse_service,
    root_of,
    selection_in,
    service_in,
    service_of,
)
from medsanitize.pipeline.storage.pacs.check import check_pacs
from medsanitize.pipeline.storage.pacs.match_keys import Answer
from medsanitize.pipeline.storage.pacs.multipart import single_part
from medsanitize.pipeline.storage.pacs.pacs_retry import ObjectRefused, TransientFailure
from medsanitize.pipeline.storage.pacs.reader import PacsReader, reader
from medsanitize.pipeline.storage.pacs.worklist import read_worklist
from medsanitize.pipeline.storage.protocol import SourceProblem
from medsanitize.policies.inputs import DicomWeb, Dimse
from pynetdicom import AE, evt

from tests.helpers.hospital import prepare
from tests.helpers.orthanc import free_port

pytestmark = pytest.mark.pacs

SERVICE = b"dimse://PACS@host:104/US/get"


# -- addresses ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "service"),
    [
        (
            DicomWeb(dicomweb="https://host/dicom-web/", token="TOKEN"),
            WebService("https://host/dicom-web", "token", "TOKEN"),
        ),
        (DicomWeb(dicomweb="http://host:80"), WebService("http://host:80")),
        (Dimse(dimse="PACS@host:104", calling="US"), DimsePeer("PACS", "host", 104, "US")),
        (
            Dimse(dimse="PACS@host:104", calling="US", retrieve="move", port=11112),
            DimsePeer("PACS", "host", 104, "US", 11112),
        ),
    ],
)
def test_an_address_contains_the_service_settings_of_the_policy(
    one: DicomWeb | Dimse, service: WebService | DimsePeer
) -> None:
    assert parse_service(service_in(root_of(one))) == service


@given(st.dictionaries(st.sampled_from(["StudyDate", "PatientName"]), st.text(min_size=1)))
def test_an_address_contains_the_selection(query: dict[str, str]) -> None:
    one = Dimse(dimse="PACS@host:104", worklist=Path("/a folder/list?#.csv"), query=query)
    assert selection_in(root_of(one)) == (one.worklist, query)


def test_an_address_of_an_object_contains_its_uids() -> None:
    address = address_of(SERVICE, "1.2", "3.4", "5.6", "")
    assert (service_in(address), instance_in(address)) == (SERVICE, Instance("1.2", "3.4", "5.6"))


def test_a_secret_is_never_in_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "hush-hush")
    assert b"hush" not in service_of(DicomWeb(dicomweb="https://host/dicom-web", token="TOKEN"))


# -- worklists ----------------------------------------------------------------------------


def test_a_worklist_is_sorted_without_duplicate_studies(tmp_path: Path) -> None:
    path = tmp_path / "list.csv"
    path.write_text("\ufeffAccessionNumber\nB2\n A1 \nB2\n\n", encoding="utf-8")
    assert read_worklist(path) == ("AccessionNumber", ["A1", "B2"])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "AccessionNumber\n",
        "PatientID\nA\n",
        "AccessionNumber,Other\nA,B\n",
        "AccessionNumber\nA*\n",
        "\0",
    ],
)
def test_an_invalid_worklist_is_rejected_without_quoting_it(text: str, tmp_path: Path) -> None:
    path = tmp_path / "list.csv"
    path.write_text(text)
    with pytest.raises(UsageError, match="worklist"):
        read_worklist(path)


@pytest.mark.parametrize("key", ["AccessionNumber", "StudyInstanceUID"])
def test_a_worklist_and_a_query_with_the_same_key_are_rejected_before_connecting(
    key: str, tmp_path: Path
) -> None:
    path = tmp_path / "list.csv"
    path.write_text(f"{key}\n7\n")
    one = Dimse(dimse="PACS@host:104", worklist=path, query={key: "24"})
    with pytest.raises(UsageError, match=f"{key} is both the column of a worklist and a key"):
        list(PacsReader(SERVICE, Plain()).walk(root_of(one)))


# -- answers of several parts -------------------------------------------------------------


def multipart(*contents: bytes) -> bytes:
    parts = (b"--x\r\nContent-Type: application/dicom\r\n\r\n" + one + b"\r\n" for one in contents)
    return b"".join(parts) + b"--x--"


TYPE = 'multipart/related; type="application/dicom"; boundary="x"'


@given(st.binary())
def test_the_single_part_of_a_response_is_extracted_byte_for_byte(content: bytes) -> None:
    if b"\r\n--x" not in content:
        assert single_part(TYPE, multipart(content)) == content


@pytest.mark.parametrize("cut", [1, 2, 10, 30])
def test_a_truncated_response_is_retried(cut: int) -> None:
    with pytest.raises((TransientFailure, ObjectRefused)):
        single_part(TYPE, multipart(b"DICM" * 5)[:-cut])


def test_a_response_with_several_objects_is_rejected() -> None:
    with pytest.raises(ObjectRefused):
        single_part(TYPE, multipart(b"one", b"two"))


def test_a_page_instead_of_an_object_is_rejected() -> None:
    with pytest.raises(ObjectRefused):
        single_part("text/html", b"<html>sign in</html>")


# -- associations -------------------------------------------------------------------------


class Association(threading.Thread):
    """A thread with messages, one of which it tries to take itself."""

    def __init__(self) -> None:
        super().__init__()
        self.dimse = SimpleNamespace(get_msg=lambda **_: (1, "an answer"))
        self.taken: object = None

    def run(self) -> None:
        self.taken = self.dimse.get_msg(block=False)


def test_other_responses_are_left_to_the_caller() -> None:
    association = Association()
    associations._disable_own_thread(association)
    association.start()
    association.join()
    assert (association.taken, association.dimse.get_msg(block=True)) == ((None, None), (1, "an answer"))


# -- patience and the walk, with a peer made of plain functions ---------------------------


class Plain:
    """A peer with given responses that counts requests."""

    def __init__(
        self,
        find: Callable[[tuple[str, ...]], list[Answer]] = lambda _: [],
        fetch: Callable[[int], bytes] = lambda _: b"",
        *,
        up: bool = True,
    ) -> None:
        self._find, self._fetch, self.up = find, fetch, up
        self.asked = 0

    def check(self) -> None:
        if not self.up:
            raise TransientFailure("it is down")

    def check_port(self) -> None:
        pass

    def find(self, above: tuple[str, ...], _keys: Mapping[str, str]) -> list[Answer]:
        return self._find(above)

    def fetch(self, _wanted: Instance) -> bytes:
        self.asked += 1
        return self._fetch(self.asked)

    def close(self) -> None:
        pass


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry.time, "sleep", lambda _: None)


def failing(times: int, failure: Exception) -> Callable[[int], bytes]:
    def fetch(asked: int) -> bytes:
        if asked <= times:
            raise failure
        return b"object"

    return fetch


def opened(peer: Plain) -> bytes:
    with PacsReader(SERVICE, peer).opened(address_of(SERVICE, "1", "2", "3", "")) as one:
        return bytes(one.content)


@pytest.mark.parametrize(
    ("times", "failure"),
    [
        (len(retry.PAUSE_SECONDS), TransientFailure("busy")),
        (len(retry.OBJECT_PAUSE_SECONDS), ObjectRefused("no")),
    ],
)
def test_a_temporarily_failing_peer_is_retried(times: int, failure: Exception) -> None:
    assert opened(Plain(fetch=failing(times, failure))) == b"object"


def test_an_object_that_a_peer_does_not_return_is_an_object_error() -> None:
    with pytest.raises(SourceProblem, match="not-given-by-peer"):
        opened(Plain(fetch=failing(99, ObjectRefused("no"))))


def test_an_object_that_crashes_the_peer_each_time_is_an_object_error() -> None:
    with pytest.raises(SourceProblem, match="not-given-by-peer"):
        opened(Plain(fetch=failing(99, TransientFailure("aborted"))))


@pytest.mark.parametrize("failure", [TransientFailure("busy"), ObjectRefused("HTTP status 500")])
def test_a_peer_that_stays_down_exits_5(failure: Exception) -> None:
    with pytest.raises(EnvironmentFailure, match="cannot be used: it is down"):
        opened(Plain(fetch=failing(99, failure), up=False))


@pytest.mark.parametrize(
    ("times", "failure"),
    [
        (len(retry.PAUSE_SECONDS) + 1, TransientFailure("busy")),
        (len(retry.OBJECT_PAUSE_SECONDS) + 1, ObjectRefused("no")),
    ],
)
def test_an_object_is_retried_after_the_peer_has_recovered(times: int, failure: Exception) -> None:
    assert opened(Plain(fetch=failing(times, failure))) == b"object"


def test_a_peer_that_crashes_again_and_stays_down_exits_5() -> None:
    peer = Plain()

    def fetch(asked: int) -> bytes:
        peer.up = asked <= len(retry.PAUSE_SECONDS) + 1
        raise TransientFailure("aborted")

    peer._fetch = fetch
    with pytest.raises(EnvironmentFailure, match="it is down"):
        opened(peer)


def test_a_rejected_association_stops_the_run_and_is_no_object_error() -> None:
    with pytest.raises(EnvironmentFailure, match="denies access"):
        opened(Plain(fetch=failing(99, EnvironmentFailure("The PACS denies access"))))


@pytest.mark.parametrize(
    "who",
    [parse_service(SERVICE), parse_service(b"dicomweb+https://token:VARIABLE@pacs.example.org/dicom-web")],
)
def test_messages_contain_neither_the_service_nor_its_credential(who: WebService | DimsePeer) -> None:
    said = f"{who} {who!r} {retry.pacs_unreachable(who, 'busy')}"
    assert not [one for one in ("PACS@", "host", "104", "US/", "example", "VARIABLE") if one in said]


def test_services_are_distinguished_by_input_number() -> None:
    with pytest.raises(EnvironmentFailure, match="The PACS of input 2 cannot be used"):
        PacsReader(SERVICE, Plain(up=False), "The PACS of input 2").check()


@pytest.mark.parametrize(("count", "name"), [(1, "The PACS cannot"), (2, "The PACS of input 2 cannot")])
def test_an_early_error_numbers_the_input_if_there_are_several(count: int, name: str, tmp_path: Path) -> None:
    peers = [
        f"{{dicomweb: 'http://127.0.0.1:1/{n}', query: {{StudyDate: '20200101'}}}}" for n in range(count)
    ]
    policy = prepare(tmp_path, inputs=f"[{tmp_path / 'export'}, {', '.join(peers)}]")
    with pytest.raises(EnvironmentFailure, match=f"^{name} be used"):
        check_pacs(policy.inputs)


def test_an_unknown_move_destination_stops_the_run() -> None:
    port, own = free_port(), free_port()
    entity = AE("PACS")
    for one in (cfind_cget._FIND, cfind_cget._MOVE):
        entity.add_supported_context(one)

    def nowhere(_event: object) -> Iterator[object]:
        yield None, None

    server = entity.start_server(("127.0.0.1", port), block=False, evt_handlers=[(evt.EVT_C_MOVE, nowhere)])
    peer = reader(f"dimse://PACS@127.0.0.1:{port}/US/move:{own}".encode())
    peer.check()
    try:
        with pytest.raises(EnvironmentFailure, match="does not know our AE title as a C-MOVE destination"):
            peer._fetched(Instance("1", "2", "3"))
    finally:
        peer.peer.close()
        server.shutdown()


def listing(*levels: list[Answer]) -> Plain:
    return Plain(find=lambda above: levels[len(above)])


STUDY: Answer = {"StudyInstanceUID": ("1",), "StudyDate": ("20200101",), "NumberOfStudyRelatedSeries": ("1",)}
SERIES: Answer = {"SeriesInstanceUID": ("2",), "NumberOfSeriesRelatedInstances": ("2",)}
IMAGES: list[Answer] = [{"SOPInstanceUID": ("9",)}, {"SOPInstanceUID": ("10",), "SOPClassUID": ("1.2",)}]
ROOT = SERVICE + b"?StudyDate=20200101"


def walked(peer: Plain) -> list[tuple[bytes, str]]:
    found = PacsReader(SERVICE, peer).walk(ROOT)
    return [(one.path.partition(b"#")[2], one.sort) for one in found]


def test_a_walk_is_sorted_by_uid_and_states_the_class() -> None:
    assert walked(listing([STUDY], [SERIES], IMAGES)) == [(b"1/2/10/1.2", "file"), (b"1/2/9/", "file")]


def test_a_series_with_fewer_objects_than_stated_is_reported_in_a_row() -> None:
    assert walked(listing([STUDY], [SERIES], IMAGES[:1])) == [(b"1/2/9/", "file"), (b"1/2", "short")]


@pytest.mark.parametrize("below", [([],), ([SERIES], [])])
def test_a_study_without_objects_is_reported(below: tuple[list[Answer], ...]) -> None:
    assert [sort for _, sort in walked(listing([STUDY], *below))] == ["short"]


def test_a_peer_that_ignores_a_key_is_not_read() -> None:
    other: Answer = {**STUDY, "StudyDate": ("20210101",)}
    with pytest.raises(UsageError, match="does not match by StudyDate"):
        walked(listing([STUDY, other], [SERIES], IMAGES))


def test_a_peer_that_ignores_a_name_is_detected_by_its_number_of_responses() -> None:
    names: list[Answer] = [
        {**STUDY, "StudyInstanceUID": (f"1.{i}",), "PatientName": (one,)} for i, one in enumerate("ABC")
    ]
    root = SERVICE + b"?PatientName=B"
    with pytest.raises(UsageError, match="does not match by PatientName: 2 of its 3 answers"):
        list(PacsReader(SERVICE, listing(names, [SERIES], IMAGES)).walk(root))


@pytest.mark.parametrize("uid", ["", "1/2", "../1", "1#2"])
def test_an_invalid_uid_is_not_used_in_an_address(uid: str) -> None:
    with pytest.raises(UsageError, match="without a valid StudyInstanceUID"):
        walked(listing([{**STUDY, "StudyInstanceUID": (uid,)}], [SERIES], IMAGES))
