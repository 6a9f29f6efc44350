"""The demo of two hospitals: exports with common patients, their releases, and a private comparison of them.

The parties are real processes, started as users start them: one serves, the other asks, over mutual TLS on
loopback.
"""

from __future__ import annotations

import csv
import json
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from medsanitize.errors import EnvironmentFailure
from medsanitize.pipeline.demo.prepare import require_empty
from medsanitize.release.atomic_io import storage_errors

NAMES: Final = ("north-hospital", "south-hospital")
_INSTITUTIONS: Final = ("Ashby Hollow General Hospital", "Larkspur Bay Infirmary")
_SIDE: Final = 128
_SECONDS: Final = 600
# The one place that states what the hospitals agree on.
_POLICY: Final = """\
version: 1
preset: ps3.15-basic
release: {{name: radiographs, version: "1.0", mode: pseudonymous}}
inputs: [./export]
output: ./release
state: ./state
keys: {{file: ./release.key}}
validation: "off"
partners:
  party: ./party
  listen: "{listen}"
  agreements:
    - partner: {partner}
      compare: [pixels]
      reveal: items
      smallest: {smallest}
"""


@dataclass(frozen=True, slots=True)
class DemoHospital:
    """One hospital of the demo.

    Attributes
    ----------
    name
        Name of the party.
    policy
        Its policy; export, keys, party and release are beside it.
    images
        Number of exported images.
    patients
        Its patients' identifiers, by number of the phantom.
    """

    name: str
    policy: Path
    images: int
    patients: dict[int, str]

    @property
    def folder(self) -> Path:
        """The folder of everything that belongs to the hospital."""
        return self.policy.parent

    @property
    def release(self) -> Path:
        """Where its release is published."""
        return self.folder / "release"


@dataclass(frozen=True, slots=True)
class TwoHospitals:
    """The prepared demo: who asks, who answers, at which address, and the phantoms that both treated."""

    asking: DemoHospital
    answering: DemoHospital
    address: str
    shared: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LearnedByBoth:
    """What each hospital knows after the comparison, read from its own files.

    Attributes
    ----------
    result
        The verdict of the asking party.
    images, patients
        Common images that the asking party has found, and the patients that they show.
    right
        How many of these patients both hospitals have treated.
    sizes
        Number of different images of the other party, as the asking and as the answering one has learned it.
    transcript
        The transcript, equal at both.
    """

    result: str
    images: int
    patients: int
    right: int
    sizes: tuple[int, int]
    transcript: Path


def prepare_two_hospitals(folder: Path, *, patients: int = 40, shared: int = 3) -> TwoHospitals:
    """Create exports, policies, keys and mutual trust of two hospitals in a new folder.

    Each patient has two radiographs. Shared patients have another number at each hospital; one of their
    radiographs was sent from one to the other, the second ones differ.

    Parameters
    ----------
    folder : Path
        A new or empty folder.
    patients, shared : int
        Patients of each hospital, and how many both have treated.

    Raises
    ------
    UsageError
        The folder is not empty, or an extra is not installed.
    """
    from medsanitize.pipeline.runtime.optional_dependencies import check_extra

    require_empty(folder)
    check_extra("party")
    port = free_port()
    hospitals = []
    with storage_errors():
        for place, first in enumerate((0, patients - shared)):
            hospitals.append(_hospital(folder, place, range(first, first + patients), port))
    for one, other in (hospitals, hospitals[::-1]):
        _trust(one, other)
    common = tuple(range(patients - shared, patients))
    return TwoHospitals(hospitals[0], hospitals[1], f"https://127.0.0.1:{port}", common)


def install_for_both(hospitals: TwoHospitals, wheels: Path | None) -> None:
    """Install the library for private set intersection at both parties, as ``party install`` does."""
    from medsanitize.federation.libraries.install import install_library
    from medsanitize.federation.psi.install import PSI

    for one in (hospitals.asking, hospitals.answering):
        install_library(PSI, one.folder / "party", wheels)


def compare_hospitals(hospitals: TwoHospitals) -> LearnedByBoth:
    """Start both parties, let one ask the other, and read what each has learned.

    Raises
    ------
    EnvironmentFailure
        A process ended without a result.
    """
    asking, answering = hospitals.asking, hospitals.answering
    # Only now: with an address, the hospital's own run would have asked before it published.
    text = asking.policy.read_text(encoding="utf-8")
    with storage_errors():
        asking.policy.write_text(f"{text}      address: {hospitals.address}\n", encoding="utf-8")
    with _serving(answering):
        done = subprocess.run(  # noqa: S603  this program
            [*_program(asking_command(hospitals)), "--json"],
            capture_output=True,
            check=False,
            timeout=_SECONDS,
        )
    told = _result(done.stdout)
    common = _common_patients(asking)
    transcript = asking.folder / "party" / "transcripts" / f"{told['session']}.json"
    return LearnedByBoth(
        result=told["result"],
        images=len(common),
        patients=len(set(common)),
        right=len({asking.patients[one] for one in hospitals.shared}.intersection(common)),
        sizes=(
            json.loads(transcript.read_bytes())["answering_sizes"]["pixels"],
            json.loads((answering.folder / "party" / "queries.jsonl").read_bytes())["other"]["pixels"],
        ),
        transcript=transcript,
    )


def serving_command(hospital: DemoHospital) -> list[str]:
    """Return the arguments of the answering party's command."""
    return ["party", "serve", str(hospital.policy)]


def asking_command(hospitals: TwoHospitals) -> list[str]:
    """Return the arguments of the asking party's command."""
    asking = hospitals.asking
    named = ["--with", hospitals.answering.name, "--policy", str(asking.policy)]
    return ["overlap", str(asking.release), *named, "--output", str(asking.folder / "common")]


def result_lines(hospitals: TwoHospitals, learned: LearnedByBoth) -> list[str]:
    """Say what was compared and what each party learned."""
    asking, answering = hospitals.asking, hospitals.answering
    wrong = learned.patients - learned.right
    return [
        *(f"{one.name}: {len(one.patients)} patients, {one.images} images released." for one in
          (asking, answering)),
        f"{len(hospitals.shared)} patients were treated at both, under other numbers; one image of each was"
        " sent from one hospital to the other.",
        "",
        f"{answering.name} answers:  medsanitize {' '.join(serving_command(answering))}",
        f"{asking.name} asks:     medsanitize {' '.join(asking_command(hospitals))}",
        "",
        f"{asking.name} learned: {learned.images} of its {asking.images} images are common. They show"
        f" {learned.right} of the {len(hospitals.shared)} shared patients, and {wrong} others."
        f" {answering.name} has {learned.sizes[0]} different images.",
        f"{answering.name} learned: {asking.name} has {learned.sizes[1]} different images. Nothing about the"
        " result.",
        "Not compared: the other images of the same patients.",
        f"Signed by both:     {learned.transcript}",
    ]  # fmt: skip


# -- preparation ------------------------------------------------------------------------------


def _hospital(folder: Path, place: int, phantoms: range, port: int) -> DemoHospital:
    from medsanitize.federation.parties.identity import create_party
    from medsanitize.policies.release_key import generate_release_key

    own = folder / NAMES[place]
    numbers = {phantom: f"{'NS'[place]}{4000 + 7 * phantom}" for phantom in phantoms}
    images = 0
    for phantom, number in numbers.items():
        # Visit 0 is the one that is sent; the visits of the hospitals differ.
        for visit in (0, place + 1):
            _write_radiograph(own / "export" / number / f"{visit}.dcm", phantom, visit, number, place)
            images += 1
    generate_release_key(own / "release.key")
    create_party(own / "party", NAMES[place])
    policy = own / "policy.yaml"
    content = _POLICY.format(
        partner=NAMES[1 - place],
        listen=f"127.0.0.1:{port if place else 0}",
        smallest=min(20, images),
    )
    policy.write_text(content, encoding="utf-8")
    return DemoHospital(NAMES[place], policy, images, numbers)


def _write_radiograph(path: Path, phantom: int, visit: int, number: str, place: int) -> None:
    """Write a radiograph of a phantom, with the identifiers of one hospital."""
    import numpy as np
    from medsanitize.generators.phantoms.chest import chest_phantom
    from medsanitize.pipeline.demo.images import set_pixels
    from pydicom.dataset import Dataset, FileMetaDataset
    from pydicom.uid import DigitalXRayImageStorageForPresentation, ExplicitVRLittleEndian, generate_uid

    image = Dataset()
    image.SOPClassUID = DigitalXRayImageStorageForPresentation
    # UIDs are kept when an image is sent; identifiers are those of the receiving hospital.
    for keyword in ("StudyInstanceUID", "SeriesInstanceUID", "SOPInstanceUID"):
        setattr(image, keyword, generate_uid(entropy_srcs=["demo", keyword, str(phantom), str(visit)]))
    image.PatientID, image.PatientName = number, f"Phantom^Number{number}"
    image.InstitutionName = _INSTITUTIONS[place]
    image.PatientBirthDate, image.PatientSex = "19600101", "O"
    image.StudyDate, image.StudyTime, image.AccessionNumber = "20240105", "101500", f"A{number}"
    image.ReferringPhysicianName, image.StudyID, image.Manufacturer = "", "1", "Acme Imaging"
    image.SeriesNumber, image.InstanceNumber, image.Modality = 1, visit + 1, "DX"
    image.BodyPartExamined, image.ViewPosition, image.ImageLaterality = "CHEST", "PA", "U"
    image.ImageType = ["ORIGINAL", "PRIMARY", ""]
    image.PresentationIntentType, image.BurnedInAnnotation = "FOR PRESENTATION", "NO"
    image.PixelIntensityRelationship, image.PixelIntensityRelationshipSign = "LIN", 1
    image.RescaleIntercept, image.RescaleSlope, image.RescaleType = "0", "1", "US"
    image.PresentationLUTShape, image.LossyImageCompression = "IDENTITY", "00"
    image.AcquisitionContextSequence = []
    set_pixels(image, np.rint(chest_phantom(phantom, visit, size=_SIDE) * 255).astype(np.uint8))
    image.file_meta = FileMetaDataset()
    image.file_meta.MediaStorageSOPClassUID = image.SOPClassUID
    image.file_meta.MediaStorageSOPInstanceUID = image.SOPInstanceUID
    image.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    path.parent.mkdir(parents=True, exist_ok=True)
    image.save_as(path, enforce_file_format=True)


def _trust(one: DemoHospital, other: DemoHospital) -> None:
    from medsanitize.federation.parties.identity import IDENTITY, open_party, read_identity
    from medsanitize.federation.parties.trust import trust_partner

    file = other.folder / "party" / IDENTITY
    trust_partner(open_party(one.folder / "party"), file, read_identity(file).fingerprint)


def free_port() -> int:
    """Return a port that is free now, so that policies can name it."""
    with socket.socket() as tried:
        tried.bind(("127.0.0.1", 0))
        return int(tried.getsockname()[1])


# -- processes --------------------------------------------------------------------------------


def _program(arguments: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", "medsanitize", *arguments]


@contextmanager
def _serving(hospital: DemoHospital) -> Iterator[None]:
    """Run ``party serve`` until the comparison is over."""
    command = [*_program(serving_command(hospital)), "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as server:  # noqa: S603  this program
        try:
            # The line is printed when connections are accepted, or when the process fails.
            _result(server.stdout.readline() if server.stdout is not None else b"")
            yield
        finally:
            server.terminate()


def _result(output: bytes) -> dict[str, Any]:
    """Return what a command has printed with ``--json``."""
    try:
        told: dict[str, Any] = json.loads(output.splitlines()[-1])
    except (ValueError, IndexError):
        raise EnvironmentFailure(
            "A party of the demo ended without a result", "Run the demo again in a new folder"
        ) from None
    if told.get("type") == "error":
        raise EnvironmentFailure(
            f"A party of the demo failed: {told['message']}", "Run the demo again in a new folder"
        )
    return told


def _common_patients(hospital: DemoHospital) -> list[str]:
    """Return the patient of each image that the asking party has found to be common."""
    from medsanitize.pipeline.resume import open_for_reading
    from medsanitize.pipeline.state.sanitized import links
    from medsanitize.policies.load import load
    from medsanitize.release.manifest import read_rows

    with (hospital.folder / "common" / "common.csv").open(newline="", encoding="utf-8") as file:
        found = {row["item"] for row in csv.DictReader(file)}
    state = open_for_reading(load(hospital.policy))
    try:
        old_of = {new: old for old, new in links(state, patients=True)}
    finally:
        state.close()
    return [old_of[row.patient] for row in read_rows(hospital.release) if row.path in found]
