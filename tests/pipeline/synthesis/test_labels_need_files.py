"""Labels select originals by file, so the input must consist of files."""

from __future__ import annotations

from pathlib import Path

import pytest
from medsanitize.errors import PolicyError
from medsanitize.policies.load import loads
from medsanitize.policies.model import Policy

REST = "model: ./g, verifier: ./v, reference: {images: ./export, table: ./t.csv}"
PACS = "{dicomweb: https://pacs.example/dicom, query: {PatientID: '1'}}"


def policy(inputs: str, replace: str) -> Policy:
    text = (
        'version: 1\npreset: ps3.15-basic\nrelease: {name: chest, version: "1", mode: pseudonymous}\n'
        f"inputs: [{inputs}]\noutput: ./out\nstate: ./state\nkeys: {{file: ./key}}\n"
        f"synthesize: {{replace: {replace}, {REST}}}\n"
    )
    return loads(text, base=Path("/project"))


@pytest.mark.parametrize("inputs", ["./export, s3://bucket/export", "https://store.example/export/", PACS])
def test_labels_cannot_select_images_in_a_store_or_a_pacs(inputs: str) -> None:
    with pytest.raises(PolicyError, match="by-label requires local input folders"):
        policy(inputs, "by-label, labels: [a]")


@pytest.mark.parametrize("inputs", ["s3://bucket/export", PACS])
def test_all_images_of_a_store_or_a_pacs_can_be_replaced(inputs: str) -> None:
    assert policy(inputs, "all").synthesize is not None
