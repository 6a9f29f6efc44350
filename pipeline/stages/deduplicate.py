"""The stages decode and deduplicate: equal bytes, equal pixels, earlier releases.

Every verdict is one transaction over the whole set and depends on pseudonyms and digests only, so it does not
depend on the order in which workers finish or on interruptions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import ClassVar

from medsanitize.errors import EnvironmentFailure
from medsanitize.pipeline.engines.base import Engine, WorkerCrashed, batches
from medsanitize.pipeline.engines.worker import Worker
from medsanitize.pipeline.stages.earlier_releases import EarlierReleases
from medsanitize.pipeline.stages.stage import Advance, GateInput, Phase, RunContext, Stage
from medsanitize.pipeline.state.database import State
from medsanitize.pipeline.state.duplicates import (
    Column,
    PixelDigest,
    any_scan,
    count_not_compared,
    index_digests,
    released_with,
    released_with_part,
    scan_digests,
    scans_of,
    shared_digests,
    store_pixel_digests,
)
from medsanitize.pipeline.state.objects import add_flag, count_flagged, count_released, rule_out
from medsanitize.pipeline.state.records import remove_unreleased
from medsanitize.pipeline.state.released import ReleasedDigests, released_digests
from medsanitize.pipeline.state.result_types import RegistryResult
from medsanitize.pipeline.state.stage_results import (
    DUPLICATES_JUDGED,
    FAILED_BYTES,
    FAILED_PIXELS,
    FAILED_REGISTRY,
    REGISTRY,
)
from medsanitize.pipeline.state.staged_objects import Staged, count_to_decode, objects_to_decode
from medsanitize.policies.model import Deduplicate, FindingAction
from medsanitize.release.registry import RegistryHit
from medsanitize.release.summary import GateResult, GateSummary

BATCH = 64
_REGISTRY_PAGE = 20_000


@dataclass(frozen=True, slots=True)
class DecodeStage(Stage):
    """Decode compressed pixels for their digest, where the policy compares pixels."""

    rules: Deduplicate

    name: ClassVar = "decode"
    phase: ClassVar[Phase] = "set"
    invalidated_by: ClassVar = frozenset({"sanitize"})

    def pending(self, state: State) -> int | None:
        """Return the number of objects whose pixels have no digest yet."""
        ignored = self.rules.pixels == "ignore" and self.rules.registry == "ignore"
        return 0 if ignored else count_to_decode(state)

    def run(self, context: RunContext, advance: Advance) -> None:
        """Decode and digest the pixels."""
        digest_compressed(context.state, context.engine, advance)


@dataclass(frozen=True, slots=True)
class DuplicatesStage(Stage):
    """Apply the policy to equal bytes, equal pixels and objects of earlier releases."""

    rules: Deduplicate
    earlier: EarlierReleases

    name: ClassVar = "deduplicate"
    phase: ClassVar[Phase] = "set"
    in_plan: ClassVar = True
    invalidated_by: ClassVar = frozenset({"sanitize", "conflicts", "decode"})

    def run(self, context: RunContext, advance: Advance) -> None:
        """Decide, and remove the files of objects that are not released."""
        judge_duplicates(context.state, self.rules, self.earlier, context.staging)

    @staticmethod
    def reset(state: State) -> None:
        """Remove the decisions; the stored comparison with the registry is kept."""
        for result in (DUPLICATES_JUDGED, FAILED_BYTES, FAILED_PIXELS, FAILED_REGISTRY):
            result.remove(state)

    def gates(self, judged: GateInput) -> tuple[GateSummary, ...]:
        """Decide one gate per kind of duplicate; a plan decodes no pixels."""
        state, rules = judged.state, self.rules
        pixels = (
            GateSummary(
                "duplicates by pixels", "not_run", "A plan decodes no pixels.", 0, count_released(state)
            )
            if judged.is_plan
            else duplicate_gate(state, "pixels", "duplicates by pixels", rules.pixels)
        )
        return (
            duplicate_gate(state, "bytes", "duplicates by bytes", rules.bytes),
            pixels,
            duplicate_gate(
                state, "registry", "earlier releases", rules.registry, compared=releases_compared(state) > 0
            ),
        )


# -- digests of pixels --------------------------------------------------------------------


def digest_compressed(state: State, engine: Engine, on_objects: Advance = lambda _: None) -> None:
    """Digest compressed pixels in isolated processes, for objects without a digest.

    Parameters
    ----------
    state : State
        The state of the run.
    engine : Engine
        Calls the workers.
    on_objects : callable
        Receives the number of objects of each batch.
    """
    digest_pixels(state, engine, objects_to_decode(state), on_objects)


def digest_pixels(
    state: State, engine: Engine, objects: Iterator[Staged], on_objects: Advance = lambda _: None
) -> None:
    """Digest the pixels of staged files in isolated processes, and store the digests.

    Parameters
    ----------
    state : State
        The state of the run.
    engine : Engine
        Calls the workers.
    objects : iterator of Staged
        The files.
    on_objects : callable
        Receives the number of objects of each batch.
    """
    for result in engine.map(pixels_batch, batches(objects, BATCH), isolate=True):
        # A crashed decoder is no statement about the pixels: the check has the value not_run.
        digests = [PixelDigest(result.item.id, -1, None)] if isinstance(result, WorkerCrashed) else result
        store_pixel_digests(state, digests)
        state.count_written(len(digests))
        on_objects(len(digests))
    state.commit()


def pixels_batch(worker: Worker, batch: Sequence[Staged]) -> list[PixelDigest]:
    """Digest the pixels of staged files."""
    return [_pixels_of(worker, one) for one in batch]


def _pixels_of(worker: Worker, one: Staged) -> PixelDigest:
    from medsanitize.verifiers.leaks.pixel_digest import pixel_digest
    from medsanitize.verifiers.leaks.raster_files import raster_digest

    staging = worker.setup.staging
    if staging is None:
        return PixelDigest(one.id, -1, None)
    try:
        digest = (raster_digest if one.kind == "raster" else pixel_digest)(staging / one.paths[0])
    except OSError:
        raise EnvironmentFailure("A staged file cannot be read", "Run the same command again") from None
    except Exception:  # noqa: BLE001  pixels that cannot be decoded are reported as not compared
        digest = None
    return PixelDigest(one.id, 1, bytes.fromhex(digest)) if digest else PixelDigest(one.id, -1, None)


# -- verdicts -----------------------------------------------------------------------------


def judge_duplicates(
    state: State, rules: Deduplicate, earlier: EarlierReleases, staging: Path | None
) -> None:
    """Apply the policy to equal bytes, equal pixels and objects of earlier releases, as one transaction.

    Parameters
    ----------
    state : State
        The state of the run.
    rules : Deduplicate
        The section ``deduplicate`` of the policy.
    earlier : EarlierReleases
        The registry of earlier releases.
    staging : Path or None
        The staging folder; None in a plan.
    """
    if not DUPLICATES_JUDGED.is_set(state):
        with state.transaction():
            index_digests(state)
            _judge_equal(state, "sha256", "bytes", rules.bytes)
            _judge_equal(state, "pixels", "pixels", rules.pixels)
            _judge_scans(state, rules.pixels)
            _judge_registry(state, rules.registry, earlier)
            DUPLICATES_JUDGED.set(state)
    if staging is not None:
        remove_unreleased(state, staging)


_FAILED = {"bytes": FAILED_BYTES, "pixels": FAILED_PIXELS, "registry": FAILED_REGISTRY}


def _judge_equal(state: State, column: Column, name: str, verdict: str) -> None:
    for digest in shared_digests(state, column):
        _judge_group(state, released_with(state, column, digest), name, verdict)


def _judge_group(state: State, rows: Sequence[int], name: str, verdict: str) -> None:
    if len(rows) < 2:
        return
    rule = f"duplicate-{name}"
    if verdict == "drop":
        rule_out(state, rows[1:], "dropped", rule)
    elif verdict == "quarantine":
        rule_out(state, rows, "quarantined", rule)
    elif verdict in ("flag", "fail"):
        add_flag(state, rows, name)
        if verdict == "fail":
            (FAILED_BYTES if name == "bytes" else FAILED_PIXELS).set(state)


def _judge_scans(state: State, verdict: str) -> None:
    """Apply the policy to slides that share a scan: the same tiles in two file formats.

    The action ``drop`` drops objects that another one contains completely, such as an SVS next to an AFI that
    lists it. Objects that share only a part are flagged, since each contains more than the other.
    """
    for digest in scan_digests(state):
        whole, part = released_with(state, "pixels", digest), released_with_part(state, digest)
        if not part or len(whole) + len(part) < 2:
            continue
        if verdict == "drop":
            rule_out(state, whole, "dropped", "duplicate-pixels")
            add_flag(state, part if len(part) > 1 else (), "pixels")
        elif verdict == "quarantine":
            rule_out(state, [*whole, *part], "quarantined", "duplicate-pixels")
        elif verdict in ("flag", "fail"):
            add_flag(state, [*whole, *part], "pixels")
            if verdict == "fail":
                FAILED_PIXELS.set(state)


def duplicate_gate(state: State, flag: str, name: str, verdict: str, *, compared: bool = True) -> GateSummary:
    """Decide the gate of one kind of duplicates from the stored flags.

    Parameters
    ----------
    state : State
        The state of the run.
    flag : str
        ``bytes``, ``pixels`` or ``registry``.
    name : str
        Name of the gate.
    verdict : str
        The policy's action for this kind.
    compared : bool
        Whether there was anything to compare with.
    """
    concerned = count_released(state)
    if verdict == "ignore":
        return GateSummary(name, "not_run", "The policy ignores them.", 0, concerned)
    if not compared:
        return GateSummary(
            name, "not_applicable", "The registry holds no release of another name.", 0, concerned
        )
    flagged = count_flagged(state, flag)
    undecoded = count_not_compared(state) if flag == "pixels" else 0
    looked = concerned - undecoded
    if _FAILED[flag].is_set(state):
        detail = "Duplicates were found, and the policy allows none."
        return GateSummary(name, "failed", detail, looked, concerned)
    told = [f"{flagged} objects are flagged."] if flagged else []
    told += [f"The pixels of {undecoded} objects could not be compared."] if undecoded else []
    result: GateResult = "flagged" if flagged or undecoded else "passed"
    return GateSummary(name, result if looked else "not_run", " ".join(told), looked, concerned)


def releases_compared(state: State) -> int:
    """Return how many releases of other names the registry held."""
    return (REGISTRY.load(state) or RegistryResult()).compared


def _judge_registry(state: State, verdict: FindingAction, earlier: EarlierReleases) -> None:
    prior = [entry for entry in earlier.registry.list() if entry.name == earlier.name]
    older = [entry.version for entry in prior if entry.version != earlier.version]
    found = RegistryResult(older[-1] if older else None, compared=len(earlier.others()))
    if verdict != "ignore":
        found = _compare_with_registry(state, earlier, verdict, found)
    REGISTRY.store(state, found)


def _compare_with_registry(
    state: State, earlier: EarlierReleases, verdict: FindingAction, result: RegistryResult
) -> RegistryResult:
    registry = earlier.registry
    found: Counter[tuple[str, str, str]] = Counter()
    outcome = {"drop": "dropped", "quarantine": "quarantined"}.get(verdict)
    # Versions of one release share objects on purpose, so without other names there is nothing to find.
    rows = released_digests(state) if earlier.others() else iter(())
    while page := list(islice(rows, _REGISTRY_PAGE)):
        hit_rows: dict[int, None] = {}
        seen: set[tuple[int, RegistryHit]] = set()
        wanted = list(_digests_of(state, page))
        for hit in registry.lookup((whole, pixels) for _, whole, pixels in wanted):
            number = wanted[hit.index][0]
            once = (number, replace(hit, index=0))
            if not hit.carried_over(earlier.name) and once not in seen:
                seen.add(once)
                found[hit.name, hit.version, hit.by] += 1
                hit_rows[number] = None
        if outcome:
            rule_out(state, hit_rows, outcome, "duplicate-registry")
        else:
            add_flag(state, hit_rows, "registry")
    if found and verdict == "fail":
        FAILED_REGISTRY.set(state)
    releases = sorted({(name, version) for name, version, _ in found})
    return replace(
        result,
        public_prior=tuple(f"{name} {version}" for name, version in releases if name in earlier.public),
        links={f"{name} {version} by {by}": count for (name, version, by), count in sorted(found.items())},
        relies_on=tuple(releases) if verdict == "drop" else (),
    )


def _digests_of(state: State, page: Sequence[ReleasedDigests]) -> Iterator[tuple[int, str, str | None]]:
    """Yield row number, digest of the bytes, and each digest of pixels or tiles of released objects."""
    any_scans = any_scan(state)
    for one in page:
        whole = one.sha256.hex() if one.sha256 else ""
        yield one.id, whole, one.pixels.hex() if one.pixels is not None else None
        if any_scans:
            yield from ((one.id, whole, digest.hex()) for digest in scans_of(state, one.id))
