"""Classification of images that the answering party does not see: what is learned, refused and recorded."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from medsanitize.errors import EnvironmentFailure, UsageError
from medsanitize.federation.ask.head import SecretHead, secret_head
from medsanitize.federation.ask.process import TIE, ClassPlan, give_features, give_head, open_classes
from medsanitize.federation.ask.session import ClassLearned, ClassSide, ask_classes, class_answering
from medsanitize.federation.ask.terms import AskLimits, ClassTerms
from medsanitize.federation.messages.sealed import InvalidMessage, Message, open_sealed
from medsanitize.federation.messages.transcript import TRANSCRIPTS
from medsanitize.federation.near.client import converse, over_https
from medsanitize.federation.near.line import Line
from medsanitize.federation.near.process import open_spu
from medsanitize.federation.near.talk import answer_line
from medsanitize.federation.parties.identity import IDENTITY, Identity, create_party, open_party
from medsanitize.federation.parties.trust import trust_partner
from medsanitize.federation.private_overlap.budget import QUERIES, spent
from medsanitize.verifiers.reid.images.image import Modality
from medsanitize.verifiers.reid.models.packaged_head import PackagedHead
from numpy.typing import NDArray

from tests.helpers.near import both_processes, serving_line

pytestmark = [pytest.mark.party]
FEATURES, WIDTH, CLASSES, IMAGES = 96, 24, 5, 40
TERMS = ClassTerms(model="chest", features="ab" * 32, confidence=0.5, contract="")
LIMITS = AskLimits(answers=100, days=30)
NAMES = tuple(f"class {place}" for place in range(CLASSES))


def packaged_head(seed: int = 0) -> PackagedHead:
    """A random classifier whose bias moves the border between its classes."""
    draw = np.random.default_rng(seed)
    return PackagedHead(
        digest="cd" * 32,
        modality=Modality.RADIOGRAPH,
        features="ab" * 32,
        classes=NAMES,
        map=draw.normal(size=(WIDTH, FEATURES)).astype(np.float32),
        shift=draw.normal(size=WIDTH).astype(np.float32) / 4,
        weight=2 * draw.normal(size=(CLASSES, WIDTH)).astype(np.float32),
        bias=draw.normal(size=CLASSES).astype(np.float32),
    )


def features(images: int, seed: int = 1) -> NDArray[np.float32]:
    drawn = np.random.default_rng(seed).normal(size=(images, FEATURES))
    return np.asarray(drawn / np.linalg.norm(drawn, axis=1, keepdims=True), np.float32)


def logits(head: PackagedHead, vectors: NDArray[np.float32]) -> NDArray[np.float64]:
    """The logits of the model as it computes them in the clear."""
    mapped = vectors.astype(np.float64) @ head.map.T + head.shift
    mapped /= np.linalg.norm(mapped, axis=1, keepdims=True)
    return np.asarray(mapped @ head.weight.T + head.bias)


def told(values: NDArray[np.float64], margin: float) -> tuple[int | None, ...]:
    ordered = np.sort(values, axis=1)
    is_sure = ordered[:, -1] - ordered[:, -2] > margin
    return tuple(int(one) if sure else None for one, sure in zip(values.argmax(1), is_sure, strict=True))


def classified(
    library: Path, plan: ClassPlan, head: SecretHead, vectors: NDArray[np.float32]
) -> tuple[int | None, ...]:
    """Classify by two processes, each with the input of its party, and open the result."""
    with open_spu(library) as asking, open_spu(library) as answering:
        own, other = both_processes(
            lambda sockets: give_features(plan, vectors, asking, sockets),
            lambda sockets: give_head(plan, head, answering, sockets),
        )
        return open_classes(plan, asking, own, other)


@pytest.fixture
def sides(tmp_path: Path, near_library: Path) -> tuple[ClassSide, ClassSide]:
    """Two parties that trust each other."""
    for name in ("north", "south"):
        create_party(tmp_path / name, name)
    north, south = open_party(tmp_path / "north"), open_party(tmp_path / "south")
    for one, other in ((north, south), (south, north)):
        trust_partner(one, other.folder / IDENTITY, other.identity.fingerprint)
    return (
        ClassSide(north, south.identity, TERMS, LIMITS, near_library),
        ClassSide(south, north.identity, TERMS, LIMITS, near_library),
    )


class Recorded(Line):
    """A line that keeps what passes over it, before TLS."""

    kept: ClassVar[list[bytes]] = []

    async def receive(self, seconds: float) -> bytes:
        sealed = await super().receive(seconds)
        self.kept.append(b"\0" + sealed)
        return sealed

    async def _send(self, frame: bytes) -> None:
        self.kept.append(frame)
        await super()._send(frame)

    async def _streamed(self, frame: bytes) -> None:
        self.kept.append(frame)
        await super()._streamed(frame)


@contextmanager
def serving(
    side: ClassSide, classifiers: Mapping[str, tuple[ClassSide, SecretHead]], *, busy: bool = False
) -> Iterator[str]:
    """Serve classifications of a party; yields the address."""

    def near() -> Any:
        slot = asyncio.Lock()

        async def answered(connection: Any, partner: Identity) -> None:
            if busy and not slot.locked():
                await slot.acquire()
            answering = {"ask-hello": class_answering(classifiers)}
            await answer_line(partner, side.party, Recorded(connection), slot, answering)  # type: ignore[arg-type]

        return answered

    with serving_line(side.party, side.partner, near) as address:
        yield address


def ask(side: ClassSide, vectors: NDArray[np.float32], address: str) -> ClassLearned:
    return over_https(converse(side.party, side.partner, address, partial(ask_classes, side, vectors)))


def test_the_folded_head_gives_the_classes_of_the_model() -> None:
    head, vectors = packaged_head(), features(500)
    secret = secret_head(head)
    mapped = vectors @ secret.map + secret.shift
    lengths = np.linalg.norm(mapped, axis=1, keepdims=True)
    found = (vectors @ secret.scores + secret.offset) / lengths + secret.bias
    assert np.abs(found - logits(head, vectors)).max() < 1e-4
    # No feature vector of unit length can leave the numbers of the computation.
    assert np.linalg.norm(secret.map.astype(np.float64), 2) + np.linalg.norm(secret.shift) < 8.001


@pytest.mark.parametrize("value", [1e4, np.nan])
def test_a_head_that_the_computation_cannot_hold_is_refused(value: float) -> None:
    bias = np.full(CLASSES, value, np.float32)
    with pytest.raises(UsageError, match="weights that are too large"):
        secret_head(replace(packaged_head(), bias=bias))


@pytest.mark.parametrize(("confidence", "margin"), [(0.5, TIE), (0.9, np.log(9)), (0.75, np.log(3))])
def test_a_confidence_is_a_difference_of_logits(confidence: float, margin: float) -> None:
    assert ClassPlan("0" * 32, 1, 2, 3, 4, confidence).margin == pytest.approx(margin)


@pytest.mark.parametrize("confidence", [0.5, 0.9])
def test_classes_agree_with_those_in_the_clear(near_library: Path, confidence: float) -> None:
    head, vectors = packaged_head(), features(2000)
    plan = ClassPlan("0" * 32, len(vectors), FEATURES, WIDTH, CLASSES, confidence)
    found = classified(near_library, plan, secret_head(head), vectors)
    wanted = told(logits(head, vectors), plan.margin)
    assert np.mean([one == other for one, other in zip(found, wanted, strict=True)]) >= 0.999
    best = logits(head, vectors).argmax(1)
    # What differs is unsure: never another class.
    assert [one for one, other in zip(found, best, strict=True) if one not in (None, other)] == []
    assert len(set(found)) > CLASSES - 1


def test_equal_classes_are_unsure(near_library: Path) -> None:
    head = packaged_head()
    weight, bias = head.weight.copy(), head.bias.copy()
    weight[1], bias[1] = weight[0], bias[0]
    twins, vectors = replace(head, weight=weight, bias=bias), features(300)
    plan = ClassPlan("0" * 32, len(vectors), FEATURES, WIDTH, CLASSES, 0.5)
    found = classified(near_library, plan, secret_head(twins), vectors)
    best = logits(twins, vectors).argmax(1)
    assert {one for one, other in zip(found, best, strict=True) if other in (0, 1)} == {None}
    assert None not in {one for one, other in zip(found, best, strict=True) if other > 1}


def test_the_asking_party_learns_classes_and_the_answering_party_their_number(
    sides: tuple[ClassSide, ClassSide],
) -> None:
    north, south = sides
    head, vectors = packaged_head(), features(IMAGES)
    secret = secret_head(head)
    Recorded.kept.clear()
    with serving(south, {"chest": (south, secret)}) as address:
        found = ask(north, vectors, address)
    assert found.answers == told(logits(head, vectors), TIE)
    assert (found.classes, found.model) == (NAMES, head.digest)
    transcripts = [one.party.folder / TRANSCRIPTS / f"{found.session}.json" for one in sides]
    assert transcripts[0].read_bytes() == transcripts[1].read_bytes()
    assert len(json.loads(transcripts[0].read_text())["signatures"]) == 2
    # Every fact that either party states: nothing about an image or an answer.
    assert {one.kind: set(one.payload) for one in _messages(sides)} == {
        "ask-hello": {"terms", "images"},
        "ask-reply": {"classes", "model", "width"},
        "ask-start": set(),
        "ask-share": set(),
        "ask-receipt": {"signature"},
        "ask-receipt-reply": {"signature"},
    }
    exchanged = b"".join(Recorded.kept)
    assert len(exchanged) > 1_000_000
    assert [form for form in _forms(vectors, secret) if form in exchanged] == []
    for one in sides:
        row = json.loads((one.party.folder / QUERIES).read_text())
        assert (row["answers"], set(row)) == (
            IMAGES,
            {*"time partner session role own other answers".split()},
        )


def _messages(sides: tuple[ClassSide, ClassSide]) -> Iterator[Message]:
    for frame in Recorded.kept:
        for side in sides:
            with suppress(InvalidMessage):
                if frame[:1] == b"\0":
                    yield open_sealed(side.party, {"": side.partner}, frame[1:])[1]


def _forms(vectors: NDArray[np.float32], head: SecretHead) -> Iterator[bytes]:
    """The beginning of rows of both inputs, as either program might write it."""
    for matrix in (vectors, head.map, head.map.T, head.scores, head.scores.T, head.shift[None]):
        for row in matrix[:20, :4].astype(np.float64):
            yield from (row.astype(kind).tobytes() for kind in ("<f4", "<f8"))
            yield from (np.round(row * 2.0**24).astype(kind).tobytes() for kind in ("<i4", "<i8"))


@pytest.mark.parametrize(
    ("changes", "answers", "reason"),
    [
        ({"model": "other"}, 100, "Both policies must name"),
        ({"features": "ef" * 32}, 100, "Both policies must name"),
        ({"confidence": 0.9}, 100, "Both policies must name"),
        ({"contract": "another"}, 100, "Both policies must name"),
        ({}, IMAGES - 1, "do not suffice"),
    ],
)
def test_a_partner_refuses_what_its_policy_does_not_say(
    sides: tuple[ClassSide, ClassSide], changes: dict[str, Any], answers: int, reason: str
) -> None:
    """Before anything is computed: the answering party has no library at all."""
    north, south = sides
    terms, limits = TERMS.model_copy(update=changes), AskLimits(answers, 30)
    other = replace(south, terms=terms, limits=limits, library=south.library / "nothing")
    with (
        serving(other, {terms.model: (other, secret_head(packaged_head()))}) as address,
        pytest.raises(UsageError, match=f"The partner refuses the comparison.*{reason}"),
    ):
        ask(north, features(IMAGES), address)
    assert not list((south.party.folder / TRANSCRIPTS).glob("*"))
    prints = north.party.identity.fingerprint
    # A refusal tells its reason, and costs nothing.
    assert not spent(south.party.folder, prints, days=30, of_images=True)


def test_a_partner_without_classifiers_is_refused(sides: tuple[ClassSide, ClassSide]) -> None:
    north, south = sides
    with serving(south, {}) as address, pytest.raises(UsageError, match="The partner refuses"):
        ask(north, features(1), address)


def test_a_busy_server_says_so_and_nothing_is_paid(sides: tuple[ClassSide, ClassSide]) -> None:
    north, south = sides
    classifiers = {"chest": (south, secret_head(packaged_head()))}
    with (
        serving(south, classifiers, busy=True) as address,
        pytest.raises(EnvironmentFailure, match="busy"),
    ):
        ask(north, features(1), address)
    assert not any((one.party.folder / QUERIES).exists() for one in sides)


def test_an_own_budget_that_does_not_suffice_ends_the_question(sides: tuple[ClassSide, ClassSide]) -> None:
    """The answering party has stated its classes, and is paid for them."""
    north, south = sides
    poor = replace(north, limits=AskLimits(1, 30))
    classifiers = {"chest": (south, secret_head(packaged_head()))}
    with serving(south, classifiers) as address, pytest.raises(UsageError, match="do not suffice"):
        ask(poor, features(2), address)
    assert spent(south.party.folder, north.party.identity.fingerprint, days=30, of_images=True) == 2


def test_a_computation_that_does_not_finish_gives_no_answer(sides: tuple[ClassSide, ClassSide]) -> None:
    north, south = sides
    broken = replace(south, library=south.library / "spu")
    classifiers = {"chest": (broken, secret_head(packaged_head()))}
    with (
        serving(broken, classifiers) as address,
        pytest.raises(EnvironmentFailure, match="nothing was concluded"),
    ):
        ask(north, features(1), address)
    assert not list((north.party.folder / TRANSCRIPTS).glob("*"))
