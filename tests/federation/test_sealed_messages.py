"""Sealed messages: only the recipient reads them, and only as the sender wrote them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from medsanitize.federation.messages.sealed import InvalidMessage, Message, open_sealed, seal
from medsanitize.federation.parties.identity import LocalParty, create_party, open_party

MESSAGE = Message("0" * 32, 1, "hello", None, {"said": "something"}, {"part": b"SECRET" * 9})


@pytest.fixture(scope="module")
def parties(tmp_path_factory: pytest.TempPathFactory) -> tuple[LocalParty, LocalParty, LocalParty]:
    base: Path = tmp_path_factory.mktemp("parties")
    for name in ("north", "south", "west"):
        create_party(base / name, name)
    return open_party(base / "north"), open_party(base / "south"), open_party(base / "west")


def test_the_recipient_reads_what_the_sender_sealed(
    parties: tuple[LocalParty, LocalParty, LocalParty],
) -> None:
    north, south, _ = parties
    sender, message = open_sealed(south, {"north": north.identity}, seal(north, south.identity, MESSAGE))
    assert (sender, message) == (north.identity, MESSAGE)


def test_a_sealed_message_does_not_contain_its_content(
    parties: tuple[LocalParty, LocalParty, LocalParty],
) -> None:
    north, south, _ = parties
    assert b"SECRET" not in seal(north, south.identity, MESSAGE)


def test_another_party_cannot_open_a_message(parties: tuple[LocalParty, LocalParty, LocalParty]) -> None:
    north, south, west = parties
    with pytest.raises(InvalidMessage):
        open_sealed(west, {"north": north.identity}, seal(north, south.identity, MESSAGE))


def test_a_message_of_a_party_that_is_not_trusted_is_refused(
    parties: tuple[LocalParty, LocalParty, LocalParty],
) -> None:
    north, south, west = parties
    with pytest.raises(InvalidMessage):
        open_sealed(south, {"north": north.identity}, seal(west, south.identity, MESSAGE))


def test_a_message_under_another_party_s_name_is_refused(
    parties: tuple[LocalParty, LocalParty, LocalParty],
) -> None:
    north, south, west = parties
    # The keys of west, the identity of north.
    forged = LocalParty(west.folder, north.identity, west.signing_key, west.sealing_key)
    with pytest.raises(InvalidMessage):
        open_sealed(south, {"north": north.identity}, seal(forged, south.identity, MESSAGE))


@given(place=st.integers(0, 10_000), bit=st.integers(0, 7), cut=st.integers(0, 10_000))
def test_a_changed_or_shortened_message_is_refused(
    parties: tuple[LocalParty, LocalParty, LocalParty], place: int, bit: int, cut: int
) -> None:
    north, south, _ = parties
    sealed = bytearray(seal(north, south.identity, MESSAGE))
    sealed[place % len(sealed)] ^= 1 << bit
    for damaged in (bytes(sealed), bytes(sealed[: cut % len(sealed)])):
        with pytest.raises(InvalidMessage):
            open_sealed(south, {"north": north.identity}, damaged)


@given(content=st.binary(max_size=300))
def test_arbitrary_bytes_are_refused(
    parties: tuple[LocalParty, LocalParty, LocalParty], content: bytes
) -> None:
    north, south, _ = parties
    with pytest.raises(InvalidMessage):
        open_sealed(south, {"north": north.identity}, content)
