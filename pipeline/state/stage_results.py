"""Results of the stages on the whole set: one entry each, with its type, its writers and its other readers.

The names under which the state stores these values are defined here only. A test compares ``written_by`` and
``read_by`` with the modules that use an entry, so a new reader must be added here.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Generic, TypeVar

from medsanitize.pipeline.state.database import State
from medsanitize.pipeline.state.result_types import (
    Approvals,
    AskedPartner,
    AskedPartners,
    Attacked,
    Attacks,
    ExcludedPatients,
    Judgment,
    OverlapResult,
    PendingReview,
    Publication,
    RegistryResult,
    Replaced,
    SharedInputs,
    TableNotes,
    ValidityResult,
    Walk,
)
from medsanitize.pipeline.storage.local import Root
from medsanitize.release.dataset_card.noisy_tables import DatasetCard, card_from_facts
from medsanitize.release.summary import FigureTable, SyntheticSummary
from medsanitize.verifiers.leaks.k_anonymity import EquivalenceClasses
from medsanitize.verifiers.reid.calibration import Rate

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Flag:
    """A flag that a step is done, stored unencrypted because it reveals nothing.

    Parameters
    ----------
    name : str
        Name in the state.
    written_by, read_by : tuple of str
        Modules of `medsanitize.pipeline` that set the flag, and others that read it.
    """

    name: str
    written_by: tuple[str, ...]
    read_by: tuple[str, ...] = ()

    def is_set(self, state: State) -> bool:
        """Whether the flag is set."""
        return state.plain(self.name) is not None

    def set(self, state: State) -> None:
        """Set the flag, within the open transaction if there is one."""
        state.put_plain(self.name, b"1")

    def remove(self, state: State) -> None:
        """Remove the flag, within the open transaction if there is one."""
        state.remove(self.name)


@dataclass(frozen=True, slots=True)
class Result(Generic[T]):
    """An encrypted value, stored as JSON.

    Parameters
    ----------
    name : str
        Name in the state.
    decode : callable
        Rebuilds the value from parsed JSON.
    written_by, read_by : tuple of str
        Modules of `medsanitize.pipeline` that store the value, and others that load it.
    encode : callable
        Converts the value to what JSON can represent; the default suits dataclasses.
    """

    name: str
    decode: Callable[[Any], T]
    written_by: tuple[str, ...]
    read_by: tuple[str, ...] = ()
    encode: Callable[[T], Any] = asdict  # type: ignore[assignment]

    def is_stored(self, state: State) -> bool:
        """Whether a value is stored."""
        return state.plain(self.name) is not None

    def load(self, state: State) -> T | None:
        """Return the value, or None if none is stored."""
        text = state.get(self.name)
        return None if text is None else self.decode(json.loads(text))

    def store(self, state: State, value: T) -> None:
        """Encrypt and store the value, within the open transaction if there is one."""
        state.put(self.name, json.dumps(self.encode(value)))

    def remove(self, state: State) -> None:
        """Remove the value, within the open transaction if there is one."""
        state.remove(self.name)


def _text(name: str, written_by: tuple[str, ...], read_by: tuple[str, ...] = ()) -> Result[str]:
    return Result(name, str, written_by, read_by, encode=str)


# -- codecs ---------------------------------------------------------------------------------


def decode_synthetic(facts: Mapping[str, Any]) -> SyntheticSummary:
    """Rebuild the public facts about synthetic images from parsed JSON."""
    figures = tuple(
        FigureTable(**{**one, "head": tuple(one["head"]), "rows": tuple(map(tuple, one["rows"]))})
        for one in facts.get("figures", ())
    )
    texts = {name: tuple(facts.get(name, ())) for name in ("statement", "quality")}
    return SyntheticSummary(**{**facts, **texts, "figures": figures})


def _synthetic(facts: Mapping[str, Any] | None) -> SyntheticSummary | None:
    return decode_synthetic(facts) if facts else None


def _attacks(facts: Mapping[str, Any]) -> Attacks:
    made = tuple(Attacked(**{**one, "rate": Rate(**one["rate"])}) for one in facts["made"])
    return Attacks(made, facts["images"], facts["unread"])


def _asked(facts: Mapping[str, Any]) -> AskedPartners:
    return AskedPartners(**{**facts, "partners": tuple(AskedPartner(**one) for one in facts["partners"])})


def _registry(facts: Mapping[str, Any]) -> RegistryResult:
    releases = tuple((str(name), str(version)) for name, version in facts["relies_on"])
    return RegistryResult(
        facts["supersedes"], tuple(facts["public_prior"]), facts["links"], releases, facts.get("compared", 0)
    )


def _overlap(facts: Mapping[str, Any]) -> OverlapResult:
    texts = {name: tuple(facts[name]) for name in ("sentences", "limits")}
    return OverlapResult(**{**facts, **texts})


def _place(facts: Any) -> tuple[int, bytes]:
    return int(facts[0]), bytes.fromhex(facts[1])


def _tables(facts: Mapping[str, Mapping[str, int]]) -> dict[str, TableNotes]:
    return {name: TableNotes(**notes) for name, notes in facts.items()}


def _encode_inputs(shared: SharedInputs) -> Any:
    # Paths are bytes that need not be UTF-8: fsdecode and fsencode keep every byte through JSON.
    roots = [
        [os.fsdecode(one.path), one.inode, [(os.fsdecode(name), inode) for name, inode in one.entries]]
        for one in shared.roots
    ]
    return [roots, shared.mark]


def _inputs(facts: Any) -> SharedInputs:
    roots, mark = facts
    return SharedInputs(
        tuple(
            Root(os.fsencode(path), inode, tuple((os.fsencode(name), number) for name, number in entries))
            for path, inode, entries in roots
        ),
        mark,
    )


# -- the state itself -----------------------------------------------------------------------

SETTINGS = _text("settings", ("resume",), ("amend",))
"""Settings that a resumed run must share with the run that began: versions, policy, inputs, lists."""
AMENDED = _text("amended", ("amend",), ("resume",))
"""Settings after a rule or word that a person added: a run under them keeps the decisions of the review."""
SHARED_INPUTS = Result("shared-inputs", _inputs, ("engines.shared_storage",), encode=_encode_inputs)
"""The inputs as every shard must find them; stored while shards may run."""

# -- the set before any object is sanitized -------------------------------------------------

WALK = Result("walk", lambda facts: Walk(**facts), ("stages.inventory",))
"""The complete inventory."""
PARTIAL_WALK = Result("partial-walk", lambda facts: Walk(**facts), ("stages.inventory",), ("run",))
"""The inventory up to its last stored batch."""
TOP_WALK = Result("top-walk", lambda facts: Walk(**facts), ("stages.inventory",))
"""The complete walk of the inputs, before containers are opened."""
LISTED_COMPARED = Flag("listed-compared", ("stages.dicomdirs",))
"""The files that every DICOMDIR lists are compared with those that were found."""
SPECIMENS_ASSIGNED = Flag("specimens-assigned", ("stages.slides",))
"""The patients and specimens of the table ``wsi.specimens`` are assigned to slides."""
RESOLVED = Flag("resolved", ("stages.resolve",))
"""Consent, mixed studies and contested UIDs are decided."""
EXCLUDED = Result("excluded", lambda facts: ExcludedPatients(**facts), ("stages.resolve",), ("evidence",))
"""Counts of the list ``exclude``."""
SUSPECTED = Result("suspected-patients", int, ("stages.resolve", "evidence"), ("evidence", "run"), encode=int)
"""Number of pairs of patients that may be one person, and on which nobody decided."""
SMALL_SERIES_JOINED = Flag("small-series-joined", ("stages.faces",))
"""Series with too few slices are joined by frame of reference."""
FACES_JUDGED = Flag("faces-judged", ("stages.faces",))
"""Every series has a verdict on faces."""

REVIEW_ITEMS_END = Result(
    "review-items-end",
    _place,
    ("stages.review_items",),
    encode=lambda place: [place[0], place[1].hex()],
)
"""Rank and name from which on review items are not stored, because the limits of a run are reached."""

# -- decisions on the whole set -------------------------------------------------------------

CONTESTS_SETTLED = Flag("contests-settled", ("stages.conflicts",))
"""Contested SOP Instance UIDs are decided."""
VALIDITY = Result("validity", lambda facts: ValidityResult(**facts), ("stages.validate",), ("evidence",))
"""The comparison of released objects with their sources by foreign readers."""
DUPLICATES_JUDGED = Flag("duplicates", ("stages.deduplicate",))
"""Equal bytes, equal pixels and earlier releases are decided."""
REGISTRY = Result(
    "registry",
    _registry,
    ("stages.deduplicate",),
    ("evidence", "run", "stages.manifests"),
)
"""The comparison of the release with the registry."""
FAILED_BYTES = Flag("failed-bytes", ("stages.conflicts", "stages.deduplicate"))
"""Equal bytes that the policy does not allow."""
FAILED_PIXELS = Flag("failed-pixels", ("stages.conflicts", "stages.deduplicate"))
"""Equal pixels that the policy does not allow."""
FAILED_REGISTRY = Flag("failed-registry", ("stages.deduplicate",))
"""Objects of earlier releases that the policy does not allow."""
FINGERPRINTED_BY = _text("fingerprinted-by", ("stages.overlap",))
FINGERPRINTED_AS = _text("fingerprinted-as", ("stages.overlap",))
"""Identity of the models that made the stored fingerprints."""
OVERLAP_JUDGED = Flag("overlap", ("stages.overlap",))
"""The comparison with earlier releases is decided."""
OVERLAP = Result("overlap-result", _overlap, ("stages.overlap",), ("evidence", "stages.manifests"))
"""The result of the comparison with earlier releases."""
FAILED_OVERLAP = Flag("failed-overlap", ("stages.overlap",))
"""Patients of earlier releases that the policy does not allow."""
REPLACED = Result(
    "replaced",
    lambda facts: Replaced(**facts),
    ("synthesis.replaced_objects",),
    ("synthesis.synthesize_stage",),
)
"""Which originals are replaced by synthetic images."""
SYNTHETIC: Result[SyntheticSummary | None] = Result(
    "synthetic",
    _synthetic,
    ("synthesis.synthesize_stage",),
    ("demo.synthetic", "evidence", "stages.manifests", "synthesis.synthetic_gate"),
    encode=lambda value: None if value is None else asdict(value),
)
"""The public facts about synthetic images; stored as None where nothing was replaced."""
ATTACKS = Result("attacks", _attacks, ("stages.linkage_attack",))
"""Success of linkage attacks on the released images."""
ASKED_PARTNERS = Result("asked-partners", _asked, ("stages.partners",))
"""How many items other hospitals have in common with the staged set."""

# -- evidence and publication ---------------------------------------------------------------

GROUPS = Result("groups", lambda facts: EquivalenceClasses(**facts), ("stages.tables",))
"""Equivalence classes of patients in the accompanying tables."""
TABLE_NOTES = Result(
    "table-notes",
    _tables,
    ("stages.tables",),
    ("evidence",),
    encode=lambda notes: {name: asdict(one) for name, one in notes.items()},
)
"""Numbers of cells and rows removed from each accompanying table."""
CARD: Result[DatasetCard] = Result("card", card_from_facts, ("stages.dataset_card",), ("evidence",))
"""The dataset card, if its epsilon is within the ceiling."""
JUDGED = Result(
    "judged",
    lambda facts: Judgment(**facts),
    ("run",),
    ("jobs.list_values", "requeue", "review.pages", "review.queue"),
)
"""The ending of the run."""
PUBLICATION = Result(
    "publication",
    lambda facts: Publication(**facts),
    ("run",),
    ("requeue", "review.pages", "review.queue"),
)
"""The release that is being or is published; once stored, no gate is decided again."""
PUBLISHED = Flag(
    "published", ("run",), ("amend", "jobs.make_dataset_card", "resume", "review.pages", "review.queue")
)
"""The release is complete."""
WITHDRAWN = Flag("withdrawn", ("run",), ("requeue", "resume"))
"""A gate failed: the staged files are removed, and a rerun sanitizes again."""

# -- review ---------------------------------------------------------------------------------

REVIEW = Result(
    "review",
    lambda facts: PendingReview(**{**facts, "others": tuple(facts.get("others", ()))}),
    ("review.pages", "review.queue"),
    ("review.review_decisions", "run"),
)
"""The review pages that await decisions."""
SAMPLE_SEED = _text("seed", ("review.sample",), ("stages.second_review",))
"""Seed of the review sample: the staged digest that the first page showed."""
REVIEWED = Flag("reviewed", ("resume", "review.review_decisions"), ("stages.sanitize",))
"""A person made at least one decision."""
DECIDED = _text("decided", ("resume", "review.review_decisions"))
"""Digest of all decisions; shards with another digest are not merged."""
APPROVALS = Result(
    "approvals",
    lambda facts: Approvals(facts["digest"], tuple(facts["reviewers"])),
    ("review.review_decisions",),
    ("stages.second_review",),
)
"""The staged release that persons approved, and who they are."""

ENTRIES: tuple[Flag | Result[Any], ...] = tuple(
    one for one in list(globals().values()) if isinstance(one, Flag | Result)
)
"""Every entry, in the order of this table."""
