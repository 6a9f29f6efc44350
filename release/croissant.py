"""croissant.json: the release in MLCommons Croissant 1.1, for data loaders."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from medsanitize.policies.model import Contact
from medsanitize.release import layout
from medsanitize.release.checksums import digest_file
from medsanitize.release.dataset_card.documents import croissant_record_set
from medsanitize.release.manifest import OBJECT_SCHEMA, PATIENT_SCHEMA
from medsanitize.release.multi_file_objects import SLIDE_FORMATS
from medsanitize.release.research_index import INDEX_SCHEMA
from medsanitize.release.summary import Summary, synthesis_statement

CONFORMS_TO: Final = "http://mlcommons.org/croissant/1.1"
_PARQUET: Final = "application/x-parquet"
# Terms and context as the Croissant 1.1 specification lists them.
_TERMS: Final = """
arrayShape citeAs column containedIn equivalentProperty extract field fileProperty fileObject fileSet format
includes isArray isLiveDataset jsonPath key md5 parentField path recordSet references regex repeated replace
samplingRate separator source subField transform
"""
_CONTEXT: Final[dict[str, Any]] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "dct": "http://purl.org/dc/terms/",
    "sc": "https://schema.org/",
    "conformsTo": "dct:conformsTo",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "description": {"@container": "@language"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "name": {"@container": "@language"},
    **{term: f"cr:{term}" for term in _TERMS.split()},
}


def croissant_document(summary: Summary, staging: Path) -> dict[str, Any]:
    """Return the Croissant document of a staged release; manifests and tables are hashed."""
    release, drawn = summary.release, synthesis_statement(summary)
    document: dict[str, Any] = {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": CONFORMS_TO,
        "name": release.name,
        "version": release.version,
        "isLiveDataset": False,
        "keywords": ["DICOM", "medical imaging", *_modalities(summary)],
        "rai:hasSyntheticData": drawn is not None,
        "rai:personalSensitiveInformation": [_sensitive(summary)],
        "distribution": _distribution(summary, staging),
        "recordSet": [
            _record_set(
                "objects", "One row per object.", OBJECT_SCHEMA, _objects_source(staging), ("object_id",)
            ),
            _record_set(
                "patients",
                "One row per patient.",
                PATIENT_SCHEMA,
                {"fileObject": _id("patients.parquet")},
                ("patient",),
            ),
            _record_set(
                "index",
                "What the header of each object says, one row per object.",
                INDEX_SCHEMA,
                {"fileObject": _id("index.parquet")},
                ("object_id",),
            ),
            *([] if summary.card is None else [croissant_record_set(summary.card)]),
        ],
    }
    optional = {
        "description": release.description,
        "rai:dataCollection": drawn.sentence if drawn else None,
        "license": release.license,
        "datePublished": release.date,
        "creator": _agent(release.creator),
        "publisher": _agent(release.contact),
    }
    return document | {name: value for name, value in optional.items() if value is not None}


def _modalities(summary: Summary) -> list[str]:
    # Beside noisy figures, a modality that only one patient has must not be named.
    return [] if summary.card is not None else sorted(name for name in summary.modalities if name)


def _id(name: str) -> dict[str, str]:
    return {"@id": name}


def _agent(contact: Contact | None) -> dict[str, str] | None:
    if contact is None:
        return None
    facts = {"@type": "sc:Organization", "name": contact.name, "email": contact.email, "url": contact.url}
    return {name: value for name, value in facts.items() if value is not None}


def _sensitive(summary: Summary) -> str:
    options = ", ".join(code for code, _ in summary.options) or "none"
    return (
        f"Images of patients, {summary.release.mode}, de-identified under the preset {summary.preset} "
        f"(CID 7050 codes: {options}). report.html lists which checks were run and which were not."
    )


def _distribution(summary: Summary, staging: Path) -> list[dict[str, Any]]:
    parts = layout.object_manifests(staging)
    described = [(path, "Object manifest: one row per object.") for path in parts]
    described.append((staging / layout.PATIENTS, "Patient manifest: one row per patient."))
    described.append((staging / layout.INDEX, "Research index: what the released headers say, by object."))
    files = [_file_object(path, staging, _PARQUET, text) for path, text in described]
    for table in summary.tables:
        kind = _PARQUET if table.path.endswith(".parquet") else "text/csv"
        files.append(_file_object(staging / table.path, staging, kind, f"Accompanying table {table.name}."))
    if len(parts) > 1:
        files.append(
            _file_set(
                "object-manifests",
                "manifest/objects-*.parquet",
                _PARQUET,
                "The parts of the object manifest.",
            )
        )
    # Patterns instead of a list of files, which would be larger than the manifest.
    files.append(_file_set("data", "data/**/*.dcm", "application/dicom", "The released objects."))
    if summary.kinds.get("raster"):
        for name, kind in (("png", "image/png"), ("jpg", "image/jpeg"), ("tif", "image/tiff")):
            files.append(_file_set(f"{name}-pictures", f"data/**/*.{name}", kind, "Released raster images."))
    if summary.kinds.get("slide"):
        for name, kind in SLIDE_FORMATS.items():
            files.append(_file_set(f"{name}-slides", f"data/**/*.{name}", kind, "Released slides."))
    return files


def _file_object(path: Path, staging: Path, kind: str, description: str) -> dict[str, Any]:
    return {
        "@type": "cr:FileObject",
        "@id": path.name,
        "name": path.name,
        "description": description,
        "contentUrl": layout.release_path(path, staging),
        "contentSize": f"{path.stat().st_size} B",
        "encodingFormat": kind,
        "sha256": digest_file(path),
    }


def _file_set(name: str, includes: str, kind: str, description: str) -> dict[str, Any]:
    return {
        "@type": "cr:FileSet",
        "@id": name,
        "name": name,
        "description": description,
        "encodingFormat": kind,
        "includes": includes,
    }


def _objects_source(staging: Path) -> dict[str, Any]:
    parts = layout.object_manifests(staging)
    return {"fileObject": _id(parts[0].name)} if len(parts) == 1 else {"fileSet": _id("object-manifests")}


def _record_set(
    name: str, description: str, schema: pa.Schema, source: dict[str, Any], key: Sequence[str]
) -> dict[str, Any]:
    return {
        "@type": "cr:RecordSet",
        "@id": name,
        "name": name,
        "description": description,
        "key": [_id(f"{name}/{column}") for column in key],
        "field": [
            {
                "@type": "cr:Field",
                "@id": f"{name}/{column.name}",
                "name": column.name,
                # From the schema, so that manifest and Croissant cannot differ.
                "description": column.metadata[b"description"].decode(),
                "dataType": _data_type(column.type),
                "source": {**source, "extract": {"column": column.name}},
            }
            for column in schema
        ],
    }


def _data_type(kind: pa.DataType) -> str:
    if pa.types.is_integer(kind):
        return "sc:Integer"
    if pa.types.is_floating(kind):
        return "sc:Float"
    return "sc:Boolean" if pa.types.is_boolean(kind) else "sc:Text"
