"""Shared fixtures: policies from the presets, keys, real files, and sanitization of one object."""

from __future__ import annotations

import ast
import json
import warnings
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any

import pydicom
import pytest
from medsanitize.pipeline.runtime.optional_dependencies import MODULES, is_missing
from medsanitize.policies.load import loads
from medsanitize.policies.model import Limits, Policy
from medsanitize.sanitize.context import Context, SeriesFace
from medsanitize.sanitize.dicom.dicom_sanitizer import DicomSanitizer
from medsanitize.sanitize.dicom.inspect_dicom import inspect_dicom, kept_attributes
from medsanitize.sanitize.faces.read_header import read_slice
from medsanitize.sanitize.pseudonyms import SubKeys, derive_sub_keys
from medsanitize.sanitize.result import Outcome, Sanitized
from pydicom.data import get_testdata_file

from tests.helpers.released_bytes import released_bytes

# Tests write invalid values on purpose; released files are read under ``strictly_read``.
pydicom.config.settings.reading_validation_mode = pydicom.config.IGNORE
pydicom.config.settings.writing_validation_mode = pydicom.config.IGNORE

# Extras that are not installed.
MISSING = frozenset(extra for extra in MODULES if is_missing(extra))


class SkippedFile(pytest.Module):
    """A test file that cannot be imported without an extra."""

    def collect(self) -> Iterator[pytest.Item]:
        pytest.skip(_reason(extras_of_file(self.path)), allow_module_level=True)


def extras_of_file(path: Path) -> frozenset[str]:
    """The missing extras that the ``pytestmark`` of a file names, read without importing it."""
    for node in ast.parse(path.read_bytes()).body if MISSING else ():
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark":
            return MISSING & {mark.attr for mark in ast.walk(node.value) if isinstance(mark, ast.Attribute)}
    return frozenset()


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    """Skip a file, without importing it, if an extra that it is marked with is not installed."""
    if extras_of_file(module_path):
        found: pytest.Module = SkippedFile.from_parent(parent, path=module_path)
        return found
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start what takes longest first: otherwise one process ends with it while the others wait."""
    items.sort(key=lambda item: item.path.parent.name != "system")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test, before its fixtures, if an extra that it is marked with is not installed."""
    if lacking := MISSING.intersection(mark.name for mark in item.iter_markers()):
        pytest.skip(_reason(lacking))


def _reason(extras: frozenset[str]) -> str:
    return f"needs medsanitize[{','.join(sorted(extras))}]"


Source = bytes | Path | str | pydicom.Dataset
Released = tuple[Sanitized, bytes, pydicom.Dataset]


@pytest.fixture(scope="session")
def make_policy() -> Callable[..., Policy]:
    """A policy based on a preset; keyword arguments are further sections of the policy file."""

    def make(preset: str = "research", **sections: Mapping[str, Any]) -> Policy:
        content = {
            "version": 1,
            "preset": preset,
            "release": {"name": "test", "version": "1.0", "mode": "pseudonymous"},
            "inputs": ["./export"],
            "output": "./release",
            "state": "./state",
            "keys": {"file": "./release.key"},
            **sections,
        }
        return loads(json.dumps(content), base=Path("/nowhere"))

    return make


@pytest.fixture(scope="session")
def lenient(make_policy: Callable[..., Policy]) -> Policy:
    """The research preset that releases objects at risk of burned-in text without a check."""
    options = {"clean_pixel_data": False}
    return make_policy("research", dicom={"options": options}, pixels={"at_risk": "release"})


@pytest.fixture(scope="session")
def subkeys() -> SubKeys:
    """Sub-keys from fixed material."""
    return derive_sub_keys(bytes(range(32)), scope="release:test")


@pytest.fixture(scope="session")
def load_bytes() -> Callable[[Source], bytes]:
    """Bytes of an object: given, from a file (a bare name is one of pydicom's wheel), or from a data set."""

    def load(source: Source) -> bytes:
        if isinstance(source, bytes):
            return source
        if isinstance(source, pydicom.Dataset):
            stream = BytesIO()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                source.save_as(stream)
            return stream.getvalue()
        if isinstance(source, str):
            source = Path(str(get_testdata_file(source, download=False)))
        return source.read_bytes()

    return load


@pytest.fixture(scope="session")
def real(load_bytes: Callable[[Source], bytes]) -> Callable[[str], pydicom.Dataset]:
    """A fresh data set of a file in pydicom's wheel."""

    def read(name: str) -> pydicom.Dataset:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return pydicom.dcmread(BytesIO(load_bytes(name)), force=True)

    return read


@pytest.fixture(scope="session")
def context_of() -> Callable[..., Context]:
    """The context that an inventory of only this object would make."""

    def make(data: bytes, policy: Policy | None = None) -> Context:
        seen = inspect_dicom(data, None, kept_attributes(policy.dicom) if policy else frozenset())
        if seen.patient_ids:
            patient = "id:" + "/".join(seen.patient_ids[0])
        elif seen.study_uid:
            patient = "study:" + seen.study_uid
        else:
            patient = "object:" + sha256(data).hexdigest()
        key = seen.sop_uid or sha256(data).hexdigest()
        face = SeriesFace("none") if read_slice(data, Limits()) else None
        return Context(patient, key, seen.known, face=face)

    return make


@pytest.fixture(scope="session")
def sanitize(
    lenient: Policy,
    subkeys: SubKeys,
    load_bytes: Callable[[Source], bytes],
    context_of: Callable[..., Context],
) -> Callable[..., tuple[Sanitized, bytes]]:
    """Sanitize one object with a new sanitizer: result and released bytes."""

    def run(
        source: Source, policy: Policy | None = None, keys: SubKeys | None = None
    ) -> tuple[Sanitized, bytes]:
        data = load_bytes(source)
        done = DicomSanitizer(policy or lenient, keys or subkeys)(data, context_of(data, policy))
        return done, released_bytes(done, data)

    return run


@pytest.fixture(scope="session")
def release(sanitize: Callable[..., tuple[Sanitized, bytes]]) -> Callable[..., Released]:
    """Sanitize one object that must be released; its bytes and what pydicom reads in them."""

    def run(source: Source, policy: Policy | None = None, keys: SubKeys | None = None) -> Released:
        done, out = sanitize(source, policy, keys)
        assert done.record.outcome is Outcome.RELEASED, done.record.findings
        return done, out, pydicom.dcmread(BytesIO(out))

    return run
