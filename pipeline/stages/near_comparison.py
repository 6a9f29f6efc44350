"""Near comparisons with partners: the embeddings of a release, and the asking side of the comparison."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from medsanitize.errors import UsageError
from medsanitize.federation.near.bounds import OwnCalibration, own_calibration
from medsanitize.federation.near.client import ask_near_over_https
from medsanitize.federation.near.embeddings import NearSet, near_set, round_embeddings
from medsanitize.federation.near.install import SPU
from medsanitize.federation.near.process import require_spu
from medsanitize.federation.near.session import NearLearned, NearSide
from medsanitize.federation.near.terms import NearTerms, near_limits, search_limits
from medsanitize.federation.near.verdict import NearVerdict, conclude_near
from medsanitize.federation.parties.identity import Identity, LocalParty
from medsanitize.pipeline.engines.base import LocalEngine
from medsanitize.pipeline.engines.fingerprint_workers import FingerprintWorkers, fingerprint_in_workers
from medsanitize.pipeline.runtime.machine import usable_cores
from medsanitize.pipeline.runtime.optional_dependencies import check_extra
from medsanitize.policies.partners import Agreement, Ask, Near
from medsanitize.progress import Cancellation, Progress
from medsanitize.verifiers.reid.images.image import ImageArray, Modality
from medsanitize.verifiers.reid.overlap.dataset import Dataset
from medsanitize.verifiers.reid.overlap.dataset_fingerprint import DatasetFingerprint, fingerprint_dataset
from medsanitize.verifiers.reid.overlap.models import ModelPaths, open_models
from medsanitize.verifiers.reid.overlap.overlap import iter_fingerprints


@dataclass(frozen=True, slots=True)
class NearResult:
    """The result of a near comparison.

    Attributes
    ----------
    verdict
        Verdict and statement.
    learned
        What was opened, and the bounds of both parties.
    patients
        Own patients who match, where both policies reveal them; contains PHI.
    """

    verdict: NearVerdict
    learned: NearLearned
    patients: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the result without patients."""
        learned = self.learned
        return {
            "result": self.verdict.result,
            "sentence": self.verdict.sentence,
            "statement": self.verdict.statement,
            "number": learned.opened.number,
            "patients": list(learned.sizes),
            "distance": learned.distance,
            "miss": self.verdict.miss,
            "max_shared_patients": self.verdict.max_shared_patients,
            "bounds": [one.model_dump() for one in learned.bounds],
            "session": learned.session,
        }


Embed = Callable[[Modality, ModelPaths], DatasetFingerprint]
"""Embeds the images of one kind of the release."""


def embed_once(images: Callable[[], Dataset], progress: Progress, cancellation: Cancellation) -> Embed:
    """Return what embeds a release, once for each kind and model however many partners ask."""

    def embedded(kind: Modality, paths: ModelPaths) -> DatasetFingerprint:
        dataset = images().of_kind(kind)
        with LocalEngine(FingerprintWorkers(paths), usable_cores(), cancellation) as engine:
            progress.stage("looking", len(dataset.images))
            seen = iter_fingerprints(
                dataset, lambda batches: fingerprint_in_workers(engine, progress, batches)
            )
            return fingerprint_dataset(dataset, seen)

    return cache(embedded)


def check_near(party: LocalParty, near: Near) -> tuple[Modality, ModelPaths]:
    """Check what a near comparison needs, before an image is read; return the kind and the models.

    Raises
    ------
    UsageError
        The kind is unknown, or a library is missing.
    IntegrityError
        A model was changed.
    """
    for extra in ("party", "verify"):
        check_extra(extra)
    require_spu(SPU.of(party.folder))
    try:
        kind = Modality(near.kind)
    except ValueError:
        raise UsageError(
            "The kind of a near comparison is not known", "Name a kind of image such as radiograph or mr-head"
        ) from None
    paths = ModelPaths((near.model,) if near.model is not None else ())
    open_models(paths)
    return kind, paths


def near_side(party: LocalParty, partner: Identity, agreement: Agreement, embed: Embed) -> NearSide:
    """Embed the images of a release, and calibrate on them.

    Parameters
    ----------
    party, partner : LocalParty, Identity
        Both ends.
    agreement : Agreement
        The agreement of both, with a near comparison.
    embed : callable
        See `embed_once`.

    Raises
    ------
    UsageError
        The agreement has no near comparison, its kind is unknown, a library is missing, or the release has
        no images of the kind or no two patients who are known apart.
    IntegrityError
        A model or a manifest was changed.
    """
    near = agreement.near
    if near is None:
        raise UsageError("The agreement has no near comparison", "Write near in both policies")
    kind, paths = check_near(party, near)
    models = open_models(paths)
    own, calibration = _calibrated(embed, kind, paths)
    terms = NearTerms(
        kind=kind, model=models.retrieval[kind].digest, reveal=near.reveal, contract=agreement.contract
    )
    return NearSide(party, partner, terms, near_limits(agreement), own, calibration, SPU.of(party.folder))


def searched_side(party: LocalParty, partner: Identity, agreement: Agreement, embed: Embed) -> NearSide:
    """Embed the images of a release, among whose patients a partner may search; errors as of `near_side`."""
    ask = _search_of(agreement)
    kind, paths = check_near(party, Near(kind=ask.kind, model=ask.retrieval))
    own, calibration = _calibrated(embed, kind, paths)
    terms, limits = _search_terms(agreement, kind, paths), search_limits(agreement, ask)
    return NearSide(party, partner, terms, limits, own, calibration, SPU.of(party.folder))


def searching_side(
    party: LocalParty,
    partner: Identity,
    agreement: Agreement,
    images: Callable[[Modality], Sequence[ImageArray]],
) -> NearSide:
    """Embed single images, to search for their patients at a partner.

    Parameters
    ----------
    party, partner, agreement : LocalParty, Identity, Agreement
        As of `near_side`.
    images : callable
        Reads the images of a kind.

    Raises
    ------
    UsageError, IntegrityError
        As of `near_side`; also for an image that cannot be read.
    """
    ask = _search_of(agreement)
    kind, paths = check_near(party, Near(kind=ask.kind, model=ask.retrieval))
    vectors = round_embeddings(open_models(paths).retrieval[kind].embed(images(kind)))
    terms, limits = _search_terms(agreement, kind, paths), search_limits(agreement, ask)
    own = NearSet(vectors, tuple(str(place) for place in range(len(vectors))), 0)
    return NearSide(party, partner, terms, limits, own, None, SPU.of(party.folder))


def _search_of(agreement: Agreement) -> Ask:
    if agreement.ask is None or not agreement.ask.search:
        raise UsageError(
            "The agreement with the partner allows no search", "Write ask: {search: true} in both policies"
        )
    return agreement.ask


def _search_terms(agreement: Agreement, kind: Modality, paths: ModelPaths) -> NearTerms:
    digest = open_models(paths).retrieval[kind].digest
    return NearTerms(kind=kind, model=digest, reveal="each", contract=agreement.contract)


def _calibrated(embed: Embed, kind: Modality, paths: ModelPaths) -> tuple[NearSet, OwnCalibration]:
    seen = embed(kind, paths)
    own = near_set(seen, kind)
    return own, own_calibration(seen, kind, open_models(paths).distances.get(kind), own.dimension)


def ask_partner_near(side: NearSide, address: str) -> NearResult:
    """Ask a partner's server; see `ask_near_over_https`."""
    learned = ask_near_over_https(side, address)
    verdict = conclude_near(
        side.partner.name, side.terms.reveal, learned.opened, learned.sizes, learned.bounds
    )
    matching = zip(side.own.patients, learned.opened.patients, strict=False)
    return NearResult(verdict, learned, tuple(sorted(name for name, matches in matching if matches)))
