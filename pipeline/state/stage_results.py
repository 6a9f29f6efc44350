"""What each stage stores of the whole set, one entry each: its type, who writes it, who else reads it.

This table is the only place that knows the names under which the state stores these values. A test holds
``written_by`` and ``read_by`` to the modules that use an entry, so a new reader has to be named here.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Generic, TypeVar

from medsanitize.pipeline.state.database import State
from medsanitize.pipeline.state.result_types import (
    Attacked,
    Attacks,
    ExcludedPatients,
    Judgement,
    OverlapResult,
    PendingReview,
    Publication,
    RegistryResult,
    Replaced,
    SharedInputs,
    TableNotes,
    Walk,
)
from medsanitize.pipeline.storage.local import Root
from medsanitize.release.summary import FigureTable, SyntheticSummary
from medsanitize.verifiers.leaks.k_anonymity import EquivalenceClasses
from medsanitize.verifiers.reid.calibration import Rate

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Mark:
    """That something is done; stored in the clear, since it reveals nothing."""

    name: str
    written_by: tuple[str, ...]
    read_by: tuple[str, ...] = ()

    def is_set(self, state: State) -> bool:
        """Whether it is done."""
        return state.plain(self.name) is not None

    def set(self, state: State) -> None:
        """State that it is done, within the open transaction if there is one."""
        state.put_plain(self.name, b"1")

    def remove(self, state: State) -> None:
        """State that it is not done, within the open transaction if there is one."""
        state.remove(self.name)


@dataclass(frozen=True, slots=True)
class Result(Generic[T]):
    """A sealed value: ``decode`` rebuilds it from JSON, ``encode`` makes JSON of what is no dataclass."""

    name: str
    decode: Callable[[Any], T]
    written_by: tuple[str, ...]
    read_by: tuple[str, ...] = ()
    encode: Callable[[T], Any] = asdict  # type: ignore[assignment]

    def is_stored(self, state: State) -> bool:
        """Whether there is a value."""
        return state.plain(self.name) is not None

    def load(self, state: State) -> T | None:
        """The value, or None where there is none."""
        text = state.get(self.name)
        return None if text is None else self.decode(json.loads(text))

    def store(self, state: State, value: T) -> None:
        """Seal and store the value, within the open transaction if there is one."""
        state.put(self.name, json.dumps(self.encode(value)))

    def remove(self, state: State) -> None:
        """Remove the value, within the open transaction if there is one."""
        state.remove(self.name)


def _text(name: str, written_by: tuple[str, ...], read_by: tuple[str, ...] = ()) -> Result[str]:
    return Result(name, str, written_by, read_by, encode=str)


# -- codecs ---------------------------------------------------------------------------------


def decode_synthetic(facts: Mapping[str, Any]) -> SyntheticSummary:
    """Rebuild what the release states of its synthetic images."""
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


def _registry(facts: Mapping[str, Any]) -> RegistryResult:
    releases = tuple((str(name), str(version)) for name, version in facts["relies_on"])
    return RegistryResult(facts["supersedes"], tuple(facts["public_prior"]), facts["links"], releases)


def _overlap(facts: Mapping[str, Any]) -> OverlapResult:
    texts = {name: tuple(facts[name]) for name in ("sentences", "limits")}
    return OverlapResult(**{**facts, **texts})


def _tables(facts: Mapping[str, Mapping[str, int]]) -> dict[str, TableNotes]:
    return {name: TableNotes(**notes) for name, notes in facts.items()}


def _encode_inputs(shared: SharedInputs) -> Any:
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

SETTINGS = _text("settings", ("resume",))
"""What a resumed run must share with the run that began: versions, policy, inputs, lists."""
SHARED_INPUTS = Result("sight", _inputs, ("engines.shared_storage",), encode=_encode_inputs)
"""The inputs as every shard must find them; there while shards may be at work."""

# -- the set before any object is sanitized -------------------------------------------------

WALK = Result("walk", lambda facts: Walk(**facts), ("stages.inventory",))
"""The complete inventory."""
PARTIAL_WALK = Result("walk-so-far", lambda facts: Walk(**facts), ("stages.inventory",))
"""The inventory up to its last stored batch."""
SPECIMENS_ASSIGNED = Mark("placed", ("stages.slides",))
"""Slides have the patients and specimens of the table ``wsi.places``."""
RESOLVED = Mark("resolved", ("stages.resolve",))
"""Consent, mixed studies and contested UIDs are decided."""
EXCLUDED = Result("excluded", lambda facts: ExcludedPatients(**facts), ("stages.resolve",), ("evidence",))
"""What became of the list ``exclude``."""
SMALL_SERIES_JOINED = Mark("small series joined", ("stages.faces",))
"""Series too small to be judged by themselves are judged by frame of reference."""
FACES_JUDGED = Mark("faces", ("stages.faces",))
"""Every series has a verdict on faces."""

# -- decisions on the whole set -------------------------------------------------------------

CONTESTS_SETTLED = Mark("contests", ("stages.deduplicate",))
"""Of the sources that state one SOP Instance UID, the survivors are known."""
DUPLICATES_JUDGED = Mark("duplicates", ("stages.deduplicate",))
"""Equal bytes, equal pixels and earlier releases are decided."""
REGISTRY = Result(
    "registry",
    _registry,
    ("stages.deduplicate",),
    ("evidence", "run"),
)
"""What the registry says of the release."""
FAILED_BYTES = Mark("refused-bytes", ("stages.deduplicate",))
"""Equal bytes that the policy does not allow."""
FAILED_PIXELS = Mark("refused-pixels", ("stages.deduplicate",))
"""Equal pixels that the policy does not allow."""
FAILED_REGISTRY = Mark("refused-registry", ("stages.deduplicate",))
"""Objects of earlier releases that the policy does not allow."""
FINGERPRINTED_BY = _text("looked-by", ("stages.overlap",))
"""Identity of the models that made the stored fingerprints."""
OVERLAP_JUDGED = Mark("overlap", ("stages.overlap",))
"""The comparison with earlier releases is decided."""
OVERLAP = Result("overlapped", _overlap, ("stages.overlap",), ("evidence", "stages.manifests"))
"""What the comparison with earlier releases found."""
FAILED_OVERLAP = Mark("refused-overlap", ("stages.overlap",))
"""Patients of earlier releases that the policy does not allow."""
REPLACED = Result(
    "replaced",
    lambda facts: Replaced(**facts),
    ("synthesis.replaced_objects",),
    ("synthesis.synthesize_stage",),
)
"""Which originals are replaced by synthetic images."""
SYNTHETIC: Result[SyntheticSummary | None] = Result(
    "synthesized",
    _synthetic,
    ("synthesis.synthesize_stage",),
    ("evidence", "stages.manifests"),
    encode=lambda value: None if value is None else asdict(value),
)
"""What the release states of its synthetic images; stored as None where nothing was replaced."""
ATTACKS = Result("attacks", _attacks, ("stages.linkage_attack",))
"""Success of linkage attacks on the released images."""

# -- evidence and publication ---------------------------------------------------------------

GROUPS = Result("groups", lambda facts: EquivalenceClasses(**facts), ("stages.tables",))
"""Groups of patients by what the accompanying tables state."""
TABLE_NOTES = Result(
    "blanked",
    _tables,
    ("stages.tables",),
    ("evidence",),
    encode=lambda notes: {name: asdict(one) for name, one in notes.items()},
)
"""What was left out of each accompanying table."""
JUDGED = Result("judged", lambda facts: Judgement(**facts), ("run",), ("requeue", "review.pages"))
"""How the run ended."""
PUBLICATION = Result("publishing", lambda facts: Publication(**facts), ("run",), ("requeue", "review.pages"))
"""The release that is being published or is published; from here on nothing is judged again."""
PUBLISHED = Mark("published", ("run",), ("resume", "review.pages"))
"""The release is complete."""
WITHDRAWN = Mark("withdrawn", ("run",), ("requeue", "resume"))
"""A gate failed: what was staged is removed, and a rerun sanitizes again."""

# -- review ---------------------------------------------------------------------------------

REVIEW = Result(
    "review", lambda facts: PendingReview(**facts), ("review.pages",), ("review.review_decisions", "run")
)
"""The pages that wait for decisions."""
SAMPLE_SEED = _text("seed", ("review.pages",))
"""Seed of the sample: the digest of what the first page was of."""
REVIEWED = Mark("reviewed", ("review.review_decisions",), ("stages.sanitize",))
"""A person decided at least once."""
DECIDED = _text("decided", ("review.review_decisions",))
"""Digest of all decisions; shards of another one are not merged."""
APPROVED = _text("approved", ("review.review_decisions",), ("run",))
"""Digest of the staged release that a person approved."""

ENTRIES: tuple[Mark | Result[Any], ...] = tuple(
    one for one in list(globals().values()) if isinstance(one, Mark | Result)
)
"""Every entry, in the order of this table."""
