"""Identities and trust: who is accepted, and under which conditions."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from medsanitize.errors import IntegrityError, KeyMaterialError, UsageError
from medsanitize.federation.parties.identity import (
    IDENTITY,
    SIGNING_KEY,
    create_party,
    open_party,
    read_identity,
)
from medsanitize.federation.parties.trust import grouped, trust_partner, trusted_partners


def test_private_keys_can_be_read_by_their_owner_only(tmp_path: Path) -> None:
    create_party(tmp_path / "party", "north")
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "party").glob("*ing.pem")}
    assert modes == {"sealing.pem": 0o600, "signing.pem": 0o600}


def test_a_party_folder_is_never_overwritten(tmp_path: Path) -> None:
    create_party(tmp_path / "party", "north")
    with pytest.raises(UsageError, match="exists already"):
        create_party(tmp_path / "party", "north")


@pytest.mark.parametrize("name", ["", "North", "a b", "-north", "north/..", "n" * 41])
def test_a_name_that_is_no_file_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="name of the party"):
        create_party(tmp_path / "party", name)


def test_a_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    create_party(tmp_path / "party", "north")
    (tmp_path / "party" / SIGNING_KEY).chmod(0o644)
    with pytest.raises(KeyMaterialError, match="other users"):
        open_party(tmp_path / "party")


def test_a_partner_is_trusted_after_its_fingerprint_was_compared(tmp_path: Path) -> None:
    create_party(tmp_path / "north", "north")
    partner = create_party(tmp_path / "south", "south")
    own = open_party(tmp_path / "north")
    trust_partner(own, tmp_path / "south" / IDENTITY, grouped(partner.fingerprint).upper())
    assert trusted_partners(own) == {"south": partner}


def test_a_partner_with_another_fingerprint_is_not_trusted(tmp_path: Path) -> None:
    create_party(tmp_path / "north", "north")
    create_party(tmp_path / "south", "south")
    with pytest.raises(UsageError, match="fingerprint"):
        trust_partner(open_party(tmp_path / "north"), tmp_path / "south" / IDENTITY, "0" * 64)


def test_new_keys_under_a_trusted_name_are_not_trusted_silently(tmp_path: Path) -> None:
    create_party(tmp_path / "north", "north")
    own = open_party(tmp_path / "north")
    for folder in ("south", "other"):
        create_party(tmp_path / folder, "south")
    first, second = (read_identity(tmp_path / one / IDENTITY) for one in ("south", "other"))
    trust_partner(own, tmp_path / "south" / IDENTITY, first.fingerprint)
    with pytest.raises(UsageError, match="trusted already"):
        trust_partner(own, tmp_path / "other" / IDENTITY, second.fingerprint)


@pytest.mark.parametrize("member", ["name", "certificate", "sealing_key", "signature"])
def test_an_identity_file_with_a_changed_member_is_refused(tmp_path: Path, member: str) -> None:
    create_party(tmp_path / "south", "south")
    create_party(tmp_path / "other", "other")
    path = tmp_path / "south" / IDENTITY
    facts, others = (json.loads((tmp_path / one / IDENTITY).read_text()) for one in ("south", "other"))
    path.write_text(json.dumps({**facts, member: others[member]}))
    with pytest.raises(IntegrityError):
        read_identity(path)
