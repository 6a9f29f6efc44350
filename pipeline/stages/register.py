"""A release into the registry: its digests, the tiles of its slides, and what models see of it."""

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
    from medsanitize.verifiers.reid.overlap.dataset_fingerprint import DatasetFingerprint
    from medsanitize.verifiers.reid.overlap.models import ModelPaths


@dataclass(frozen=True, slots=True)
class Added:
    """What the registry took: the release, how many embeddings, and how many objects have none."""

    entry: RegistryEntry
    embeddings: int = 0
    missing: int = 0


def register(release: Path, registry: Registry) -> Added:
    """Verify a release and add its digests, as the run that published it would have.

    Raises
    ------
    IntegrityError
        When the release is not intact.
    UsageError
        When it holds slides and the extra for them is not installed.
    """
    if verify_release(release, key=None).status != "intact":
        raise IntegrityError("The release is not intact", "See which files with: medsanitize verify RELEASE")
    check_release_extra(release)
    return Added(registry.add(release, verified=True, tiles=tiles_of_release(release)))


def register_with_embeddings(
    release: Path,
    registry: Registry,
    paths: ModelPaths,
    vault: Vault,
    progress: Progress,
    stop: Cancellation,
    *,
    workers: int,
) -> Added:
    """Add a release and what models see of it, sealed; adding again with the same models replaces that.

    Raises
    ------
    IntegrityError
        When the release is not intact, or a model was changed.
    KeyMaterialError
        When the registry has embeddings under another key.
    """
    check_extra("verify")
    from medsanitize.pipeline.engines.fingerprint_workers import FingerprintWorkers, fingerprint_in_workers
    from medsanitize.verifiers.reid.overlap.dataset import dataset_from_release
    from medsanitize.verifiers.reid.overlap.dataset_fingerprint import collect_fingerprints
    from medsanitize.verifiers.reid.overlap.models import open_models
    from medsanitize.verifiers.reid.overlap.overlap import BATCH

    identity = open_models(paths).identity
    entry = register(release, registry).entry
    side = dataset_from_release(release, "the release")
    images = iter(side.images)
    with LocalEngine(FingerprintWorkers(paths), workers, stop) as engine:
        progress.stage("embedding", len(side.images))
        batches = iter(lambda: tuple(islice(images, BATCH)), ())
        looks = (look for found in fingerprint_in_workers(engine, progress, batches) for look in found)
        seen = collect_fingerprints(side.title, zip(side.images, looks, strict=True), side.unread)
    missing = sum(seen.unread.values())
    registry.add_embeddings(entry, identity, embeddings_of(seen), vault, missing=missing)
    return Added(entry, sum(len(one.images) for one in seen.vectors.values()), missing)


def tiles_of_release(release: Path) -> Iterator[bytes]:
    """Digests of the tiles of a release's slides, which its manifest does not state."""
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
    """Batches for the registry, one modality each, in order."""
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
