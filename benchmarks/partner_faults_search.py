"""Search of everything that two parties exchange and keep for the items of both."""

from __future__ import annotations

import base64
import subprocess
from collections.abc import Callable, Iterable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from medsanitize.federation.messages.sealed import InvalidMessage, Message, open_sealed
from medsanitize.federation.messages.transcript import TRANSCRIPTS
from medsanitize.federation.parties.identity import open_party
from medsanitize.federation.private_overlap.secret import salted_items, session_secret
from medsanitize.pipeline.demo.two_hospitals import DemoHospital, TwoHospitals
from medsanitize.pipeline.jobs.export_ledger import open_for_reading
from medsanitize.pipeline.state.sanitized import links
from medsanitize.policies.load import load
from medsanitize.release.manifest import read_rows

Command = Callable[..., subprocess.CompletedProcess[str]]
# Shorter strings occur in ciphertext by chance.
SHORTEST = 5


def needles(hospital: DemoHospital) -> set[bytes]:
    """Every digest of pixels, identifier and pseudonym of a hospital, in every form of writing."""
    digests = [bytes.fromhex(row.pixels_sha256 or "") for row in read_rows(hospital.release)]
    state = open_for_reading(load(hospital.policy))
    try:
        names = {one for pair in links(state, patients=True) for one in pair}
    finally:
        state.close()
    names |= {row.patient for row in read_rows(hospital.release)}
    raw = [one for digest in digests if digest for one in (digest, sha256(digest).digest())]
    raw += [sha256(name.encode()).digest() for name in names]
    found = {form for one in raw for form in forms(one)}
    found |= {one.encode(encoding) for one in names for encoding in ("utf-8", "utf-16-le", "utf-16-be")}
    return {one for one in found if len(one) >= SHORTEST}


def forms(one: bytes) -> Iterable[bytes]:
    """A digest as bytes, in hexadecimal digits and in base 64."""
    return (one, one.hex().encode(), one.hex().upper().encode(), base64.b64encode(one).rstrip(b"="))


def exchanged(hospitals: TwoHospitals, folder: Path, command: Command) -> list[bytes]:
    """Compare by files; the sealed messages."""
    folder.mkdir()
    asking, answering = hospitals.asking, hospitals.answering
    named = ("--with", answering.name, "--policy", asking.policy, "--offline", folder)
    for _ in range(4):
        command("overlap", asking.release, *named, cwd=folder)
        command("party", "answer", answering.policy, "--offline", folder, cwd=folder)
    return [path.read_bytes() for path in sorted(folder.iterdir())]


def opened(hospitals: TwoHospitals, sealed: Iterable[bytes]) -> list[Message]:
    """The messages as their recipients decrypt them, in order."""
    parties = [open_party(one.folder / "party") for one in (hospitals.asking, hospitals.answering)]
    partners = {one.identity.name: one.identity for one in parties}
    found = []
    for one in sealed:
        for party in parties:
            # The other party cannot open it.
            with suppress(InvalidMessage):
                found.append(open_sealed(party, partners, one)[1])
    return sorted(found, key=lambda message: message.number)


def salted(hospitals: TwoHospitals, messages: Iterable[Message]) -> set[bytes]:
    """The items under the secret of the session, which both parties know: only blinded ones may travel."""
    nonces = {one.number: one.payload.get("nonce") for one in messages}
    session = next(one.session for one in messages)
    secret = session_secret(session, str(nonces[3]), str(nonces[2]))
    found = set()
    for one in (hospitals.asking, hospitals.answering):
        digests = [bytes.fromhex(row.pixels_sha256 or "") for row in read_rows(one.release)]
        for item in salted_items(secret, "pixels", [digest for digest in digests if digest]):
            found |= {*forms(bytes.fromhex(item))}
    return found


def count_found(
    hospitals: TwoHospitals, folder: Path, recorded: bytes, command: Command
) -> tuple[int, int, int]:
    """Search what was recorded and exchanged; numbers of forms, of bytes, and of forms that were found."""
    sealed = exchanged(hospitals, folder, command)
    messages = opened(hospitals, sealed)
    if len(messages) != 6:
        raise SystemExit("The comparison by files did not end.")
    plain = [repr(dict(one.payload)).encode() for one in messages]
    parts = [part for one in messages for part in one.parts.values()]
    kept = [
        path.read_bytes()
        for one in (hospitals.asking, hospitals.answering)
        for path in (one.folder / "party" / TRANSCRIPTS).iterdir()
    ]
    content = b"\n".join([recorded, *sealed, *plain, *parts, *kept])
    wanted = needles(hospitals.asking) | needles(hospitals.answering) | salted(hospitals, messages)
    return len(wanted), len(content), sum(one in content for one in wanted)
