"""A partner that does not follow the protocol: one clear refusal, and nothing is revealed."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from medsanitize.errors import IntegrityError, UsageError
from medsanitize.federation.messages.sealed import Message, digest_of, open_sealed, seal
from medsanitize.federation.parties.identity import LocalParty, create_party, open_party
from medsanitize.federation.parties.trust import trust_partner
from medsanitize.federation.private_overlap import terms
from medsanitize.federation.private_overlap.answer import Offer, answer
from medsanitize.federation.private_overlap.ask import Asked, Asking, learned, proceed, start
from medsanitize.federation.private_overlap.budget import spent
from medsanitize.federation.private_overlap.session_files import count_sessions, session_file
from medsanitize.federation.private_overlap.terms import Comparison, PartnerTerms
from medsanitize.federation.psi.process import open_psi
from medsanitize.federation.transport import exchange
from medsanitize.federation.transport.folder import message_path, messages_for, put_message

pytestmark = pytest.mark.party

OWN = {"pixels": [bytes([number]) * 32 for number in range(20)]}
THEIRS = {"pixels": [bytes([number]) * 32 for number in range(15, 40)]}
TERMS = PartnerTerms(
    (Comparison(what="pixels", reveal="count", contract=""),), smallest=5, largest=100, runs=1000
)


class Pair:
    """An asking and an answering party, without a network."""

    def __init__(self, base: Path, library: Path) -> None:
        for name in ("north", "south"):
            create_party(base / name, name)
        self.north, self.south = open_party(base / "north"), open_party(base / "south")
        for one, other in ((self.north, self.south), (self.south, self.north)):
            trust_partner(one, other.folder / "identity.json", other.identity.fingerprint)
        self.asking = Asking(self.north, self.south.identity, TERMS, OWN, library)
        self.offer = Offer({"north": TERMS}, lambda _: THEIRS, library)

    def answered(self, sealed: bytes) -> bytes:
        return answer(self.south, self.offer, sealed)

    def request(self) -> tuple[Asked, bytes]:
        """The session after two messages, and the third."""
        asked, hello = start(self.asking)
        asked, sealed = proceed(self.asking, asked, self.answered(hello))
        assert sealed is not None
        return asked, sealed

    def told(self, sealed: bytes, reader: LocalParty | None = None) -> Message:
        party = reader or self.north
        partners = {"north": self.north.identity, "south": self.south.identity}
        return open_sealed(party, partners, sealed)[1]

    def changed(self, sealed: bytes, change: Callable[[Message], Message]) -> bytes:
        """A message of north with other content, properly signed and sealed."""
        return seal(self.north, self.south.identity, change(self.told(sealed, self.south)))


@pytest.fixture
def pair(tmp_path: Path, library: Path) -> Pair:
    return Pair(tmp_path, library)


def reason(pair: Pair, sealed: bytes) -> Any:
    told = pair.told(pair.answered(sealed))
    return told.payload["reason"] if told.kind == "refusal" else told.kind


def test_a_lost_answer_is_given_again_byte_for_byte(pair: Pair) -> None:
    _, sealed = pair.request()
    assert pair.answered(sealed) == pair.answered(sealed)


def test_a_second_request_in_one_session_is_refused(pair: Pair) -> None:
    _, sealed = pair.request()
    pair.answered(sealed)
    # Sealed anew, so that the bytes differ.
    assert reason(pair, pair.changed(sealed, lambda message: message)) == "out-of-order"


def test_a_request_without_a_session_is_refused(pair: Pair) -> None:
    _, sealed = pair.request()
    other = pair.changed(sealed, lambda message: replace(message, session="f" * 32))
    assert reason(pair, other) == "no-session"


def test_a_request_that_names_another_message_before_is_refused(pair: Pair) -> None:
    _, sealed = pair.request()
    other = pair.changed(sealed, lambda message: replace(message, previous=digest_of(b"another")))
    assert reason(pair, other) == "out-of-order"


def test_another_version_of_the_protocol_is_refused(pair: Pair) -> None:
    _, hello = start(pair.asking)
    assert reason(pair, pair.changed(hello, lambda message: replace(message, protocol=2))) == "other-version"


def test_a_nonce_that_was_not_committed_to_is_refused(pair: Pair) -> None:
    _, sealed = pair.request()
    other = pair.changed(sealed, lambda message: replace(message, payload={"nonce": "0" * 64}))
    assert reason(pair, other) == "malformed"


@pytest.mark.parametrize(("size", "why"), [(4, "too-few-items"), (101, "too-many-items")])
def test_a_tiny_or_a_huge_set_is_refused(pair: Pair, size: int, why: str) -> None:
    _, hello = start(pair.asking)

    def sized(message: Message) -> Message:
        return replace(message, payload={**message.payload, "sizes": {"pixels": size}})

    assert reason(pair, pair.changed(hello, sized)) == why


def test_more_blinded_items_than_announced_are_refused(pair: Pair) -> None:
    asked, hello = start(pair.asking)

    def sized(message: Message) -> Message:
        return replace(message, payload={**message.payload, "sizes": {"pixels": len(OWN["pixels"]) - 1}})

    hello = pair.changed(hello, sized)
    reply = pair.answered(hello)
    # The asking party's own program would notice; a hostile one goes on with all its items.
    asked = asked.model_copy(update={"messages": [digest_of(hello)]})
    _, request = proceed(pair.asking, asked, reply)
    assert request is not None
    assert reason(pair, request) == "malformed"


@given(content=st.binary(max_size=200))
@settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_blinded_items_that_are_no_points_are_refused(pair: Pair, content: bytes) -> None:
    _, sealed = pair.request()
    other = pair.changed(sealed, lambda message: replace(message, parts={"pixels": content}))
    assert reason(pair, other) == "malformed"


def test_a_partner_whose_budget_is_used_up_is_not_told_set_sizes(pair: Pair) -> None:
    pair.offer = replace(pair.offer, terms={"north": replace(TERMS, runs=1)})
    _, sealed = pair.request()
    pair.answered(sealed)
    assert reason(pair, start(pair.asking)[1]) == "no-budget"


def test_a_session_that_was_paid_for_is_not_opened_again_when_its_files_have_expired(pair: Pair) -> None:
    asked, sealed = pair.request()
    pair.answered(sealed)
    for path in (pair.south.folder / "sessions").iterdir():
        os.utime(path, (0, 0))
    # Any first message removes expired files.
    pair.answered(start(pair.asking)[1])
    hello = start(pair.asking)[1]
    again = pair.changed(hello, lambda message: replace(message, session=asked.session))
    assert reason(pair, again) == "out-of-order"


def test_sessions_that_are_begun_and_never_finished_are_limited(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terms, "_MOST_UNFINISHED", 2)
    pair.offer = replace(pair.offer, terms={"north": replace(TERMS, runs=1)})
    told = [reason(pair, start(pair.asking)[1]) for _ in range(4)]
    assert told == ["hello-reply"] * 3 + ["too-many-sessions"]


def test_sessions_of_a_partner_whose_name_begins_alike_do_not_count(tmp_path: Path) -> None:
    for name in ("answer-north-", "answer-north-west-"):
        session_file(tmp_path, f"{name}{'a' * 32}.json").touch()
    assert count_sessions(tmp_path, "answer-north-") == 1


def test_messages_of_unknown_sessions_leave_no_files(pair: Pair) -> None:
    _, sealed = pair.request()
    before = sorted((pair.south.folder / "sessions").iterdir())
    for number in range(5):
        other = pair.changed(sealed, lambda message, name=f"{number:032x}": replace(message, session=name))
        assert reason(pair, other) == "no-session"
    assert sorted((pair.south.folder / "sessions").iterdir()) == before


def test_a_refused_request_reveals_nothing_but_is_paid_for(pair: Pair) -> None:
    _, sealed = pair.request()
    reason(pair, pair.changed(sealed, lambda message: replace(message, parts={"pixels": b"no points"})))
    assert spent(pair.south.folder, pair.north.identity.fingerprint, days=30) == 1


@given(
    payload=st.dictionaries(
        st.text(max_size=12), st.none() | st.integers() | st.text(max_size=9), max_size=4
    ),
    number=st.integers(1, 6),
    kind=st.sampled_from(["hello", "hello-reply", "request", "response", "receipt", "refusal"]),
)
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_any_signed_nonsense_gets_a_refusal(
    pair: Pair, payload: dict[str, Any], number: int, kind: Any
) -> None:
    sealed = seal(pair.north, pair.south.identity, Message("a" * 32, number, kind, None, payload))
    assert pair.told(pair.answered(sealed)).kind == "refusal"


@given(
    payload=st.dictionaries(
        st.sampled_from(["nonce", "sizes", "signature", "reason", "more"]),
        st.none() | st.integers() | st.text(max_size=9) | st.just("0" * 64) | st.just({"pixels": 20}),
        max_size=3,
    ),
    parts=st.dictionaries(
        st.sampled_from(["pixels", "pixels-setup", "pixels-response"]), st.binary(max_size=40)
    ),
    number=st.integers(1, 6),
    kind=st.sampled_from(["hello-reply", "response", "receipt-reply", "refusal"]),
    session=st.booleans(),
)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_any_signed_nonsense_of_a_server_gives_no_verdict(
    pair: Pair, payload: dict[str, Any], parts: dict[str, bytes], number: int, kind: Any, session: bool
) -> None:
    asked, hello = start(pair.asking)
    # Well-formed half-secrets and sizes are a valid second message, which tells nothing yet.
    assume((kind, set(payload)) != ("hello-reply", {"nonce", "sizes"}))
    named = asked.session if session else "a" * 32
    told = Message(named, number, kind, digest_of(hello), payload, parts)
    with pytest.raises((IntegrityError, UsageError)):
        proceed(pair.asking, asked, seal(pair.south, pair.north.identity, told))
    assert spent(pair.north.folder, pair.south.identity.fingerprint, days=30) == 0


def test_an_answer_of_another_session_gives_no_verdict(pair: Pair) -> None:
    first, _ = pair.request()
    _, other = pair.request()
    with pytest.raises(IntegrityError):
        proceed(pair.asking, first, pair.answered(other))


def test_an_answer_with_fewer_items_than_announced_gives_no_verdict(pair: Pair) -> None:
    asked, sealed = pair.request()
    response = pair.told(pair.answered(sealed))
    cut = replace(response, parts={**response.parts, "pixels-response": b""})
    with pytest.raises(IntegrityError):
        proceed(pair.asking, asked, seal(pair.south, pair.north.identity, cut))


def test_the_answer_of_a_stranger_gives_no_verdict(pair: Pair, tmp_path: Path) -> None:
    create_party(tmp_path / "west", "west")
    asked, sealed = pair.request()
    response = pair.told(pair.answered(sealed))
    stranger = open_party(tmp_path / "west")
    with pytest.raises(IntegrityError):
        proceed(pair.asking, asked, seal(stranger, pair.north.identity, response))


def test_a_release_that_changed_during_the_session_gives_no_verdict(pair: Pair) -> None:
    asked, sealed = pair.request()
    other = replace(pair.asking, items={"pixels": OWN["pixels"][1:]})
    with pytest.raises(IntegrityError, match="has changed"):
        proceed(other, asked, pair.answered(sealed))


def test_patient_identifiers_without_a_contract_are_no_terms() -> None:
    with pytest.raises(UsageError, match="contract"):
        PartnerTerms((Comparison(what="patients", reveal="count", contract=""),))


def test_the_number_of_common_items_is_exact(pair: Pair) -> None:
    asked, sealed = pair.request()
    asked, _ = proceed(pair.asking, asked, pair.answered(sealed))
    assert learned(pair.asking, asked).counts == {"pixels": 5}


@pytest.mark.parametrize("step", range(3))
def test_a_party_that_is_ended_before_it_leaves_a_message_goes_on_with_it(
    pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    folder, ended, left = tmp_path / "exchange", [False], list[int]()
    folder.mkdir()

    def put(*arguments: Any) -> None:
        left.append(arguments[3])
        # The message of this step is kept and never put into the folder, once.
        if len(left) == step + 1 and not ended[0]:
            ended[0] = True
            raise KeyboardInterrupt
        put_message(*arguments)

    monkeypatch.setattr(exchange, "put_message", put)
    counts = list[dict[Any, int]]()
    for _ in range(10):
        with suppress(KeyboardInterrupt):
            counts.append(exchange.ask_by_folder(pair.asking, folder).counts)
        if counts and counts[-1]:
            break
        for session, number, path in list(messages_for(folder, pair.south.identity)):
            if not message_path(folder, pair.north.identity, session, number + 1).exists():
                reply = pair.answered(path.read_bytes())
                put_message(folder, pair.north.identity, session, number + 1, reply)
    assert (ended, counts[-1]) == ([True], {"pixels": 5})


def test_in_cardinality_mode_the_answer_does_not_follow_the_order_of_the_question(
    library: Path,
) -> None:
    items = [f"{number:064x}" for number in range(40)]
    with open_psi(library) as psi:
        blinded = psi.blind(items, reveal=False)
        found = psi.answer(items[30:], blinded.request, asked=40, reveal=False)
        first, second = (
            psi.compare(blinded.key, one, asked=40, answered=10, reveal=False)
            for one in (found, psi.answer(items[30:], blinded.request, asked=40, reveal=False))
        )
    # Sorted by the doubly blinded value, of which the asking party knows no key.
    points = [found.response[place + 2 : place + 35] for place in range(0, len(found.response), 35)]
    assert (points == sorted(points), first, second) == (True, (10, ()), (10, ()))
