"""Adding a release to the registry: its digests, the digests of its slide tiles, and its embeddings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from medsanitize.errors import IntegrityError
from medsanitize.pipeline.engines.base import LocalEngine
from medsanitize.pipeline.runtime.optional_dependencies import check_extra, check_release_extra
from medsanitize.progress import Cancellation, Progress
from medsanitize.release.embeddings import PART, Embeddings, Vault
from medsanitize.release.manifest import read_rows
from medsanitize.release.multi_file_objects import read_parts
from medsanitize.release.registry import Registry, RegistryEntry
from medsanitize.release.verify import verify_release
from medsanitize.sanitize.wsi.slide_sanitizer import MODALITY

if TYPE_CHECKING:
    from medsanitize.verifiers.reid.images.image import Modality
    from medsanitize.verifiers.reid.overlap.dataset_fingerprint import DatasetFingerprint
    from medsanitize.verifiers.reid.overlap.models import ModelPaths


@dataclass(frozen=True, slots=True)
class Registration:
    """The registered release, its number of embeddings, and the number of objects without one."""

    entry: RegistryEntry
    embeddings: int = 0
    missing: int = 0


def register(release: Path, registry: Registry) -> Registration:
    """Verify a release and add its digests to the registry, as the run that published it would.

    Parameters
    ----------
    release : Path
        The folder of the release.
    registry : Registry
        The registry it is added to.

    Raises
    ------
    IntegrityError
        The release is not intact.
    UsageError
        The release contains slides, and the extra ``wsi`` is not installed.
    """
    if verify_release(release, key=None).status != "intact":
        raise IntegrityError("The release is not intact", "See which files with: medsanitize verify RELEASE")
    check_release_extra(release)
    return Registration(registry.add(release, verified=True, tiles=tiles_of_release(release)))


def register_with_embeddings(
    release: Path,
    registry: Registry,
    paths: ModelPaths,
    vault: Vault,
    progress: Progress,
    cancellation: Cancellation,
    *,
    workers: int,
    kind: Modality | None = None,
) -> Registration:
    """Add a release and its encrypted embeddings; embeddings of the same models are replaced.

    Parameters
    ----------
    release : Path
        The folder of the release.
    registry : Registry
        The registry it is added to.
    paths : ModelPaths
        Folders of the models.
    vault : Vault
        Encrypts the embeddings.
    progress : Progress
        Receives the number of embedded images.
    cancellation : Cancellation
        Checked between images.
    workers : int
        Number of worker processes.
    kind : Modality, optional
        Kind of the images whose header states none.

    Raises
    ------
    IntegrityError
        The release is not intact, or a model was changed.
    KeyMaterialError
        The registry contains embeddings under another key.
    """
    check_extra("verify")
    from medsanitize.pipeline.engines.fingerprint_workers import FingerprintWorkers, fingerprint_in_workers
    from medsanitize.verifiers.reid.overlap.dataset import dataset_from_release
    from medsanitize.verifiers.reid.overlap.dataset_fingerprint import collect_fingerprints
    from medsanitize.verifiers.reid.overlap.models import open_models
    from medsanitize.verifiers.reid.overlap.overlap import BATCH

    identity = open_models(paths).identity
    entry = register(release, registry).entry
    side = dataset_from_release(release, "the release").of_kind(kind)
    images = iter(side.images)
    with LocalEngine(FingerprintWorkers(paths), workers, cancellation) as engine:
        progress.stage("embedding", len(side.images))
        batches = iter(lambda: tuple(islice(images, BATCH)), ())
        looks = (look for found in fingerprint_in_workers(engine, progress, batches) for look in found)
        seen = collect_fingerprints(side.title, zip(side.images, looks, strict=True), side.unread)
    missing = sum(seen.unread.values())
    registry.add_embeddings(entry, identity, embeddings_of(seen), vault, missing=missing)
    return Registration(entry, sum(len(one.images) for one in seen.vectors.values()), missing)


def tiles_of_release(release: Path) -> Iterator[bytes]:
    """Yield the tile digests of the slides of a release; the manifest does not contain them."""
    from medsanitize.verifiers.leaks.dicom_reader import read
    from medsanitize.verifiers.leaks.slide_audit import tile_digests
    from medsanitize.verifiers.leaks.tile_digest import frames_digest

    for row in read_rows(release):
        if row.kind == "slide":
            others = [release / path for path, _, _ in read_parts(row.path, row.parts)][1:]
            yield from map(bytes.fromhex, tile_digests(release / row.path, others))
        elif row.modality == MODALITY:
            digest = frames_digest(read(release / row.path))
            if digest is not None:
                yield bytes.fromhex(digest)


def embeddings_of(seen: DatasetFingerprint) -> Iterator[Embeddings]:
    """Yield batches for the registry, one modality each, in sorted order."""
    for modality, vectors in sorted(seen.vectors.items()):
        for start in range(0, len(vectors.images), PART):
            rows = slice(start, start + PART)
            images = vectors.images[rows].tolist()
            yield Embeddings(
                modality=modality.value,
                patients=tuple(seen.names[number] for number in vectors.patients[rows].tolist()),
                instances=tuple(seen.images[number].name for number in images),
                prints=tuple(seen.perceptual_hashes[number] or b"" for number in images),
                first=vectors.first[rows],
                second=None if vectors.second is None else vectors.second[rows],
            )
