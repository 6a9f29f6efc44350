"""ro-crate-metadata.json: the release as RO-Crate 1.2, for data repositories."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from medsanitize.policies.model import Contact
from medsanitize.release import layout
from medsanitize.release.checksums import digest_file
from medsanitize.release.multi_file_objects import SLIDE_FORMATS
from medsanitize.release.summary import Summary, synthesis_statement

CONFORMS_TO: Final = "https://w3id.org/ro/crate/1.2"
_KINDS: Final = {
    ".parquet": "application/vnd.apache.parquet",
    ".csv": "text/csv",
    ".json": "application/json",
    ".jsonld": "application/ld+json",
    ".html": "text/html",
    ".md": "text/markdown",
}


def ro_crate_document(summary: Summary, staging: Path) -> dict[str, Any]:
    """Return the RO-Crate of a staged release; the files it describes are hashed."""
    release = summary.release
    files = [_file(path, staging) for path in _described(summary, staging)]
    parts = [{"@id": file["@id"]} for file in files]
    data: list[dict[str, Any]] = []
    if (staging / layout.DATA).is_dir():
        data = [
            {
                "@id": "data/",
                "@type": "Dataset",
                "name": "Released objects",
                "encodingFormat": _formats(summary),
            }
        ]
        parts.insert(0, {"@id": "data/"})
    root: dict[str, Any] = {
        "@id": "./",
        "@type": "Dataset",
        "name": release.name,
        "version": release.version,
        "hasPart": parts,
        "mentions": [
            {"@id": "#sanitization"},
            *([{"@id": "#synthesis"}] if synthesis_statement(summary) else ()),
        ],
    }
    people: list[dict[str, Any]] = []
    for role, contact in (("creator", release.creator), ("publisher", release.contact)):
        if contact is not None:
            root[role] = {"@id": f"#{role}"}
            people.append(_agent(f"#{role}", contact))
    optional = {"description": release.description, "datePublished": release.date}
    root |= {name: value for name, value in optional.items() if value is not None}
    license_ = _license(release.license)
    if license_:
        root["license"] = {"@id": license_[0]["@id"]}
    graph = [_descriptor(), root, *data, *files, *people, *license_, *_action(summary), *_synthesis(summary)]
    return {"@context": f"{CONFORMS_TO}/context", "@graph": graph}


def _formats(summary: Summary) -> str | list[str]:
    formats = {"application/dicom"}
    if summary.kinds.get("raster"):
        formats |= {"image/jpeg", "image/png", "image/tiff"}
    if summary.kinds.get("slide"):
        formats |= set(SLIDE_FORMATS.values())
    return sorted(formats) if len(formats) > 1 else "application/dicom"


def _described(summary: Summary, staging: Path) -> list[Path]:
    tables = [staging / table.path for table in summary.tables]
    card = () if summary.card is None else (layout.CARD,)
    names = (layout.CROISSANT, layout.PROVENANCE, layout.CONFORMANCE, *card, layout.REPORT)
    evidence = [staging / name for name in names]
    return [
        *layout.object_manifests(staging),
        staging / layout.PATIENTS,
        staging / layout.INDEX,
        *tables,
        *evidence,
    ]


def _descriptor() -> dict[str, Any]:
    return {
        "@id": layout.RO_CRATE,
        "@type": "CreativeWork",
        "conformsTo": {"@id": CONFORMS_TO},
        "about": {"@id": "./"},
    }


def _file(path: Path, staging: Path) -> dict[str, Any]:
    return {
        "@id": layout.release_path(path, staging),
        "@type": "File",
        "name": path.name,
        "encodingFormat": _KINDS.get(path.suffix, "application/octet-stream"),
        "contentSize": str(path.stat().st_size),
        "sha256": digest_file(path),
    }


def _agent(name: str, contact: Contact) -> dict[str, Any]:
    facts = {
        "@id": name,
        "@type": "Organization",
        "name": contact.name,
        "email": contact.email,
        "url": contact.url,
    }
    return {key: value for key, value in facts.items() if value is not None}


def _license(license_: str | None) -> list[dict[str, Any]]:
    if license_ is None:
        return []
    # RO-Crate 1.2 describes a license as an entity; without a URL it is a local one.
    name = license_ if license_.startswith(("https://", "http://")) else "#license"
    return [{"@id": name, "@type": "CreativeWork", "name": license_}]


def _action(summary: Summary) -> list[dict[str, Any]]:
    return [
        {
            "@id": "#sanitization",
            "@type": "CreateAction",
            "name": f"De-identification under the preset {summary.preset}",
            "instrument": {"@id": "#medsanitize"},
            "result": {"@id": "./"},
        },
        {
            "@id": "#medsanitize",
            "@type": "SoftwareApplication",
            "name": "medsanitize",
            "version": summary.tool_version,
        },
    ]


def _synthesis(summary: Summary) -> list[dict[str, Any]]:
    drawn = synthesis_statement(summary)
    if drawn is None:
        return []
    generator = {
        "@id": "#generator",
        "@type": "SoftwareApplication",
        "name": "Generator of synthetic images",
        "identifier": f"sha256:{drawn.generator}",
    }
    drawing = {
        "@id": "#synthesis",
        "@type": "CreateAction",
        "name": "Generation of synthetic images that replace real ones",
        "description": drawn.sentence,
        "instrument": {"@id": "#generator"},
        "result": {"@id": "data/"},
    }
    return [drawing, generator]
