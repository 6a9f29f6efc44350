"""The command ``attack generator``: training images from a generator, and who trained it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from medsanitize.errors import UsageError
from medsanitize.pipeline.jobs.attacked_images import new_private_folder, write_pairs, write_report
from medsanitize.pipeline.jobs.attacked_splits import AttackedSplits, attacked_splits
from medsanitize.pipeline.runtime.optional_dependencies import check_extra
from medsanitize.pipeline.synthesis.reference_images import ReferenceTable
from medsanitize.progress import Cancellation, Progress

if TYPE_CHECKING:
    import numpy as np
    from medsanitize.generators.diffusion.sample import LatentGenerator
    from medsanitize.generators.privacy_gate.extraction_attack import Extraction
    from medsanitize.generators.privacy_gate.repeated_samples import NearPatients
    from medsanitize.verifiers.reid.membership.likelihood_ratio import Membership
    from numpy.typing import NDArray

_AT_ONCE: Final = 64
# Each bound of a two-sided interval at 95 %.
_EACH_BOUND: Final = 0.975
# Seeds of restored images, which no sample uses.
_RESTORED: Final = 1 << 40
_FEWEST_PATIENTS: Final = 2


@dataclass(frozen=True, slots=True)
class GeneratorAttackRequest:
    """The arguments of the command ``attack generator``; without a table the attack is blind."""

    model: Path
    table: ReferenceTable | None
    count: int
    device: str
    output: Path | None


@dataclass(frozen=True, slots=True)
class Repeated:
    """What a blind attacker sees.

    Attributes
    ----------
    groups, samples, largest
        Groups of samples that are alike, the samples in them, and those of the largest group.
    confirmed
        Groups of which a sample is like a training image; None without training images.
    """

    groups: int
    samples: int
    largest: int
    confirmed: int | None


@dataclass(frozen=True, slots=True)
class Found:
    """What the training images confirm.

    Attributes
    ----------
    patients, others
        Number of patients that the generator was trained on, and of others.
    extraction
        Patients found twice in blind samples, and restored from noise.
    share
        Exact 95 % interval of the share of training patients extracted.
    matching, matching_others
        Samples like an image of a training patient, and of another.
    matching_interval
        Exact 95 % interval of the share of samples like a training image.
    chance
        p-value of the blind extraction: as many training patients among those found, if chance finds them.
    membership
        Who trained the generator, by its denoising loss.
    """

    patients: int
    others: int
    extraction: Extraction
    share: tuple[float, float]
    matching: int
    matching_others: int
    matching_interval: tuple[float, float]
    chance: float
    membership: Membership

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON types."""
        facts = {
            name: getattr(self, name)
            for name in ("patients", "others", "matching", "matching_others", "chance")
        }
        extraction = {**asdict(self.extraction), "veto": self.extraction.veto}
        intervals = {"share": list(self.share), "matching_interval": list(self.matching_interval)}
        return {**facts, **intervals, "extraction": extraction, "membership": self.membership.to_json()}


@dataclass(frozen=True, slots=True)
class GeneratorAttack:
    """Result of the attack; it names no image and no patient.

    Attributes
    ----------
    digest, size
        Digest of the generator, and the size of its images in pixels.
    samples
        Number of images sampled.
    repeated
        What is seen without training images.
    found
        What training images confirm; None without them.
    privacy
        Statement of differential privacy; None for a generator without.
    excluded
        Number of images left out, by reason.
    """

    digest: str
    size: int
    samples: int
    repeated: Repeated
    found: Found | None
    privacy: Mapping[str, Any] | None
    excluded: Mapping[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON types."""
        return {
            "attack": "generator", "generator": self.digest, "size": self.size, "samples": self.samples,
            "repeated": asdict(self.repeated),
            "found": None if self.found is None else self.found.to_json(),
            "privacy": None if self.privacy is None else dict(self.privacy),
            "excluded": dict(self.excluded),
        }  # fmt: skip


def run_generator_attack(
    request: GeneratorAttackRequest, progress: Progress, cancellation: Cancellation
) -> GeneratorAttack:
    """Sample a generator, and compare the samples with each other and with real images.

    Raises
    ------
    UsageError
        If the table is not that of the generator, has no other patients, or the output exists.
    IntegrityError
        If the generator was changed.
    """
    check_extra("generate")
    from medsanitize.generators.diffusion.generator import training_of
    from medsanitize.generators.diffusion.load import open_latent_generator
    from medsanitize.generators.privacy_gate.repeated_samples import groups_of_repeated
    from medsanitize.generators.privacy_gate.tile_distances import tile_distances

    generator = open_latent_generator(request.model, request.device)
    real = None
    if request.table is not None:
        real = attacked_splits(request.table, generator, training_of(request.model), progress, cancellation)
        _check_patients(real)
    if request.output is not None:
        new_private_folder(request.output)
    samples = _sampled(generator, request.count, progress, cancellation)
    progress.stage("compare samples", None)
    between = tile_distances(samples, samples, cancellation.check)
    groups = groups_of_repeated(between)
    found, near = None, None
    if real is not None:
        near = _nearest(samples, real, cancellation.check)
        found = _found(generator, between, near, real, progress, cancellation)
    result = GeneratorAttack(
        digest=generator.digest,
        size=generator.size,
        samples=request.count,
        repeated=_repeated(groups, near, real),
        found=found,
        privacy=generator.privacy,
        excluded=real.excluded if real else {},
    )
    if request.output is not None:
        _write(request.output, result, samples, groups, near, real)
    return result


def _check_patients(real: AttackedSplits) -> None:
    if min(real.counts()) < _FEWEST_PATIENTS:
        raise UsageError(
            f"There are too few patients whom the generator was not trained on: {real.counts()[1]}",
            "Name a split of other patients with --holdout",
        )


def _sampled(
    generator: LatentGenerator, count: int, progress: Progress, cancellation: Cancellation
) -> NDArray[np.uint8]:
    import numpy as np

    progress.stage("sample", count)
    parts = []
    for start in range(0, count, _AT_ONCE):
        cancellation.check()
        seeds = range(start, min(start + _AT_ONCE, count))
        parts.append(generator.sample([seed % max(1, len(generator.classes)) for seed in seeds], seeds))
        progress.advance(len(seeds))
    return np.concatenate(parts)


def _nearest(samples: NDArray[np.uint8], real: AttackedSplits, check: Callable[[], None]) -> NearPatients:
    from medsanitize.generators.privacy_gate.repeated_samples import nearest_patients
    from medsanitize.generators.privacy_gate.tile_distances import tile_distances

    return nearest_patients(tile_distances(samples, real.squares, check), real.patients)


def _found(
    generator: LatentGenerator,
    between: NDArray[np.float64],
    near: NearPatients,
    real: AttackedSplits,
    progress: Progress,
    cancellation: Cancellation,
) -> Found:
    import numpy as np
    from medsanitize.generators.privacy_gate.extraction_attack import extracted_patients, extraction
    from medsanitize.generators.privacy_gate.repeated_samples import ALIKE
    from medsanitize.verifiers.reid.calibration import clopper_pearson
    from scipy.stats import hypergeom  # type: ignore[import-untyped]

    def alike(one: NDArray[np.int64], other: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.asarray(1 - between[one, other] / np.maximum(near.scale[one], near.scale[other]))

    named, learned = real.patients[near.rows], real.trained[near.rows]
    twice = extracted_patients(near.scores, named, 1 - ALIKE, alike)
    members = np.unique(real.patients[real.trained])
    blind = int(np.isin(twice, members).sum()), int((~np.isin(twice, members)).sum())
    patients, others = real.counts()
    matched = near.scores >= 1 - ALIKE
    matching = int((matched & learned).sum())
    return Found(
        patients=patients,
        others=others,
        extraction=extraction(
            blind, (patients, others), *_restored(generator, real, progress, cancellation), 1 - ALIKE
        ),
        share=clopper_pearson(blind[0], patients, _EACH_BOUND),
        matching=matching,
        matching_others=int((matched & ~learned).sum()),
        matching_interval=clopper_pearson(matching, len(matched), _EACH_BOUND),
        # sf(k - 1) is P(X >= k).
        chance=float(hypergeom.sf(blind[0] - 1, patients + others, patients, sum(blind))),
        membership=_membership(generator, real, progress, cancellation),
    )


def _restored(
    generator: LatentGenerator, real: AttackedSplits, progress: Progress, cancellation: Cancellation
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Scores of noised and restored images with their originals: training patients, and as many others."""
    import numpy as np
    from medsanitize.generators.privacy_gate.extraction_attack import MOST_HINTS, STRENGTH
    from medsanitize.generators.privacy_gate.repeated_samples import near_to
    from medsanitize.generators.privacy_gate.tile_distances import tile_distances

    draw = np.random.default_rng(0)
    hints = []
    for chosen in (real.trained, ~real.trained):
        _, first = np.unique(np.where(chosen, real.patients, -1), return_index=True)
        first = first[chosen[first]]
        hints.append(draw.permutation(first)[: min(*real.counts(), MOST_HINTS)])
    rows = np.concatenate(hints)
    progress.stage("restore noised images", len(rows))
    parts = []
    for start in range(0, len(rows), _AT_ONCE):
        cancellation.check()
        part = rows[start : start + _AT_ONCE]
        seeds = [_RESTORED + int(row) for row in part]
        parts.append(generator.vary(real.squares[part], real.classes[part].tolist(), STRENGTH, seeds))
        progress.advance(len(part))
    distances = tile_distances(np.concatenate(parts), real.squares, cancellation.check)
    scores = near_to(distances, rows.astype(np.int64), real.patients).scores
    return scores[: len(hints[0])], scores[len(hints[0]) :]


def _membership(
    generator: LatentGenerator, real: AttackedSplits, progress: Progress, cancellation: Cancellation
) -> Membership:
    """Judge each patient by the mean denoising loss of the images (after Matsumoto et al. 2023)."""
    import numpy as np
    from medsanitize.verifiers.reid.membership.likelihood_ratio import membership

    progress.stage("ask for losses", len(real.squares))
    losses = []
    for start in range(0, len(real.squares), _AT_ONCE):
        cancellation.check()
        part = slice(start, start + _AT_ONCE)
        losses.append(generator.losses(real.squares[part], real.classes[part].tolist()).mean(1))
        progress.advance(len(losses[-1]))
    sums = np.bincount(real.patients, np.concatenate(losses)) / np.bincount(real.patients)
    learned = np.unique(real.patients[real.trained])
    return membership(-sums[learned], -np.delete(sums, learned))


def _repeated(groups: NDArray[np.int64], near: NearPatients | None, real: AttackedSplits | None) -> Repeated:
    import numpy as np
    from medsanitize.generators.privacy_gate.repeated_samples import ALIKE

    inside = groups >= 0
    sizes = np.bincount(groups[inside])
    confirmed = None
    if near is not None and real is not None:
        shown = inside & (near.scores >= 1 - ALIKE) & real.trained[near.rows]
        confirmed = len(np.unique(groups[shown]))
    return Repeated(len(sizes), int(inside.sum()), int(sizes.max(initial=0)), confirmed)


def _write(
    output: Path,
    result: GeneratorAttack,
    samples: NDArray[np.uint8],
    groups: NDArray[np.int64],
    near: NearPatients | None,
    real: AttackedSplits | None,
) -> None:
    """Write the figures, two samples of each group, and training images with the samples nearest to them."""
    import numpy as np

    shown = _gray(samples)
    pairs = [np.flatnonzero(groups == number)[:2] for number in range(result.repeated.groups)]
    if pairs:
        write_pairs(output / "repeated.png", *(shown[[pair[side] for pair in pairs]] for side in (0, 1)))
    if near is not None and real is not None:
        learned = np.flatnonzero(real.trained[near.rows])
        best = learned[np.argsort(-near.scores[learned], kind="stable")]
        write_pairs(output / "nearest.png", _gray(real.squares[near.rows[best]]), shown[best])
    write_report(output, result.to_json())


def _gray(squares: NDArray[np.uint8]) -> NDArray[np.float32]:
    import numpy as np

    return np.asarray(squares / 255, np.float32)
