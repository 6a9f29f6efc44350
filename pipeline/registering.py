"""A release into the registry: its digests, the tiles of its slides, and what models see of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from medsanitize.errors import IntegrityError
from medsanitize.pipeline.engine import LocalEngine
from medsanitize.pipeline.extras import check_extra
from medsanitize.pipeline.progress import Progress
from medsanitize.pipeline.stop import Stop
from medsanitize.release.embeddings import PART, Embeddings, Vault
from medsanitize.release.manifest import read_rows
from medsanitize.release.parts import parts_of
from medsanitize.release.registry import Entry, Registry
from medsanitize.release.verify import verify
from medsanitize.sanitize.wsi.sanitizer import MODALITY

if TYPE_CHECKING:
    from medsanitize.verifiers.overlap.look import Look
    from medsanitize.verifiers.overlap.models import Paths

Visited = tuple[str, str, "Look"]
"""Pseudonym of the patient, path in the release, and what was seen of an object."""


@dataclass(frozen=True, slots=True)
class Added:
    """What the registry took: the release, how many embeddings, and how many objects have none."""

    entry: Entry
    embeddings: int = 0
    missing: int = 0


def register(release: Path, registry: Registry) -> Added:
    """Verify a release and add its digests, as the run that published it would have.

    Raises
    ------
    IntegrityError
        When the release is not intact.
    """
    if verify(release, key=None).status != "intact":
        raise IntegrityError("The release is not intact", "See which files with: medsanitize verify RELEASE")
    return Added(registry.add(release, verified=True, tiles=tiles_of_release(release)))


def register_with_embeddings(
    release: Path,
    registry: Registry,
    paths: Paths,
    vault: Vault,
    progress: Progress,
    stop: Stop,
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
    from medsanitize.pipeline.overlap import Lookers, visit
    from medsanitize.verifiers.overlap.models import open_models
    from medsanitize.verifiers.overlap.overlap import BATCH
    from medsanitize.verifiers.overlap.side import release_side

    identity = open_models(paths).identity
    entry = register(release, registry).entry
    side = release_side(release, "the release")
    images = iter(side.images)
    with LocalEngine(Lookers(paths), workers, stop) as engine:
        progress.stage("embedding", len(side.images))
        batches = iter(lambda: tuple(islice(images, BATCH)), ())
        looks = (look for found in visit(engine, progress, batches) for look in found)
        visited = [(image.patient, image.name, look) for image, look in zip(side.images, looks, strict=True)]
    missing = count_missing(look for _, _, look in visited)
    registry.add_embeddings(entry, identity, embeddings_of(visited), vault, missing=missing)
    count = sum(look.vector is not None for _, _, look in visited)
    return Added(entry, count, missing)


def tiles_of_release(release: Path) -> Iterator[bytes]:
    """Digests of the tiles of a release's slides, which its manifest does not state."""
    from medsanitize.verifiers.frames import frames_digest
    from medsanitize.verifiers.reader import read
    from medsanitize.verifiers.slide import tile_digests

    for row in read_rows(release):
        if row.kind == "slide":
            others = [release / path for path, _, _ in parts_of(row.path, row.parts)][1:]
            yield from map(bytes.fromhex, tile_digests(release / row.path, others))
        elif row.modality == MODALITY:
            digest = frames_digest(read(release / row.path))
            if digest is not None:
                yield bytes.fromhex(digest)


def count_missing(looks: Iterable[Look]) -> int:
    """Objects that are images and were not compared in full."""
    from medsanitize.verifiers.overlap.look import NO_IMAGE

    return sum(look.trouble not in ("", NO_IMAGE) for look in looks)


def embeddings_of(visited: Iterable[Visited]) -> Iterator[Embeddings]:
    """Batches for the registry, one modality each, in order."""
    waiting: dict[str, list[Visited]] = {}
    for one in visited:
        if one[2].modality is not None:
            rows = waiting.setdefault(one[2].modality.value, [])
            rows.append(one)
            if len(rows) == PART:
                yield _batch(one[2].modality.value, rows)
                rows.clear()
    for modality, rows in sorted(waiting.items()):
        if rows:
            yield _batch(modality, rows)


def _batch(modality: str, rows: list[Visited]) -> Embeddings:
    import numpy as np

    second = [look.second for _, _, look in rows]
    return Embeddings(
        modality=modality,
        patients=tuple(patient for patient, _, _ in rows),
        instances=tuple(path for _, path, _ in rows),
        prints=tuple(look.print or b"" for _, _, look in rows),
        first=np.stack([np.asarray(look.vector) for _, _, look in rows]),
        second=None if second[0] is None else np.stack([np.asarray(one) for one in second]),
    )
