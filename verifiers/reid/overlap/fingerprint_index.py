"""On-disk fingerprint index of a dataset. Contains PHI.

The index holds embeddings, which can be inverted, and a table of images with their patients.
``fingerprint.json`` is written last. It holds the digest of the models, of the image table and of each
index of embeddings, and a digest of itself; every file is verified before use.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from medsanitize.errors import IntegrityError, UsageError
from medsanitize.release.atomic_io import storage_errors, write_atomic
from medsanitize.release.canonical_json import document_json
from medsanitize.release.checksums import digest_file
from medsanitize.verifiers.reid.images.image import Modality
from medsanitize.verifiers.reid.images.kinds import STATE_IT
from medsanitize.verifiers.reid.index.index import build_index, open_index
from medsanitize.verifiers.reid.index.index_folder import METADATA
from medsanitize.verifiers.reid.index.search import EXACT_UP_TO
from medsanitize.verifiers.reid.overlap.dataset import ImageFile
from medsanitize.verifiers.reid.overlap.dataset_fingerprint import DatasetFingerprint, Embeddings
from medsanitize.verifiers.reid.overlap.fingerprint import CHANGED, MISSING_FILE, UNKNOWN_STAMP, file_stamp

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from medsanitize.verifiers.reid.overlap.models import Models
    from numpy.typing import NDArray

FINGERPRINT: Final = "fingerprint.json"
_IMAGES: Final = "images.parquet"
_FORMAT: Final = 1
_AT_ONCE: Final = 4096
# Embeddings of the verification model are only read by row: they never need inverted lists.
_NO_LISTS: Final = 1 << 62
_FIELDS: Final = {"format": int, "models": str, "unread": dict, "non_images": int, "files": dict}
_DAMAGED: Final = ("An index of images is damaged", "Create it again with medsanitize index")


def is_fingerprint_index(folder: Path) -> bool:
    """Whether a folder is a fingerprint index."""
    return (folder / FINGERPRINT).is_file()


# -- writing ------------------------------------------------------------------------------


@contextlib.contextmanager
def create_fingerprint_index(output: Path) -> Iterator[Path]:
    """Create a private folder that is renamed to ``output`` on success and removed on failure.

    Nothing that exists is replaced, except an empty folder.

    Raises
    ------
    UsageError
        If ``output`` exists, another run is creating it, or the folder cannot be made.
    EnvironmentFailure
        If the disk fails.
    """
    output = Path(os.path.abspath(output))
    # Next to the output: a rename is atomic only within one file system.
    part = output.with_name(output.name + ".part")
    _make(output, part)
    with contextlib.ExitStack() as undo:
        undo.callback(shutil.rmtree, part, ignore_errors=True)
        yield part
        undo.pop_all()
    try:
        part.rename(output)
    except OSError:
        raise UsageError(
            "The index is complete, but a file or folder of its name was created meanwhile",
            "Rename the index, whose name ends in .part",
        ) from None


def _make(output: Path, part: Path) -> None:
    try:
        # An empty folder is allowed, since rename() replaces it.
        empty = output.is_dir() and not output.is_symlink() and not any(output.iterdir())
        if os.path.lexists(output) and not empty:
            raise UsageError(
                "The folder for the index exists and is not empty", "Name a new folder, or remove it"
            )
        with storage_errors():
            part.parent.mkdir(parents=True, exist_ok=True)
        if os.path.lexists(part):
            raise UsageError(
                "An incomplete index exists: another process is writing it, or was killed",
                "If no process writes it, remove the folder of its name that ends in .part",
            )
        with storage_errors():
            # mkdir is atomic: of two runs at the same time, only one succeeds.
            part.mkdir(mode=0o700)
    except OSError:
        raise UsageError(
            "The folder for the index cannot be created", "Name a folder inside an existing folder"
        ) from None


def write_fingerprint_index(seen: DatasetFingerprint, folder: Path, models: Models) -> None:
    """Write the fingerprint of a dataset to an empty folder.

    Parameters
    ----------
    seen : DatasetFingerprint
        Fingerprint of the dataset.
    folder : Path
        Empty folder.
    models : Models
        The models that computed the embeddings.

    Raises
    ------
    UsageError
        If no model could read any image.
    EnvironmentFailure
        If the disk is full or fails.
    """
    import pyarrow.parquet as pq

    if not seen.vectors:
        raise UsageError("No model could read any image", f"Name a folder of images. {STATE_IT}")
    with storage_errors():
        # Created first, since the Parquet writer would use the default mode.
        os.close(os.open(folder / _IMAGES, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600))
        pq.write_table(_table(seen), folder / _IMAGES, write_page_checksum=True)
    files = {_IMAGES: digest_file(folder / _IMAGES)}
    for modality, vectors in seen.vectors.items():
        with storage_errors():
            (folder / modality.value).mkdir(mode=0o700)
        first, second = _places(modality)
        parts = [(first, vectors.first, EXACT_UP_TO)]
        parts += [] if vectors.second is None else [(second, vectors.second, _NO_LISTS)]
        for place, numbers, most in parts:
            rows, model = _rows(vectors, numbers), models.digest(modality)
            build_index(folder / place, rows, dimension=numbers.shape[1], model=model, exact_up_to=most)
            files[str(place / METADATA)] = digest_file(folder / place / METADATA)
    facts = {
        "format": _FORMAT,
        "models": models.identity,
        "unread": dict(seen.unread),
        "non_images": seen.non_images,
        "files": files,
    }
    # Last: without this file an interrupted index is not taken for a complete one.
    write_atomic(folder / FINGERPRINT, document_json({**facts, "digest": _digest(facts)}))
    with storage_errors():
        (folder / FINGERPRINT).chmod(0o600)


def _places(modality: Modality) -> tuple[Path, Path]:
    """Folders of the embeddings of the retrieval model and of the verification model."""
    return Path(modality.value) / "retrieval", Path(modality.value) / "verification"


def _digest(facts: Mapping[str, Any]) -> str:
    return hashlib.sha256(document_json(dict(facts))).hexdigest()


def _table(seen: DatasetFingerprint) -> pa.Table:
    """The images in their order, with their fingerprints except for the embeddings."""
    import pyarrow as pa

    # As bytes: the name of a file need not be valid UTF-8.
    paths = [_bytes((image.path, *image.parts)) for image in seen.images]
    return pa.table(
        {
            "paths": pa.array(paths, pa.list_(pa.binary())),
            "name": pa.array([os.fsencode(image.name) for image in seen.images], pa.binary()),
            "patient": pa.array(seen.patients, pa.int64()),
            "patient_id": pa.array(
                [seen.names[n] if n >= 0 else "" for n in seen.patients.tolist()], pa.string()
            ),
            "digest": pa.array(seen.digests, pa.binary()),
            "pixels": pa.array(seen.pixels, pa.binary()),
            "print": pa.array(seen.perceptual_hashes, pa.binary()),
            "stamp": pa.array(seen.stamps, pa.string()),
        }
    )


def _bytes(paths: Iterable[Path]) -> list[bytes]:
    return [os.fsencode(path.absolute()) for path in paths]


def _rows(
    vectors: Embeddings, numbers: NDArray[np.float32]
) -> Iterator[tuple[NDArray[np.float32], pa.RecordBatch]]:
    import pyarrow as pa

    for start in range(0, len(numbers), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        yield numbers[part], pa.RecordBatch.from_pydict({"image": pa.array(vectors.images[part], pa.int64())})


# -- reading ------------------------------------------------------------------------------


def load_fingerprint_index(folder: Path, title: str, models: Models) -> DatasetFingerprint:
    """Open the output of `write_fingerprint_index`; changed images count as not compared.

    Parameters
    ----------
    folder : Path
        The index.
    title : str
        Title of the dataset in messages.
    models : Models
        Models of the comparison.

    Raises
    ------
    IntegrityError
        If a file of the index was changed.
    UsageError
        If the index was made with other models or by another version of medsanitize.
    """
    import pyarrow as pa

    facts = _facts(folder)
    if facts["models"] != models.identity:
        raise UsageError(
            f"{title} is an index of other models or of another version of medsanitize",
            "Name the models of the index, or create it again with these",
        )
    try:
        return _seen(folder, title, _images(folder, facts["files"][_IMAGES]), facts, models)
    except (pa.ArrowException, OSError, ValueError, LookupError, TypeError, AttributeError):
        raise IntegrityError(*_DAMAGED) from None


def _facts(folder: Path) -> dict[str, Any]:
    permissive = {_IMAGES, *(str(place / METADATA) for one in Modality for place in _places(one))}
    try:
        facts: dict[str, Any] = json.loads((folder / FINGERPRINT).read_bytes())
        # Evaluated from left to right: the digest covers all other members.
        whole = facts.pop("digest") == _digest(facts) and facts["format"] == _FORMAT
        whole = whole and all(type(facts[name]) is kind for name, kind in _FIELDS.items())
        # Known names only: the metadata cannot name files outside the folder.
        whole = whole and _IMAGES in facts["files"] and set(facts["files"]) <= permissive
    except (OSError, ValueError, TypeError, LookupError, AttributeError):
        raise IntegrityError(*_DAMAGED) from None
    if not whole:
        raise IntegrityError(*_DAMAGED)
    return facts


def _images(folder: Path, digest: str) -> pa.Table:
    import pyarrow as pa
    import pyarrow.parquet as pq

    # Parsed from the verified bytes: the file cannot change between the check and its use.
    content = (folder / _IMAGES).read_bytes()
    if hashlib.sha256(content).hexdigest() != digest:
        raise ValueError("the table of images was changed")
    return pq.read_table(pa.BufferReader(content))


def _seen(
    folder: Path, title: str, table: pa.Table, facts: dict[str, Any], models: Models
) -> DatasetFingerprint:
    import numpy as np

    columns = {name: table[name].to_pylist() for name in table.column_names}
    patients = np.array(columns["patient"], np.int64)
    names = [""] * (int(patients.max(initial=-1)) + 1)
    for number, patient in zip(patients.tolist(), columns["patient_id"], strict=True):
        if number >= 0:
            names[number] = patient
    images = tuple(
        _image(paths, name, names[number] if number >= 0 else "")
        for paths, name, number in zip(columns["paths"], columns["name"], patients.tolist(), strict=True)
    )
    stamps = tuple(columns["stamp"])
    unread = Counter(facts["unread"]) + Counter({CHANGED: _changed(images, stamps)})
    return DatasetFingerprint(
        title=title,
        images=images,
        patients=patients,
        names=tuple(names),
        digests=tuple(columns["digest"]),
        pixels=tuple(columns["pixels"]),
        perceptual_hashes=tuple(columns["print"]),
        stamps=stamps,
        vectors={
            modality: _vectors(folder, modality, facts["files"], patients, models.digest(modality))
            for modality in Modality
            if str(_places(modality)[0] / METADATA) in facts["files"]
        },
        unread=dict(sorted(unread.items())),
        non_images=facts["non_images"],
    )


def _image(paths: list[bytes], name: bytes, patient: str) -> ImageFile:
    main, *parts = (Path(os.fsdecode(path)) for path in paths)
    return ImageFile(main, os.fsdecode(name), patient, tuple(parts))


def _changed(images: Iterable[ImageFile], stamps: Iterable[str]) -> int:
    """Number of images whose files have changed; files that are missing now count as unchanged."""
    known = (
        (one, then)
        for one, then in zip(images, stamps, strict=True)
        if then not in (MISSING_FILE, UNKNOWN_STAMP)
    )
    return sum(file_stamp((one.path, *one.parts)) not in (MISSING_FILE, then) for one, then in known)


def _vectors(
    folder: Path, modality: Modality, files: Mapping[str, str], patients: NDArray[np.int64], model: str
) -> Embeddings:
    first, second = _places(modality)
    found = open_index(folder / first, model=model, digest=files[str(first / METADATA)])
    images, other = found.rows()["image"].to_numpy(), None
    if str(second / METADATA) in files:
        other = open_index(
            folder / second, model=model, digest=files[str(second / METADATA)]
        ).searched.vectors
    # A negative number would index from the end without an error.
    if images.min(initial=0) < 0 or (other is not None and len(other) != len(images)):
        raise ValueError("both models must read the same images")
    return Embeddings(images, patients[images], found.searched, other)
