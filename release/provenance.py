"""provenance.jsonld: W3C PROV-O as JSON-LD, starting at the de-identification.

It contains nothing about earlier steps: no source, path, digest of a source or time of the run.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from medsanitize.release import layout
from medsanitize.release.checksums import digest_file
from medsanitize.release.summary import Summary, synthesis_statement

# Inline, so that readers need no network to interpret the document.
_CONTEXT: Final = {
    "prov": "http://www.w3.org/ns/prov#",
    "schema": "https://schema.org/",
    "ms": "urn:medsanitize:terms:",
    "label": "http://www.w3.org/2000/01/rdf-schema#label",
    "sha256": "schema:sha256",
    "generatedBy": {"@id": "prov:wasGeneratedBy", "@type": "@id"},
    "associatedWith": {"@id": "prov:wasAssociatedWith", "@type": "@id"},
    "attributedTo": {"@id": "prov:wasAttributedTo", "@type": "@id"},
    "hadMember": {"@id": "prov:hadMember", "@type": "@id"},
    "hadPlan": {"@id": "prov:hadPlan", "@type": "@id"},
    "informedBy": {"@id": "prov:wasInformedBy", "@type": "@id"},
    "used": {"@id": "prov:used", "@type": "@id"},
    "agent": {"@id": "prov:agent", "@type": "@id"},
    "qualifiedAssociation": "prov:qualifiedAssociation",
    "revisionOf": {"@id": "prov:wasRevisionOf", "@type": "@id"},
}


def release_urn(name: str, version: str) -> str:
    """Return the identifier of a release in provenance."""
    return f"urn:medsanitize:release:{name}:{version}"


def provenance_document(summary: Summary, staging: Path) -> dict[str, Any]:
    """Return the PROV document of a staged release; manifests and tables are hashed."""
    release = summary.release
    paths = [*layout.object_manifests(staging), staging / layout.PATIENTS, staging / layout.INDEX]
    paths += [staging / table.path for table in summary.tables]
    files = [
        {
            "@id": layout.release_path(path, staging),
            "@type": "prov:Entity",
            "sha256": digest_file(path),
            "generatedBy": "#sanitization",
        }
        for path in paths
    ]
    collection: dict[str, Any] = {
        "@id": release_urn(release.name, release.version),
        "@type": ["prov:Entity", "prov:Collection"],
        "label": f"{release.name} {release.version}",
        "generatedBy": "#synthesis" if synthesis_statement(summary) else "#sanitization",
        "hadMember": [file["@id"] for file in files],
        "ms:mode": release.mode,
    }
    if summary.supersedes is not None:
        collection["revisionOf"] = release_urn(release.name, summary.supersedes)
    graph = [collection, *files, _activity(summary), _plan(summary), _software(summary), *_synthesis(summary)]
    if release.creator is not None:
        collection["attributedTo"] = "#creator"
        graph.append({"@id": "#creator", "@type": "prov:Agent", "label": release.creator.name})
    return {"@context": _CONTEXT, "@graph": graph}


def _activity(summary: Summary) -> dict[str, Any]:
    return {
        "@id": "#sanitization",
        "@type": "prov:Activity",
        "label": "De-identification",
        "associatedWith": "#medsanitize",
        "qualifiedAssociation": {"@type": "prov:Association", "agent": "#medsanitize", "hadPlan": "#policy"},
        "ms:option": [f"{code} {meaning}" for code, meaning in summary.options],
        "ms:gate": [f"{gate.name}: {gate.result}" for gate in summary.gates],
    }


def _synthesis(summary: Summary) -> list[dict[str, Any]]:
    """Return generation and generator of synthetic images; empty if there are none."""
    drawn = synthesis_statement(summary)
    if drawn is None:
        return []
    drawing = {
        "@id": "#synthesis",
        "@type": "prov:Activity",
        "label": drawn.sentence,
        "associatedWith": "#medsanitize",
        "informedBy": "#sanitization",
        "used": "#generator",
    }
    model = {
        "@id": "#generator",
        "@type": "prov:Entity",
        "label": "Generator of synthetic images",
        "sha256": drawn.generator,
    }
    return [drawing, model]


def _plan(summary: Summary) -> dict[str, Any]:
    return {
        "@id": "#policy",
        "@type": ["prov:Entity", "prov:Plan"],
        "label": f"Policy on the preset {summary.preset}",
        "sha256": summary.policy_digest,
    }


def _software(summary: Summary) -> dict[str, Any]:
    return {
        "@id": "#medsanitize",
        "@type": ["prov:Agent", "prov:SoftwareAgent"],
        "label": "medsanitize",
        "schema:softwareVersion": summary.tool_version,
    }
