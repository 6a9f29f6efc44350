"""Two hospitals with a published release each, parties that trust each other, and an agreement."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from medsanitize.federation.libraries.install import install_library
from medsanitize.federation.parties.identity import LocalParty, create_party, open_party
from medsanitize.federation.parties.trust import trust_partner
from medsanitize.federation.psi.install import PSI
from medsanitize.pipeline.run import Options, run
from medsanitize.policies.model import Policy

from tests.helpers.hospital import prepare, write_ct

NAMES = ("north-hospital", "south-hospital")
IMAGES = 12
COMMON = 3


@dataclass(frozen=True, slots=True)
class Hospital:
    """A hospital: its folder and its policy."""

    folder: Path
    policy: Policy

    @property
    def release(self) -> Path:
        return Path(str(self.policy.output))

    @property
    def party(self) -> Path:
        return self.folder / "party"


def agreement(partner: str, **changes: object) -> str:
    """The section ``partners`` of a policy with one agreement, as YAML in one line."""
    return agreements([partner], **changes)


def agreements(partners: Sequence[str], **changes: object) -> str:
    """The section ``partners`` of a policy with the same terms for several partners."""
    said = ", ".join(f"{name}: {value}" for name, value in {"smallest": 5, **changes}.items())
    rows = ", ".join(f"{{partner: {partner}, {said}}}" for partner in partners)
    return f'{{party: ./party, listen: "127.0.0.1:0", agreements: [{rows}]}}'


def write_agreements(hospital: Hospital, partners: Sequence[str], **changes: object) -> Path:
    """Write other agreements into the policy of a hospital."""
    path = hospital.folder / "policy.yaml"
    section = f"partners: {agreements(partners, **changes)}"
    path.write_text(re.sub(r"(?m)^partners: .*$", lambda _: section, path.read_text()))
    return path


def third_party(folder: Path, hospital: Hospital) -> LocalParty:
    """Another party, which a hospital trusts, and which trusts it."""
    create_party(folder, "west-hospital")
    west, own = open_party(folder), open_party(hospital.party)
    trust_partner(own, folder / "identity.json", west.identity.fingerprint)
    trust_partner(west, hospital.party / "identity.json", own.identity.fingerprint)
    return west


@contextmanager
def serving(hospital: Hospital) -> Iterator[str]:
    """Start `party serve` in its own process; yields its address."""
    with started(["party", "serve", str(hospital.folder / "policy.yaml")]) as (address, _):
        yield address


@contextmanager
def started(arguments: Sequence[str]) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Start a command that serves; yields its address and its process."""
    command = [sys.executable, "-m", "medsanitize", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            told = process.stdout.readline()
            found = re.search(r"port (\d+)", told)
            assert found, process.stderr and process.stderr.read()
            yield f"https://127.0.0.1:{found[1]}", process
        finally:
            process.terminate()
            process.wait(timeout=30)


def two_hospitals(base: Path, library: Path, **changes: object) -> tuple[Hospital, Hospital]:
    """Publish a release at each hospital; the last images of the first are the first of the second."""
    hospitals = []
    for place, name in enumerate(NAMES):
        folder = base / name
        policy = prepare(folder, partners=agreement(NAMES[1 - place], **changes))
        first = place * (IMAGES - COMMON)
        for number in range(first, first + IMAGES):
            write_ct(folder / "export" / f"{number}.dcm", number, f"PATIENT{number}", number)
        create_party(folder / "party", name)
        shutil.copytree(library, PSI.of(folder / "party"))
        run(policy, Options(workers=1))
        hospitals.append(Hospital(folder, policy))
    for one, other in ((0, 1), (1, 0)):
        identity = open_party(hospitals[other].party).identity
        file = hospitals[other].party / "identity.json"
        trust_partner(open_party(hospitals[one].party), file, identity.fingerprint)
    return hospitals[0], hospitals[1]


def installed_library(folder: Path) -> Path:
    """Install the library of private comparisons as `party install` does."""
    install_library(PSI, folder, None)
    return PSI.of(folder)
