"""What was seen of a dataset, kept in a folder, so that it need not be looked at for every comparison.

``seen.json`` is written last and names the models, the table of images and each index of embeddings with
its digest. Everything is digested before it is used. For the holder alone: embeddings can be turned back
into images, and the table says who is in which.
"""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from medsanitize.errors import IntegrityError, UsageError
from medsanitize.release.canonical import document_json
from medsanitize.release.checksums import digest_file
from medsanitize.release.store import storage, write_atomic
from medsanitize.verifiers.index.folder import ABOUT
from medsanitize.verifiers.index.index import build_index, open_index
from medsanitize.verifiers.overlap.look import CHANGED
from medsanitize.verifiers.overlap.seen import Seen, Vectors
from medsanitize.verifiers.overlap.side import Image
from medsanitize.verifiers.pictures.picture import Modality

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from medsanitize.verifiers.index.index import Index
    from medsanitize.verifiers.overlap.models import Models
    from numpy.typing import NDArray

SEEN: Final = "seen.json"
_IMAGES: Final = "images.parquet"
_FORMAT: Final = 1
_AT_ONCE: Final = 4096
_NO_LISTS: Final = 1 << 62
"""Vectors that are only ever looked up by row need no lists, however many they are."""
_DAMAGED: Final = ("An index of images is damaged", "Make it again with medsanitize index")


def is_kept(folder: Path) -> bool:
    """Whether a folder holds what was seen of a dataset."""
    return (folder / SEEN).is_file()


def require_place(folder: Path) -> None:
    """Refuse a folder that holds something else than an index, if only half of one.

    Raises
    ------
    UsageError
    """
    ours = {SEEN, _IMAGES, *(modality.value for modality in Modality)}
    if folder.exists() and (not folder.is_dir() or not {one.name for one in folder.iterdir()} <= ours):
        raise UsageError(
            "The folder for the index holds something else", "Name a new one, or an index to replace"
        )


def keep(seen: Seen, folder: Path, models: Models) -> None:
    """Write what was seen; an index that is there is replaced.

    Raises
    ------
    UsageError
        When no model could look at any image.
    EnvironmentFailure
        When the disk is full or fails.
    """
    import pyarrow.parquet as pq

    if not seen.vectors:
        raise UsageError("No image could be looked at by a model", "Name a folder of radiographs or slides")
    with storage():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)
        (folder / SEEN).unlink(missing_ok=True)
        for modality in Modality:
            shutil.rmtree(folder / modality.value, ignore_errors=True)
        (folder / _IMAGES).unlink(missing_ok=True)
        os.close(os.open(folder / _IMAGES, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600))
        pq.write_table(_table(seen), folder / _IMAGES, write_page_checksum=True)
    for modality, vectors in seen.vectors.items():
        digest, (first, second) = models.digest(modality), _places(modality)
        build_index(
            folder / first, _rows(vectors, vectors.first), dimension=vectors.first.shape[1], model=digest
        )
        if vectors.second is not None:
            shape = vectors.second.shape[1]
            rows = _rows(vectors, vectors.second)
            build_index(folder / second, rows, dimension=shape, model=digest, exact_up_to=_NO_LISTS)
    names = (place / ABOUT for modality in seen.vectors for place in _places(modality))
    files = [_IMAGES, *(str(name) for name in names if (folder / name).is_file())]
    facts = {
        "format": _FORMAT,
        "models": models.identity,
        "unread": dict(seen.unread),
        "no_images": seen.no_images,
        "files": {name: digest_file(folder / name) for name in sorted(files)},
    }
    write_atomic(folder / SEEN, document_json(facts))


def open_kept(folder: Path, title: str, models: Models) -> Seen:
    """Open what `keep` wrote. Of images that have changed since, nothing is known.

    Parameters
    ----------
    folder : Path
    title : str
        What messages call the side.
    models : Models
        Those of the comparison.

    Raises
    ------
    IntegrityError
        When something of it was changed.
    UsageError
        When other models looked.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    facts = _facts(folder)
    if facts["models"] != models.identity:
        raise UsageError(
            f"{title} is an index that other models made",
            "Name the models it was made with, or make it again with these",
        )
    try:
        table = pq.read_table(folder / _IMAGES, page_checksum_verification=True)
        seen = _seen(folder, title, table, facts, models)
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError, AttributeError):
        raise IntegrityError(*_DAMAGED) from None
    return seen


def _places(modality: Modality) -> tuple[Path, Path]:
    """Folders of the retrieval model's vectors and of the verification model's."""
    return Path(modality.value) / "retrieval", Path(modality.value) / "verification"


def _facts(folder: Path) -> dict[str, Any]:
    try:
        facts: dict[str, Any] = json.loads((folder / SEEN).read_bytes())
        known = facts["format"] == _FORMAT and _IMAGES in facts["files"]
        possible = {_IMAGES, *(str(place / ABOUT) for one in Modality for place in _places(one))}
        whole = known and set(facts["files"]) <= possible
        for name, digest in sorted(facts["files"].items()) if whole else ():
            whole = whole and digest_file(folder / name) == digest
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        raise IntegrityError(*_DAMAGED) from None
    if not whole:
        raise IntegrityError(*_DAMAGED)
    return facts


def _table(seen: Seen) -> pa.Table:
    """The images in their order, with all that was seen of them but embeddings."""
    import pyarrow as pa

    stats = [_stat((image.path, *image.parts)) for image in seen.images]
    return pa.table(
        {
            "path": pa.array([_bytes((image.path,))[0] for image in seen.images], pa.binary()),
            "parts": pa.array([_bytes(image.parts) for image in seen.images], pa.list_(pa.binary())),
            "name": pa.array([os.fsencode(image.name) for image in seen.images], pa.binary()),
            "patient": pa.array(seen.patients, pa.int64()),
            "who": pa.array([seen.names[n] if n >= 0 else "" for n in seen.patients.tolist()], pa.string()),
            "digest": pa.array(seen.digests, pa.binary()),
            "pixels": pa.array(seen.pixels, pa.binary()),
            "print": pa.array(seen.prints, pa.binary()),
            "size": pa.array([size for size, _ in stats], pa.int64()),
            "changed_at": pa.array([changed for _, changed in stats], pa.int64()),
        }
    )


def _bytes(paths: Iterable[Path]) -> list[bytes]:
    return [os.fsencode(path.absolute()) for path in paths]


def _path(path: bytes) -> Path:
    return Path(os.fsdecode(path))


def _stat(paths: Iterable[Path]) -> tuple[int, int]:
    """Size and latest time of an image's files, which show what was written since; -1 if one is not there."""
    try:
        found = [path.stat() for path in paths]
    except OSError:
        return -1, -1
    return sum(one.st_size for one in found), max(one.st_mtime_ns for one in found)


def _rows(
    vectors: Vectors, numbers: NDArray[np.float32]
) -> Iterator[tuple[NDArray[np.float32], pa.RecordBatch]]:
    import pyarrow as pa

    for start in range(0, len(numbers), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        yield numbers[part], pa.RecordBatch.from_pydict({"image": pa.array(vectors.images[part], pa.int64())})


def _seen(folder: Path, title: str, table: pa.Table, facts: dict[str, Any], models: Models) -> Seen:
    import numpy as np

    columns = {name: table[name].to_pylist() for name in table.column_names if name != "patient"}
    patients = table["patient"].to_numpy()
    names = [""] * (int(patients.max(initial=-1)) + 1)
    for number, who in zip(patients.tolist(), columns["who"], strict=True):
        if number >= 0:
            names[number] = who
    images = tuple(
        Image(_path(path), os.fsdecode(name), names[number] if number >= 0 else "", tuple(map(_path, parts)))
        for path, parts, name, number in zip(
            columns["path"], columns["parts"], columns["name"], patients.tolist(), strict=True
        )
    )
    stated = zip(images, columns["size"], columns["changed_at"], strict=True)
    changed = sum(_stat((one.path, *one.parts)) not in ((-1, -1), (size, at)) for one, size, at in stated)
    unread = Counter(facts["unread"]) + Counter({CHANGED: changed})
    opened = {
        modality: _vectors(folder, modality, facts, patients.astype(np.int64), models.digest(modality))
        for modality in Modality
        if str(_places(modality)[0] / ABOUT) in facts["files"]
    }
    return Seen(
        title=title,
        images=images,
        patients=patients.astype(np.int64),
        names=tuple(names),
        digests=tuple(columns["digest"]),
        pixels=tuple(columns["pixels"]),
        prints=tuple(columns["print"]),
        vectors=opened,
        unread=dict(sorted(unread.items())),
        no_images=int(facts["no_images"]),
    )


def _vectors(
    folder: Path, modality: Modality, facts: dict[str, Any], patients: NDArray[np.int64], model: str
) -> Vectors:
    first, second = _places(modality)
    found: Index = open_index(folder / first, model=model)
    images = found.rows()["image"].to_numpy()
    other = None
    if str(second / ABOUT) in facts["files"]:
        other = open_index(folder / second, model=model).searched.vectors
        if len(other) != len(images):
            raise ValueError("both models look at the same images")
    return Vectors(images, patients[images], found.searched, other)
