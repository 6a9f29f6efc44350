"""Secure aggregation: sums are exact, dropouts do not matter, and nobody is talked into showing a vector."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from medsanitize.errors import IntegrityError, UsageError
from medsanitize.federation.messages.frame import packed, unpacked
from medsanitize.federation.parties.identity import LocalParty, create_party, open_party
from medsanitize.federation.secure_aggregation.aggregation import Aggregation, threshold_for
from medsanitize.federation.secure_aggregation.collector import added, remove_masks
from medsanitize.federation.secure_aggregation.fixed_point import decoded, encoded, fractional_bits
from medsanitize.federation.secure_aggregation.masks import add_mask, agreed_key
from medsanitize.federation.secure_aggregation.member import Member
from medsanitize.federation.secure_aggregation.secret_sharing import combined_secret, split_secret
from numpy.typing import NDArray

pytestmark = pytest.mark.federated
NAMES = ("north", "south", "east", "west")
LENGTH = 1000


@pytest.fixture(scope="module")
def parties(tmp_path_factory: pytest.TempPathFactory) -> dict[str, LocalParty]:
    root = tmp_path_factory.mktemp("parties")
    for name in (*NAMES, "stranger"):
        create_party(root / name, name)
    return {name: open_party(root / name) for name in (*NAMES, "stranger")}


@dataclass
class Round:
    """Members and what they have sent."""

    aggregation: Aggregation
    members: dict[str, Member]
    vectors: dict[str, NDArray[np.uint64]]
    roster: dict[str, bytes]
    sent: dict[str, Mapping[str, bytes]]

    def incoming(self, name: str, senders: Sequence[str]) -> dict[str, bytes]:
        return {one: self.sent[one][name] for one in senders if one != name}

    def masked(self, name: str, senders: Sequence[str]) -> bytes:
        return self.members[name].masked(self.incoming(name, senders), lambda: self.vectors[name])

    def sum_of(self, senders: Sequence[str], taken: Sequence[str], end: Sequence[str]) -> NDArray[np.uint64]:
        """Sum of the vectors of ``taken``; those of ``end`` are there until the end."""
        masked = {name: self.masked(name, senders) for name in taken}
        signatures = {name: self.members[name].agree(taken) for name in end}
        shares = {name: self.members[name].unmask(signatures) for name in end}
        total = added(masked.values(), LENGTH)
        remove_masks(total, self.aggregation, self.roster, senders, shares, taken)
        return total


def started(folder: Path, parties: Mapping[str, LocalParty], names: Sequence[str] = NAMES) -> Round:
    aggregation = Aggregation(b"p" * 32, tuple(names), threshold_for(len(names), 3))
    known = {name: parties[name].identity for name in names}
    members = {name: Member(folder / name, aggregation, parties[name], known) for name in names}
    draw = np.random.default_rng(0)
    vectors = {name: draw.integers(0, 2**64, LENGTH, np.uint64) for name in names}
    roster = {}
    for name, member in members.items():
        parts = member.keys()
        roster[name] = parts["keys"] + parts["signature"]
    sent = {name: member.shares(roster) for name, member in members.items()}
    return Round(aggregation, members, vectors, roster, sent)


def test_the_sum_is_exact(tmp_path: Path, parties: Mapping[str, LocalParty]) -> None:
    found = started(tmp_path, parties)
    total = found.sum_of(NAMES, NAMES, NAMES)
    assert np.array_equal(total, sum(found.vectors.values()))


@pytest.mark.parametrize("gone", NAMES)
def test_a_site_that_dies_before_its_vector_is_left_out(
    gone: str, tmp_path: Path, parties: Mapping[str, LocalParty]
) -> None:
    found, rest = started(tmp_path, parties), [name for name in NAMES if name != gone]
    total = found.sum_of(NAMES, rest, rest)
    assert np.array_equal(total, sum(found.vectors[name] for name in rest))


def test_a_site_that_dies_after_its_vector_is_added(
    tmp_path: Path, parties: Mapping[str, LocalParty]
) -> None:
    found = started(tmp_path, parties)
    total = found.sum_of(NAMES, NAMES, NAMES[1:])
    assert np.array_equal(total, sum(found.vectors.values()))


def test_no_masked_vector_shows_its_numbers(tmp_path: Path, parties: Mapping[str, LocalParty]) -> None:
    found = started(tmp_path, parties)
    for name in NAMES:
        masked = np.frombuffer(found.masked(name, NAMES), "<u8")
        assert not np.isin(masked, found.vectors[name]).any()
        # Also not minus any one mask, which a colluding member knows.
        for other in NAMES:
            if other != name:
                both = np.frombuffer(found.masked(other, NAMES), "<u8")
                assert not np.isin(masked + both, found.vectors[name] + found.vectors[other]).any()


def test_a_returning_member_sends_the_same_again(tmp_path: Path, parties: Mapping[str, LocalParty]) -> None:
    found = started(tmp_path, parties)
    before = found.masked("north", NAMES)
    north = found.members["north"]
    again = Member(north.folder, found.aggregation, north.party, north.identities)
    assert again.keys()["keys"] == found.roster["north"][:64]
    assert again.shares({}) == found.sent["north"]
    # Another vector under the same mask would show the difference of both.
    assert again.masked({}, lambda: pytest.fail("computed twice")) == before


def test_no_member_signs_two_lists(tmp_path: Path, parties: Mapping[str, LocalParty]) -> None:
    found = started(tmp_path, parties)
    for name in NAMES:
        found.masked(name, NAMES)
    found.members["north"].agree(NAMES)
    with pytest.raises(IntegrityError, match="two different lists"):
        found.members["north"].agree(NAMES[:3])


def test_too_few_members_are_refused_at_every_stage(
    tmp_path: Path, parties: Mapping[str, LocalParty]
) -> None:
    found = started(tmp_path / "a", parties)
    north = found.members["north"]
    fresh = Member(tmp_path / "fresh", found.aggregation, north.party, north.identities)
    fresh.keys()
    with pytest.raises(IntegrityError, match="too few"):
        fresh.shares({name: found.roster[name] for name in NAMES[:2]})
    with pytest.raises(IntegrityError, match="too few"):
        north.masked(found.incoming("north", NAMES[:2]), lambda: found.vectors["north"])
    found.masked("north", NAMES)
    with pytest.raises(IntegrityError, match="too few"):
        north.agree(NAMES[:2])
    north.agree(NAMES)
    with pytest.raises(IntegrityError, match="too few"):
        north.unmask({"north": north.agree(NAMES)})


def test_keys_and_lists_that_their_member_did_not_sign_are_refused(
    tmp_path: Path, parties: Mapping[str, LocalParty]
) -> None:
    found = started(tmp_path / "a", parties)
    south = found.members["south"]
    # The server puts a key of its own in the place of west's, to open what is encrypted for west.
    false = Member(tmp_path / "false", found.aggregation, parties["stranger"], south.identities)
    keys = false.keys()
    forged = {**found.roster, "west": keys["keys"] + keys["signature"]}
    fresh = Member(tmp_path / "fresh", found.aggregation, south.party, south.identities)
    fresh.keys()
    with pytest.raises(IntegrityError, match="signature"):
        fresh.shares(forged)
    for name in NAMES:
        found.masked(name, NAMES)
    signatures = {name: found.members[name].agree(NAMES) for name in NAMES}
    with pytest.raises(IntegrityError, match="signature"):
        south.unmask({**signatures, "west": signatures["east"]})


def test_fewer_than_three_members_are_refused() -> None:
    with pytest.raises(UsageError, match="fewer than 3"):
        Aggregation(b"p" * 32, ("north", "south"), 2)
    with pytest.raises(UsageError, match="fewer than 3"):
        Aggregation(b"p" * 32, NAMES, 2)


def test_a_mask_depends_on_every_bit_of_its_key() -> None:
    """Flower's masks depend on 32 bits: the XOR of the words of the key."""
    keys = [bytes(32), bytes([0, 0, 0, 1] * 2 + [0] * 24), bytes([0] * 31 + [1])]
    masks = []
    for key in keys:
        vector = np.zeros(LENGTH, np.uint64)
        add_mask(vector, key)
        masks.append(vector)
    assert not any(np.isin(masks[0], other).any() for other in masks[1:])
    add_mask(masks[0], keys[0], subtract=True)
    assert not masks[0].any()


def test_both_ends_agree_on_a_key_for_one_purpose_only(parties: Mapping[str, LocalParty]) -> None:
    north, south = (parties[name].sealing_key.private_bytes_raw() for name in NAMES[:2])
    public = [parties[name].sealing_key.public_key().public_bytes_raw() for name in NAMES[:2]]
    assert agreed_key(north, public[1], b"a") == agreed_key(south, public[0], b"a")
    assert agreed_key(north, public[1], b"a") != agreed_key(north, public[1], b"b")


def test_shares_below_the_threshold_do_not_give_the_secret() -> None:
    secret = bytes(range(32))
    shares = split_secret(secret, 3, 5)
    assert combined_secret({0: shares[0], 2: shares[2], 4: shares[4]}) == secret
    assert combined_secret({0: shares[0], 4: shares[4]}) != secret


def test_sums_in_fixed_point_are_exact_in_any_order() -> None:
    draw = np.random.default_rng(1)
    parts = [draw.normal(size=LENGTH) * 1000 for _ in range(5)]
    bits = fractional_bits(1e6)
    whole = [encoded(part, bits, 5) for part in parts]
    forward, backward = sum(whole), sum(reversed(whole))
    assert np.array_equal(forward, backward)
    assert np.abs(decoded(forward, bits) - sum(parts)).max() <= 5 * 2.0 ** -(bits + 1) + 1e-9


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e9])
def test_what_could_overflow_is_refused(value: float) -> None:
    bits = fractional_bits(1e6)
    with pytest.raises(UsageError, match="not finite, or larger"):
        encoded(np.array([0.0, value]), bits, 3)


def test_the_largest_accepted_values_do_not_overflow() -> None:
    bits, parties = 20, 3
    most = np.nextafter(2.0**63 / parties / 2.0**bits, 0) - 1
    for sign in (1, -1):
        one = encoded(np.array([sign * most]), bits, parties)
        assert decoded(one + one + one, bits)[0] == pytest.approx(sign * 3 * most)


@pytest.mark.parametrize("frame", [b"", b"\x00\x00\x00\x02{}", b"\xff\xff\xff\xff", packed({"a": 1})[:-1]])
def test_malformed_frames_are_refused(frame: bytes) -> None:
    with pytest.raises(IntegrityError):
        unpacked(frame)


def test_a_frame_returns_what_was_packed() -> None:
    facts, parts = {"b": [1, "x"]}, {"one": b"\x00\x01", "two": b""}
    assert unpacked(packed(facts, parts)) == (facts, parts)
