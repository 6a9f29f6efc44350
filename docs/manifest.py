"""Write docs/manifest.md from the schemas of the manifest: `python docs/manifest.py`."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from medsanitize.release.manifest import OBJECT_SCHEMA, ORDER, PATIENT_SCHEMA
from medsanitize.release.manifest_file import SCHEMA_VERSION
from medsanitize.release.research_index import INDEX_SCHEMA

PAGE = Path(__file__).parent / "manifest.md"
_HEAD = f"""\
# Manifest

This page is generated from the schemas: `python docs/manifest.py`.

The manifest describes a release in three Parquet tables: its objects (part files where they are many), its
patients, and the research index, which has what the released headers say. Schema
version {SCHEMA_VERSION}. Rows are ordered by {", ".join(f"`{name}`" for name in ORDER)}. The metadata of
each file has the schema version, the digest of the policy, the edition of PS3.15 whose tables were applied
and the version of medsanitize; each column carries the description below. Pages
have checksums, which readers verify.

Duplicate groups, pairs, scores, perceptual hashes, embeddings and coordinates of blanked regions are
never in a manifest: they would link images to patients.
"""


def page() -> str:
    """The whole page."""
    tables = {"objects": OBJECT_SCHEMA, "patients": PATIENT_SCHEMA, "index": INDEX_SCHEMA}
    return _HEAD + "".join(_table(name, schema) for name, schema in tables.items())


def _table(name: str, schema: pa.Schema) -> str:
    rows = "".join(
        f"| `{field.name}` | {field.type} | {'yes' if field.nullable else 'no'} | {_description(field)} |\n"
        for field in schema
    )
    head = "| column | type | may be null | meaning |\n|---|---|---|---|\n"
    return f"\n## manifest/{name}.parquet\n\n{head}{rows}"


def _description(field: pa.Field) -> str:
    return str(field.metadata[b"description"].decode())


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
