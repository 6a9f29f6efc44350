"""Model folder: files on disk, every one of them listed by digest.

``SHA256SUMS`` lists each other file with its SHA-256, sorted by name, in the format of ``sha256sum``; its own
digest is the digest of the model. Nothing in the folder is ever unpickled: weights are safetensors, the
network is ONNX, everything else JSON and text.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from medsanitize.errors import IntegrityError, UsageError

LIST = "SHA256SUMS"
CONFIG = "config.json"
WEIGHTS = "weights.safetensors"
GRAPH = "model.onnx"
CALIBRATION = "calibration.json"
TRAINING = "training.json"
CARD = "README.md"
LOG = "log.jsonl"
CURVES = "curves.svg"
NEEDED = frozenset({CONFIG, WEIGHTS, GRAPH})
ALLOWED = NEEDED | {CALIBRATION, TRAINING, CARD, LOG, CURVES}
# No network of the product is this large: such a file is refused before it fills the memory.
MAX_FILE_BYTES = 4 << 30
_FETCH_AGAIN = "Fetch or train the model again; do not use this copy"


@dataclass(frozen=True, slots=True)
class Names:
    """Required and allowed files of a kind of model."""

    needed: frozenset[str]
    allowed: frozenset[str]


VERIFIER = Names(NEEDED, ALLOWED)


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """Verified content of a model folder.

    Attributes
    ----------
    digest
        SHA-256 of ``SHA256SUMS``, hexadecimal.
    content
        Bytes by file name.
    """

    digest: str
    content: Mapping[str, bytes]


def digest_of(content: Mapping[str, bytes]) -> str:
    """Compute the digest of a model folder with this content."""
    return hashlib.sha256(_listing(content)).hexdigest()


def unfinished_beside(folder: Path) -> Path:
    """Return the folder for the state of an unfinished training, next to the model folder.

    Raises
    ------
    UsageError
        If there is already a model in ``folder``.
    """
    _check_empty(folder)
    return folder.with_name(folder.name + ".training")


def write_folder(folder: Path, content: Mapping[str, bytes], names: Names = VERIFIER) -> str:
    """Write the files of a model and return its digest.

    Parameters
    ----------
    folder : Path
        The model folder; created if it does not exist.
    content : mapping of str to bytes
        Bytes by file name.
    names : Names
        Required and allowed files.

    Raises
    ------
    UsageError
        If the folder already holds a model, or a file is not allowed.
    """
    _check_empty(folder)
    if unknown := set(content) - names.allowed:
        raise UsageError(
            f"A model folder must not contain {sorted(unknown)[0]}", f"Use {', '.join(sorted(names.allowed))}"
        )
    folder.mkdir(parents=True, exist_ok=True)
    for name in sorted(content):
        _write(folder / name, content[name])
    # Last: a folder without its list is no model, so that an interrupted write is not read.
    _write(folder / LIST, _listing(content))
    return digest_of(content)


def read_folder(folder: Path, names: Names = VERIFIER) -> ModelFiles:
    """Read and verify the files of a model.

    Parameters
    ----------
    folder : Path
        The model folder.
    names : Names
        Required and allowed files.

    Raises
    ------
    UsageError
        If the folder holds no model.
    IntegrityError
        If a file was changed, is missing, was added, or is not a regular file.
    """
    if not (folder / LIST).is_file():
        raise UsageError(
            "The folder does not contain a model: SHA256SUMS is missing", "Pass a folder written by train"
        )
    listed = _read_list(_read(folder / LIST), names)
    present = {entry.name for entry in os.scandir(folder)} - {LIST}
    for wrong, fault in ((set(listed) - present, "is missing"), (present - set(listed), "was added")):
        if wrong:
            # Only known names are reported: the name of an added file may be PHI.
            name = next((f" ({name})" for name in sorted(wrong & names.allowed)), "")
            raise IntegrityError(f"A file of the model{name} {fault}", _FETCH_AGAIN)
    content = {name: _read(folder / name) for name in sorted(listed)}
    for name, data in content.items():
        if hashlib.sha256(data).hexdigest() != listed[name]:
            raise IntegrityError(f"{name} of the model was modified", _FETCH_AGAIN)
    return ModelFiles(digest_of(content), content)


def _check_empty(folder: Path) -> None:
    if (folder / LIST).exists():
        raise UsageError("The output folder already contains a model", "Choose another folder")


def _listing(content: Mapping[str, bytes]) -> bytes:
    # Two spaces: the format of sha256sum for files read as text.
    lines = [f"{hashlib.sha256(content[name]).hexdigest()}  {name}\n" for name in sorted(content)]
    return "".join(lines).encode()


def _read_list(data: bytes, names: Names) -> dict[str, str]:
    """Digests by name; only the exact bytes that `write_folder` writes are accepted."""
    listed = {}
    for line in data.decode("ascii", "replace").splitlines():
        digest, _, name = line.partition("  ")
        listed[name] = digest
    canonical = "".join(f"{listed[name]}  {name}\n" for name in sorted(listed)).encode()
    if canonical != data or not names.needed <= set(listed) <= names.allowed:
        raise IntegrityError("SHA256SUMS of the model is malformed", _FETCH_AGAIN)
    return listed


def _read(path: Path) -> bytes:
    """Bytes of a regular file; links are refused."""
    if path.is_symlink() or not path.is_file():
        raise IntegrityError("The model folder contains something other than regular files", _FETCH_AGAIN)
    if path.stat().st_size > MAX_FILE_BYTES:
        raise IntegrityError("A file of the model is too large", _FETCH_AGAIN)
    return path.read_bytes()


def _write(path: Path, data: bytes) -> None:
    """Write atomically: a reader sees the whole file or none."""
    partial = path.with_name(path.name + ".part")
    with partial.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
