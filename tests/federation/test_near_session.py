"""A near comparison of two parties over TLS: what is learned, refused, recorded and signed."""

from __future__ import annotations

import asyncio
import gc
import json
import struct
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from aiohttp import ClientSession
from medsanitize.errors import EnvironmentFailure, UsageError
from medsanitize.federation.messages.sealed import InvalidMessage, Message, open_sealed
from medsanitize.federation.messages.transcript import TRANSCRIPTS
from medsanitize.federation.near import client
from medsanitize.federation.near.bounds import NearBound, own_calibration
from medsanitize.federation.near.client import ask_near_over_https
from medsanitize.federation.near.embeddings import SCALE, NearSet, near_set
from medsanitize.federation.near.line import Line
from medsanitize.federation.near.session import NearSide, answer_near, near_answering
from medsanitize.federation.near.talk import answer_line
from medsanitize.federation.near.terms import NearLimits, NearTerms
from medsanitize.federation.near.verdict import conclude_near
from medsanitize.federation.parties.identity import IDENTITY, Identity, LocalParty, create_party, open_party
from medsanitize.federation.parties.trust import trust_partner
from medsanitize.federation.private_overlap.budget import QUERIES, spent
from medsanitize.federation.transport.https_client import NEAR_PATH
from medsanitize.federation.transport.tls import client_context
from medsanitize.verifiers.reid.images.image import Modality

from tests.helpers.near import fingerprint, serving_line

pytestmark = [pytest.mark.party, pytest.mark.verify]
KIND = Modality.RADIOGRAPH
DIMENSION = 32
SHARED = 12
TERMS = NearTerms(kind=KIND, model="digest of a model", reveal="count", contract="")
LIMITS = NearLimits(smallest=5, largest=1000, runs=5, days=30)


@pytest.fixture
def sides(tmp_path: Path, near_library: Path) -> tuple[NearSide, NearSide]:
    """Two parties with 70 and 90 patients, of whom twelve are the same people in other images."""
    people = np.random.default_rng(0).normal(size=(160 - SHARED, DIMENSION))
    people /= np.linalg.norm(people, axis=1, keepdims=True)
    parties = []
    for name in ("north", "south"):
        create_party(tmp_path / name, name)
        parties.append(open_party(tmp_path / name))
    for one, other in ((0, 1), (1, 0)):
        identity = parties[other].identity
        trust_partner(parties[one], parties[other].folder / IDENTITY, identity.fingerprint)
    found = []
    for place, own in enumerate((people[:70], people[70 - SHARED :])):
        seen = fingerprint(own, 2, noise=0.3, seed=place)
        embeddings = near_set(seen, KIND)
        calibration = own_calibration(seen, KIND, None, DIMENSION)
        partner = parties[1 - place].identity
        found.append(NearSide(parties[place], partner, TERMS, LIMITS, embeddings, calibration, near_library))
    return found[0], found[1]


class Recorded(Line):
    """A line that keeps what both processes of the library send to each other, before TLS."""

    kept: ClassVar[list[bytes]] = []
    sent: ClassVar[list[bytes]] = []
    folders: ClassVar[list[Path]] = []
    modes: ClassVar[list[int]] = []

    def sockets(
        self, folder: Path, *, first: int, most_bytes: int
    ) -> AbstractAsyncContextManager[tuple[Path, Path]]:
        self.folders.append(folder)
        self.modes.append(folder.stat().st_mode & 0o777)
        return super().sockets(folder, first=first, most_bytes=most_bytes)

    async def receive(self, seconds: float) -> bytes:
        sealed = await super().receive(seconds)
        self.kept.append(b"\0" + sealed)
        return sealed

    async def _send(self, frame: bytes) -> None:
        self.kept.append(frame)
        self.sent.append(frame)
        await super()._send(frame)

    async def _streamed(self, frame: bytes) -> None:
        self.kept.append(frame)
        await super()._streamed(frame)


@contextmanager
def serving(
    party: LocalParty,
    partner: Identity,
    answers: Mapping[str, NearSide],
    line: type[Line] = Line,
    *,
    busy: bool = False,
) -> Iterator[str]:
    """Serve near comparisons in a thread; yields the address."""

    def near() -> Any:
        slot = asyncio.Lock()

        async def answered(connection: Any, other: Identity) -> None:
            if busy and not slot.locked():
                await slot.acquire()
            await answer_near(answers, other, party, line(connection), slot)

        return answered

    with serving_line(party, partner, near) as address:
        yield address


def told_in(sides: tuple[NearSide, NearSide], frames: list[bytes]) -> Iterator[Message]:
    """The sealed messages as their recipients read them."""
    for frame in frames:
        for side in sides:
            with suppress(InvalidMessage):
                if frame[:1] == b"\0":
                    yield open_sealed(side.party, {"": side.partner}, frame[1:])[1]


def flat(facts: Mapping[str, Any]) -> Iterator[str]:
    """The names of facts, without those of groups."""
    for name, value in facts.items():
        yield from flat(value) if isinstance(value, dict) else (name,)


def forms(sides: tuple[NearSide, NearSide]) -> Iterator[tuple[int, bytes]]:
    """The beginning of embeddings of both parties, as any of both programs might write it."""
    for side in sides:
        for place, row in enumerate(side.own.vectors[:20, :8].astype(np.int64)):
            for scaled in (row, 2 * row, -row, -2 * row):
                yield from ((place, scaled.astype(kind).tobytes()) for kind in ("<i2", "<i4", "<i8"))
            yield from ((place, (row / SCALE).astype(kind).tobytes()) for kind in ("<f4", "<f8"))


def test_the_asking_party_learns_how_many_patients_match(sides: tuple[NearSide, NearSide]) -> None:
    north, south = sides
    Recorded.kept.clear()
    with serving(south.party, north.party.identity, {"north": south}, Recorded) as address:
        found = ask_near_over_https(north, address)
    verdict = conclude_near("south", "count", found.opened, found.sizes, found.bounds)
    assert (found.opened.number, found.sizes, verdict.result) == (SHARED, (70, 90), "overlapping")
    transcripts = [one.party.folder / TRANSCRIPTS / f"{found.session}.json" for one in sides]
    assert transcripts[0].read_bytes() == transcripts[1].read_bytes()
    told = json.loads(transcripts[0].read_text())
    assert (len(told["signatures"]), told["bounds"][0]["patients"]) == (2, 70)
    # Every fact that either party states: nothing about the result, and nothing of a single patient.
    bound = set(NearBound.model_fields)
    assert {one.kind: set(flat(one.payload)) for one in told_in(sides, Recorded.kept)} == {
        "near-hello": {"distance", "patients", "kind", "model", "reveal", "contract"},
        # The number of patients, once as such, and those behind the bound.
        "near-reply": {"distance", "patients"} | bound,
        "near-start": bound,
        "near-share": set(),
        "near-receipt": {"signature"},
        "near-receipt-reply": {"signature"},
    }
    assert (Recorded.modes[-1], Recorded.folders[-1].exists()) == (0o700, False)
    exchanged = b"".join(Recorded.kept)
    assert len(exchanged) > 1_000_000
    assert [place for place, form in forms(sides) if form in exchanged] == []
    budgets = [(one.party.folder / QUERIES).read_text().count("\n") for one in sides]
    assert budgets == [1, 1]


def traffic(sides: tuple[NearSide, NearSide]) -> tuple[int, dict[int, int]]:
    """Compare, and return the count, and how often the partner's process sends messages of which size."""
    north, south = sides
    Recorded.sent.clear()
    with serving(south.party, north.party.identity, {"north": south}, Recorded) as address:
        found = ask_near_over_https(north, address).opened.number
    sent = b"".join(frame[5:] for frame in Recorded.sent if frame[:5] == b"\2\0\0\0\1")
    sizes, place = Counter[int](), 0
    while place < len(sent):
        # The library's protocol: a tag, the length, and that of the description within it.
        tag, length, described = struct.unpack_from(">4sII", sent, place)
        assert tag == b"PRPC"
        # Ciphertexts are compressed: some bytes more or less, at random.
        sizes[(length - described) >> 10] += 1
        place += 12 + length
    return found, dict(sizes)


@pytest.mark.slow
def test_number_and_sizes_of_messages_do_not_tell_the_result(sides: tuple[NearSide, NearSide]) -> None:
    few = tuple(replace(one, own=replace(one.own, vectors=one.own.vectors[:12])) for one in sides)
    north, south = few
    same = replace(south, own=replace(south.own, vectors=north.own.vectors))
    other = replace(south, own=replace(south.own, vectors=-north.own.vectors))
    everybody, nobody = traffic((north, same)), traffic((north, other))
    assert (everybody[0], nobody[0]) == (12, 0)
    assert everybody[1] == nobody[1]


@pytest.mark.slow
def test_the_asking_party_learns_which_of_its_patients_match_if_both_agree(
    sides: tuple[NearSide, NearSide],
) -> None:
    terms = TERMS.model_copy(update={"reveal": "patients"})
    north, south = (replace(one, terms=terms) for one in sides)
    with serving(south.party, north.party.identity, {"north": south}) as address:
        found = ask_near_over_https(north, address)
    matching = {name for name, one in zip(north.own.patients, found.opened.patients, strict=True) if one}
    assert matching == {f"p{number}" for number in range(70 - SHARED, 70)}


@pytest.mark.parametrize(
    ("changes", "limits", "reason"),
    [
        ({"model": "digest of another model"}, {}, "Both policies must name"),
        ({"reveal": "bit"}, {}, "Both policies must name"),
        ({"contract": "another contract"}, {}, "Both policies must name"),
        ({}, {"smallest": 80}, "smaller than the limit"),
        ({}, {"largest": 60}, "larger than the limit"),
        ({}, {"runs": 0}, "used up"),
    ],
)
def test_a_partner_refuses_what_its_policy_does_not_say(
    sides: tuple[NearSide, NearSide], changes: dict[str, Any], limits: dict[str, Any], reason: str
) -> None:
    north, south = sides
    other = replace(south, terms=TERMS.model_copy(update=changes), limits=replace(LIMITS, **limits))
    with (
        serving(south.party, north.party.identity, {"north": other}) as address,
        pytest.raises(UsageError, match=f"The partner refuses the comparison.*{reason}"),
    ):
        ask_near_over_https(north, address)
    assert not list((south.party.folder / TRANSCRIPTS).glob("*"))
    # A refusal tells its reason, and costs nothing.
    assert not spent(south.party.folder, north.party.identity.fingerprint, days=30)


def test_a_partner_without_agreement_is_refused(sides: tuple[NearSide, NearSide]) -> None:
    north, south = sides
    with (
        serving(south.party, north.party.identity, {}) as address,
        pytest.raises(UsageError, match="The partner refuses the comparison"),
    ):
        ask_near_over_https(north, address)


def test_a_comparison_whose_partner_cannot_compute_gives_no_result(sides: tuple[NearSide, NearSide]) -> None:
    north, south = sides
    broken = replace(south, library=south.library / "spu")
    with (
        serving(south.party, north.party.identity, {"north": broken}) as address,
        pytest.raises(EnvironmentFailure, match="nothing was concluded"),
    ):
        ask_near_over_https(north, address)
    assert not list((north.party.folder / TRANSCRIPTS).glob("*"))


def test_a_partner_that_leaves_after_the_stated_bounds_has_used_the_budget(
    sides: tuple[NearSide, NearSide],
) -> None:
    north, south = sides
    leaving = replace(north, limits=replace(LIMITS, largest=80))
    with (
        serving(south.party, north.party.identity, {"north": south}) as address,
        pytest.raises(UsageError, match="larger than the limit"),
    ):
        ask_near_over_https(leaving, address)
    assert (south.party.folder / QUERIES).read_text().count("\n") == 1


def test_a_server_that_is_busy_says_so_and_nothing_is_paid(sides: tuple[NearSide, NearSide]) -> None:
    north, south = sides
    with (
        serving(south.party, north.party.identity, {"north": south}, busy=True) as address,
        pytest.raises(EnvironmentFailure, match="busy with another comparison"),
    ):
        ask_near_over_https(north, address)
    assert not any((one.party.folder / QUERIES).exists() for one in sides)


def test_a_busy_server_tells_no_one_but_partners_with_these_terms(sides: tuple[NearSide, NearSide]) -> None:
    north, south = sides
    other = replace(south, terms=TERMS.model_copy(update={"reveal": "bit"}))
    with (
        serving(south.party, north.party.identity, {"north": other}, busy=True) as address,
        pytest.raises(UsageError, match="Both policies must name"),
    ):
        ask_near_over_https(north, address)


def test_a_partner_that_says_nothing_keeps_no_other_one_waiting(sides: tuple[NearSide, NearSide]) -> None:
    north, south = sides
    leaving = replace(north, limits=replace(LIMITS, largest=80))

    async def idle(address: str) -> None:
        context = client_context(north.party, south.party.identity)
        async with ClientSession() as http, http.ws_connect(f"{address}{NEAR_PATH}", ssl=context):
            # The other one is answered: it leaves because of its own limits.
            with pytest.raises(UsageError, match="larger than the limit"):
                await asyncio.to_thread(ask_near_over_https, leaving, address)

    with serving(south.party, north.party.identity, {"north": south}) as address:
        asyncio.run(idle(address))


def test_a_command_that_is_interrupted_leaves_nothing_behind(
    sides: tuple[NearSide, NearSide], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    north, south = sides
    # Short: paths of sockets have at most 107 characters.
    with tempfile.TemporaryDirectory() as temporary:
        monkeypatch.setattr(tempfile, "tempdir", temporary)

        async def interrupted(address: str) -> None:
            asking = asyncio.create_task(client._ask(north, address))
            while len(list(Path(temporary).glob("*/own"))) < 2:
                await asyncio.sleep(0.05)
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking

        with serving(south.party, north.party.identity, {"north": south}) as address:
            asyncio.run(interrupted(address))
        gc.collect()
        assert (list(Path(temporary).iterdir()), caplog.messages) == ([], [])


def test_bounds_are_those_of_each_partys_own_images(sides: tuple[NearSide, NearSide]) -> None:
    north, _ = sides
    bound = north.calibration.bound(north.calibration.distance, left_out=0)
    assert (bound.patients, bound.strangers, bound.source) == (70, 70 * 69 // 2, "compared_images")
    assert bound.miss <= 0.05
    nearer = north.calibration.bound(north.calibration.distance / 2, left_out=0)
    assert nearer.miss > bound.miss
    assert nearer.matches <= bound.matches


@pytest.fixture
def searching(sides: tuple[NearSide, NearSide]) -> tuple[NearSide, NearSide]:
    """The first party asks about three images, of which two are of patients of the second."""
    north, south = sides
    terms = TERMS.model_copy(update={"reveal": "each"})
    limits = replace(LIMITS, smallest=20, images=3, runs=10)
    asked = NearSet(north.own.vectors[_places(north, ["p3", "p65", "p69"])], ("0", "1", "2"), 0)
    return (
        replace(north, terms=terms, limits=limits, own=asked, calibration=None),
        replace(south, terms=terms, limits=limits),
    )


def _places(side: NearSide, names: list[str]) -> list[int]:
    return [side.own.patients.index(name) for name in names]


def test_a_search_tells_of_each_image_whether_it_matches(
    sides: tuple[NearSide, NearSide], searching: tuple[NearSide, NearSide]
) -> None:
    """The server compares releases with the same partner as well, and takes the side with the terms."""
    north, south = searching
    Recorded.kept.clear()

    def near() -> Any:
        slot = asyncio.Lock()
        answering = {"near-hello": near_answering(sides[1], south)}
        return lambda connection, other: answer_line(
            other, south.party, Recorded(connection), slot, answering
        )

    with serving_line(south.party, north.party.identity, near) as address:
        found = ask_near_over_https(north, address)
    assert (found.opened.patients, found.sizes) == ((False, True, True), (3, 90))
    assert south.calibration is not None
    # The answering party's distance, and nothing is known of the asking party's images.
    assert (found.distance, found.bounds[0].miss) == (south.calibration.distance, 1.0)
    print_of = north.party.identity.fingerprint
    assert spent(south.party.folder, print_of, days=30, of_images=True) == 3
    assert not spent(south.party.folder, print_of, days=30)
    assert set(flat(next(told_in(searching, Recorded.kept)).payload)) >= {"reveal", "patients"}


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        ({"images": 2}, "larger than the limit"),
        ({"runs": 2}, "do not suffice"),
        ({"smallest": 91}, "smaller than the limit"),
    ],
)
def test_a_search_beyond_the_limits_is_refused(
    searching: tuple[NearSide, NearSide], limits: dict[str, int], reason: str
) -> None:
    north, south = searching
    other = replace(south, limits=replace(south.limits, **limits))
    with (
        serving(south.party, north.party.identity, {"north": other}) as address,
        pytest.raises(UsageError, match=f"The partner refuses the comparison.*{reason}"),
    ):
        ask_near_over_https(north, address)
    assert not spent(south.party.folder, north.party.identity.fingerprint, days=30, of_images=True)


def test_a_search_at_a_distance_of_the_asking_party_is_refused(
    sides: tuple[NearSide, NearSide], searching: tuple[NearSide, NearSide]
) -> None:
    """Distances that it chose would tell it, question by question, how near an image is."""
    north, south = searching
    choosing = replace(north, calibration=sides[0].calibration)
    with (
        serving(south.party, north.party.identity, {"north": south}) as address,
        pytest.raises(UsageError, match="The partner refuses the comparison"),
    ):
        ask_near_over_https(choosing, address)
    assert not spent(south.party.folder, north.party.identity.fingerprint, days=30, of_images=True)
