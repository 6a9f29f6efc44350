"""The command ``attack linkage``: attacks a release with another dataset, and writes the page."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from medsanitize.errors import UsageError
from medsanitize.pipeline.runtime.optional_dependencies import check_extra
from medsanitize.policies.digest import policy_digest
from medsanitize.policies.load import load
from medsanitize.policies.model import Policy
from medsanitize.policies.site_lists import with_site_lists
from medsanitize.progress import Cancellation, Progress
from medsanitize.release.atomic_io import write_atomic
from medsanitize.release.manifest import read_policy_digest
from medsanitize.verifiers.reid.images.image import Modality
from medsanitize.verifiers.reid.labels import LabelColumns, read_labels
from medsanitize.verifiers.reid.linkage.dataset_attack import DatasetSummary, Linkage
from medsanitize.verifiers.reid.linkage.holub_guidelines import guidelines_of
from medsanitize.verifiers.reid.overlap.dataset import dataset_from_release, is_release
from medsanitize.verifiers.reid.overlap.score_images import progress_callback

if TYPE_CHECKING:
    from medsanitize.verifiers.reid.evaluation.embed import EmbeddedImages
    from medsanitize.verifiers.reid.images.read import ImageRegion
    from medsanitize.verifiers.reid.linkage.attack import LinkageAttack
    from medsanitize.verifiers.reid.models.protocols import Retrieval

RESULTS = "linkage.json"
PAGE = "linkage.html"
_TABLES = ("labels.csv", "labels.parquet")


@dataclass(frozen=True, slots=True)
class LinkageAttackRequest:
    """The arguments of the command ``attack linkage``."""

    release: Path
    background: Path
    labels: Path | None
    background_labels: Path | None
    columns: LabelColumns
    model: Path | None
    policy: Path | None
    output: Path | None
    kind: Modality | None = None


@dataclass(frozen=True, slots=True)
class _Images:
    """Images with known patients and stated kinds, and what was excluded."""

    paths: tuple[Path, ...]
    patients: tuple[str, ...]
    kinds: tuple[Modality | None, ...]
    series: tuple[str, ...]
    excluded: Mapping[str, int]


def run_linkage(request: LinkageAttackRequest, progress: Progress, cancellation: Cancellation) -> Linkage:
    """Read and embed the images, attack, and write the results.

    Raises
    ------
    UsageError
        A dataset has no patients, the datasets share none, or the release was not made with the policy.
    IntegrityError
        A manifest or the model was changed.
    """
    check_extra("verify")
    if request.policy is not None and not is_release(request.release):
        raise UsageError("The guidelines apply to releases only", "Leave out --policy, or name a release")
    policy = None if request.policy is None else _policy_of(request.release, request.policy)
    ours = _images(request, request.release, request.labels)
    # One folder may contain both datasets, each with its own table.
    itself = request.release.resolve() == request.background.resolve() and request.background_labels in (
        None,
        request.labels,
    )
    theirs = ours if itself else _images(request, request.background, request.background_labels)
    found = _attack_images(request, ours, None if itself else theirs, progress, cancellation)
    if policy is not None:
        others, left = None if found.itself else found.worst, found.excluded
        slides = found.worst if found.modality == Modality.SLIDE else None
        found = replace(found, guidelines=guidelines_of(policy, request.release, others, slides, left=left))
    if request.output is not None:
        _write(request.output, found)
    return found


def _policy_of(release: Path, path: Path) -> Policy:
    """Load the policy, which must be the one that the release was made with."""
    policy = load(path)
    # The guidelines are checked against the decisions that the release was made with.
    if read_policy_digest(release) != policy_digest(with_site_lists(policy)):
        raise UsageError(
            "The release was made with another policy, or with another version of medsanitize",
            "Give its policy, unchanged, and use the version that made it",
        )
    return policy


def _images(request: LinkageAttackRequest, path: Path, labels: Path | None) -> _Images:
    """List the images of a release by its manifest, or of a folder by a table."""
    if is_release(path):
        found = dataset_from_release(path, "release").images
        patients, count = tuple(one.patient for one in found), len(found)
        return _Images(tuple(one.path for one in found), patients, (request.kind,) * count, ("",) * count, {})
    table = labels or next((path / name for name in _TABLES if (path / name).is_file()), None)
    if table is None:
        raise UsageError(
            "A folder has no table of its patients",
            "Add a labels.csv, or give a table with --labels or --background-labels",
        )
    read = read_labels(table, path, request.columns).of_kind(request.kind)
    return _Images(read.paths, read.patients, read.kinds, read.series, read.excluded)


def _attack_images(
    request: LinkageAttackRequest,
    ours: _Images,
    theirs: _Images | None,
    progress: Progress,
    cancellation: Cancellation,
) -> Linkage:
    from medsanitize.verifiers.reid.evaluation.embed import modality_of
    from medsanitize.verifiers.reid.images.read import ImageRegion
    from medsanitize.verifiers.reid.models.load import open_retrieval
    from medsanitize.verifiers.reid.models.pretrained import packaged_retrieval

    if request.model is None:
        model = packaged_retrieval(modality_of(ours.paths, ours.kinds))
    else:
        model = open_retrieval(request.model)
    sides = [ours] if theirs is None else [ours, theirs]
    numbers = _numbers(sides)
    whole, seen = _attack_region(ImageRegion.WHOLE, sides, numbers, model, progress, cancellation)
    crop: LinkageAttack | None
    try:
        crop, cropped = _attack_region(ImageRegion.CROP, sides, numbers, model, progress, cancellation)
    except UsageError:
        # No central crop can be compared, or no shared patient has one: reported as not measured.
        crop, cropped = None, []
    return Linkage(
        modality=str(model.modality),
        model="packaged ImageNet features" if request.model is None else "a trained model",
        model_digest=model.digest,
        release=seen[0],
        background=seen[-1],
        itself=theirs is None,
        whole=whole,
        crop=crop,
        without_crop=sum(one.images for one in seen) - sum(one.images for one in cropped),
    )


def _attack_region(
    part: ImageRegion,
    sides: Sequence[_Images],
    numbers: Mapping[str, int],
    model: Retrieval,
    progress: Progress,
    cancellation: Cancellation,
) -> tuple[LinkageAttack, list[DatasetSummary]]:
    """Attack with one region of the images."""
    import numpy as np
    from medsanitize.verifiers.reid.evaluation.embed import embed_files, middle_slices
    from medsanitize.verifiers.reid.linkage.attack import linkage_attack, pool_similarities

    progress.stage(f"{part} images", sum(len(side.paths) for side in sides))
    told = progress_callback(progress, cancellation)
    embedded = [embed_files(one.paths, [model], kinds=one.kinds, part=part, done=told) for one in sides]
    if model.modality.is_sliced:
        embedded = [
            middle_slices(one, side.patients, side.series) for side, one in zip(sides, embedded, strict=True)
        ]
    people = [
        np.array([numbers[side.patients[place]] for place in one.places])
        for side, one in zip(sides, embedded, strict=True)
    ]
    # The release against itself: an attacker who knows one image of each patient.
    if len(sides) == 1:
        found = linkage_attack(pool_similarities(embedded[0].vectors[0], people[0], None, None))
    else:
        found = linkage_attack(
            pool_similarities(embedded[0].vectors[0], people[0], embedded[1].vectors[0], people[1])
        )
    return found, [_summarize_dataset(side, one) for side, one in zip(sides, embedded, strict=True)]


def _summarize_dataset(side: _Images, embedded: EmbeddedImages) -> DatasetSummary:
    excluded = Counter(side.excluded) + Counter(embedded.excluded)
    patients = {side.patients[place] for place in embedded.places}
    return DatasetSummary(len(embedded.places), len(patients), dict(sorted(excluded.items())))


def _numbers(sides: Sequence[_Images]) -> dict[str, int]:
    """Number the patients of both datasets consistently."""
    return {
        name: number for number, name in enumerate(sorted({who for side in sides for who in side.patients}))
    }


def _write(output: Path, found: Linkage) -> None:
    from medsanitize.verifiers.reid.linkage.linkage_report import linkage_page

    results = json.dumps(found.to_json(), indent=1, sort_keys=True, allow_nan=False)
    write_atomic(output / RESULTS, results.encode() + b"\n")
    write_atomic(output / PAGE, linkage_page(found))
