"""Embeddings of registered releases, encrypted because an embedding can be inverted to an image.

A part contains up to 1024 images of one modality, embedded by the same models. Its encryption is bound to its
release, so that parts cannot be exchanged. Only counts, models and modalities are stored in plain text.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from medsanitize.errors import KeyMaterialError
from medsanitize.sanitize.pseudonyms import derive_sub_keys

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS embedded (
    release INTEGER, model TEXT, modality TEXT, vectors INTEGER NOT NULL,
    PRIMARY KEY (release, model, modality)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS not_embedded (
    release INTEGER, model TEXT, objects INTEGER NOT NULL, PRIMARY KEY (release, model)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS embedding (
    release INTEGER, model TEXT, modality TEXT, part INTEGER, sealed BLOB NOT NULL,
    PRIMARY KEY (release, model, modality, part)
) STRICT;
"""
TABLES: Final = ("embedded", "not_embedded", "embedding")
PART: Final = 1024
# 96 bits, as NIST SP 800-38D recommends for GCM.
_NONCE: Final = 12


@dataclass(frozen=True, slots=True, repr=False)
class Embeddings:
    """Embeddings of images of one modality of a release; index i of every field is the same image.

    Attributes
    ----------
    modality : str
        Modality of the images.
    patients, instances : tuple of str
        Pseudonyms of patient and object.
    prints : tuple of bytes
        Fingerprint of each image; empty if there is none.
    first : array of float32, shape (images, dimensions)
        Vectors of the retrieval model.
    second : array of float32, shape (images, dimensions), or None
        Vectors of the verification model, if one was used.
    """

    modality: str
    patients: tuple[str, ...]
    instances: tuple[str, ...]
    prints: tuple[bytes, ...]
    first: NDArray[np.float32]
    second: NDArray[np.float32] | None

    # A generated repr would print pseudonyms and vectors.
    def __repr__(self) -> str:
        return f"Embeddings({len(self.patients)} of {self.modality})"


class Vault:
    """Encrypts embeddings with AES-256-GCM under a sub-key of the registry key.

    Nonces are random; NIST SP 800-38D (8.3) allows 2**32 of them per key.
    """

    def __init__(self, material: bytes) -> None:
        self._cipher = AESGCM(derive_sub_keys(material, scope="registry").state)

    def __repr__(self) -> str:
        return "Vault(...)"

    def seal(self, content: bytes, place: str) -> bytes:
        """Encrypt ``content``; decryption requires the same ``place``."""
        # The nonce is stored in front of the ciphertext; it is not secret.
        nonce = os.urandom(_NONCE)
        return nonce + self._cipher.encrypt(nonce, content, place.encode())

    def open(self, sealed: bytes, place: str) -> bytes:
        """Decrypt the result of `seal`.

        Raises
        ------
        KeyMaterialError
            It was encrypted under another key or for another place, or was modified.
        """
        try:
            return self._cipher.decrypt(sealed[:_NONCE], sealed[_NONCE:], place.encode())
        except InvalidTag:
            raise KeyMaterialError(
                "The embeddings in the registry were encrypted with another key, or modified",
                "Use the key they were added with, or remove and re-add the release",
            ) from None


def insert_embeddings(
    db: sqlite3.Connection, number: int, root: str, model: str, batch: Embeddings, part: int, vault: Vault
) -> None:
    """Encrypt a batch and insert it as one part.

    Parameters
    ----------
    db : sqlite3.Connection
        The database of the registry, in a transaction.
    number : int
        Row id of the release.
    root : str
        SHA-256 (hex) of its RELEASE.json, to which the part is bound.
    model : str
        Digest that identifies the models.
    batch : Embeddings
        At most `PART` images.
    part : int
        Position of the batch.
    vault : Vault
        Encrypts the batch.
    """
    content = vault.seal(_packed(batch), associated_data(root, model, batch.modality, part))
    row = (number, model, batch.modality, part, content)
    db.execute("INSERT INTO embedding VALUES (?, ?, ?, ?, ?)", row)


def select_embeddings(
    db: sqlite3.Connection, number: int, root: str, model: str, modality: str, vault: Vault
) -> Iterator[Embeddings]:
    """Decrypt the parts of a release, in order; parameters as for `insert_embeddings`.

    Raises
    ------
    KeyMaterialError
        A part was encrypted under another key, or was modified.
    """
    rows = db.execute(
        "SELECT part, sealed FROM embedding WHERE release = ? AND model = ? AND modality = ? ORDER BY part",
        (number, model, modality),
    )
    for part, sealed in rows:
        yield _unpacked(vault.open(sealed, associated_data(root, model, modality, part)), modality)


def associated_data(root: str, model: str, modality: str, part: int) -> str:
    """Return the associated data of a part, which binds it to its release, model and modality."""
    return f"{root} {model} {modality} {part}"


def _packed(batch: Embeddings) -> bytes:
    """Serialize as an Arrow stream; unlike a pickle, reading it runs no code."""
    import pyarrow as pa

    columns = {
        "patient": pa.array(batch.patients, pa.string()),
        "instance": pa.array(batch.instances, pa.string()),
        "print": pa.array(batch.prints, pa.binary()),
        "first": _rows(batch.first),
    }
    if batch.second is not None:
        columns["second"] = _rows(batch.second)
    table = pa.table(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _rows(vectors: NDArray[np.float32]) -> object:
    import numpy as np
    import pyarrow as pa

    # From one flat buffer: a list of lists would create a Python object per number.
    flat = pa.array(np.ascontiguousarray(vectors, np.float32).reshape(-1))
    return pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1])


def _unpacked(content: bytes, modality: str) -> Embeddings:
    import pyarrow as pa

    with pa.ipc.open_stream(content) as reader:
        table = reader.read_all()
    second = _matrix(table["second"]) if "second" in table.column_names else None
    return Embeddings(
        modality=modality,
        patients=tuple(table["patient"].to_pylist()),
        instances=tuple(table["instance"].to_pylist()),
        prints=tuple(table["print"].to_pylist()),
        first=_matrix(table["first"]),
        second=second,
    )


def _matrix(column: object) -> NDArray[np.float32]:
    import pyarrow as pa

    whole = pa.chunked_array(column.chunks).combine_chunks()  # type: ignore[attr-defined]
    found: NDArray[np.float32] = whole.flatten().to_numpy().reshape(len(whole), -1)
    return found
