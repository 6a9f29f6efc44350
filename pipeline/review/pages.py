"""The review: writes the pages on which a person decides, and applies the decisions."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path

from medsanitize.errors import UsageError
from medsanitize.pipeline import preflight
from medsanitize.pipeline.engines.base import LocalEngine
from medsanitize.pipeline.engines.worker import Setup
from medsanitize.pipeline.reporting.rule_help import reason_for
from medsanitize.pipeline.resume import difference, release_keys, remove_pages
from medsanitize.pipeline.review.review_decisions import (
    RecordedDecisions,
    finding_name,
    read_decisions,
    record_decisions,
)
from medsanitize.pipeline.review.sample import ObjectPreview, preview_objects, sample_for
from medsanitize.pipeline.runtime.workspace import workspace_of
from medsanitize.pipeline.stages.dicomdirs import missing_paths
from medsanitize.pipeline.state.database import State, translated_errors
from medsanitize.pipeline.state.decisions import sampled_object
from medsanitize.pipeline.state.excerpts import OpenExcerpt, undecided_excerpts
from medsanitize.pipeline.state.findings import finding_groups
from medsanitize.pipeline.state.listed_files import count_listed
from medsanitize.pipeline.state.objects import outcome_counts, rule_counts
from medsanitize.pipeline.state.records import quarantined_sources
from medsanitize.pipeline.state.result_types import PendingReview
from medsanitize.pipeline.state.review_queue import (
    UndecidedItem,
    count_left_out,
    open_item,
    undecided_items,
)
from medsanitize.pipeline.state.stage_results import JUDGED, PUBLICATION, PUBLISHED, REVIEW
from medsanitize.pipeline.storage.containers.address import shown as shown_path
from medsanitize.policies.model import Policy
from medsanitize.progress import Cancellation
from medsanitize.release.atomic_io import storage_errors
from medsanitize.release.review import (
    PictureSource,
    QuarantineEntry,
    ReviewCard,
    ReviewPage,
    data_uri,
    render_review_page,
)
from medsanitize.sanitize.pseudonyms import SubKeys
from medsanitize.sanitize.result import ReviewItem

# Maximum number of review items on a page.
MAX_CARDS = 250
# Maximum total length of a page's pictures and texts, in characters.
MAX_CHARACTERS = 10 * 2**20
# Maximum number of pages at once; further items follow when these are decided.
MAX_PAGES = 20
# Maximum number of sampled objects on a page.
MAX_SAMPLE = 250
_MAX_QUARANTINE_ENTRIES = 1_000
_MISSING = "listed-but-missing"
_CHOICES = (
    ("blank", "Blank or cut it"),
    ("keep", "Keep it unchanged"),
    ("quarantine", "Quarantine it"),
)
_ROWS, _COLUMNS = "(0028,0010)", "(0028,0011)"
# Fields of a region in the policy, and the attributes with which they are compared.
_REGION_ATTRIBUTES = {
    "manufacturer": "(0008,0070)",
    "model": "(0008,1090)",
    "software": "(0018,1020)",
    "modality": "(0008,0060)",
    "image_type": "(0008,0008)",
}
_SAMPLE_CHOICES = (("release", "Release it"), ("quarantine", "Quarantine it"))


@dataclass(frozen=True, slots=True)
class Review:
    """The pages of a review: paths, and numbers of items."""

    pages: tuple[Path, ...]
    ending: str
    digest: str
    review_items: int
    sampled: int
    quarantined: int
    left_out: int


@translated_errors()
def make_review(
    policy: Policy, cancellation: Cancellation | None = None, command: str = "", reviewer: str = ""
) -> Review:
    """Write the pages of a review into the state folder (mode 0600), replacing earlier ones.

    Parameters
    ----------
    policy : Policy
        The policy of the run.
    cancellation : Cancellation or None
        Checked between objects of the sample.
    command : str
        The command that applies the decisions, shown on the page.
    reviewer : str
        Name of the person for whom the pages are: a sample that the policy requires shows what this person
        has not judged.

    Raises
    ------
    UsageError
        The release is anonymous, or no run of this policy is complete.
    EnvironmentFailure
        The disk of the state failed, or another process has locked it; the command can be repeated.
    IntegrityError
        The state is damaged.
    """
    with opened_state(policy) as (state, subkeys):
        ending, digest = staged_ending(state, policy)
        findings, names = list(finding_cards(state)), undecided_items(state)
        parts = list(islice(_parts(chain(findings, _item_cards(state, names))), MAX_PAGES))
        numbers = sample_for(state, policy, ending, digest, reviewer)
        numbers, waiting = numbers[:MAX_SAMPLE], max(len(numbers) - MAX_SAMPLE, 0)
        looks = _preview_sample(state, policy, subkeys, ending, numbers, cancellation or Cancellation())
        shown = sum(map(len, parts))
        beyond = len(findings) + len(names) - shown
        workspace = workspace_of(policy)
        pages = tuple(workspace.review_page(number) for number in range(1, len(parts) + 1))
        items = [*(card.id for card in findings), *(one.name.hex() for one in names)]
        # The ID covers all items, also those on no page: decisions on an outdated page are rejected.
        identity = state.seal.name("review page", digest, *items, *(str(look.id) for look in looks)).hex()
        told = (*_omission_notes(state, beyond), *_sample_note(waiting))
        remove_pages(workspace)
        for number, part in enumerate(parts, start=1):
            page = ReviewPage(
                name=policy.release.name,
                version=policy.release.version,
                ending=ending,
                id=identity,
                digest=digest,
                number=number,
                names=tuple(path.name for path in pages),
                command=command,
                review_items=tuple(part),
                left_out=told if number == len(pages) else (),
            )
            _write(pages[number - 1], render_review_page(_complete_first_page(page, state, looks)))
        if ending != "published":
            approve = digest if ending == "awaiting_approval" else None
            with state.transaction():
                REVIEW.store(
                    state, PendingReview(identity, digest, approve, _other_pages(state, identity, digest))
                )
        quarantined = outcome_counts(state)["quarantined"]
        return Review(pages, ending, digest, shown, len(looks), quarantined, beyond + count_left_out(state))


@translated_errors()
def apply_decisions(
    policy: Policy, file: Path, reviewer: str = "", scope: str | None = None
) -> RecordedDecisions:
    """Apply decisions; the next run follows them.

    Parameters
    ----------
    policy : Policy
        The policy of the run.
    file : Path
        What the review page saved.
    reviewer : str
        Name under which the person decides; it is kept in the state and nowhere in the release.
    scope : str or None
        What all decisions hold for for which it has a meaning: ``alike``, ``series`` or ``device``.

    Raises
    ------
    UsageError
        The file is not valid or belongs to another page; nothing of it is stored.
    EnvironmentFailure, IntegrityError
        As in ``make_review``.
    """
    found = read_decisions(file, scope)
    with opened_state(policy) as (state, _):
        if PUBLISHED.is_set(state) or PUBLICATION.is_stored(state):
            raise UsageError(
                "This release is published and can no longer be changed",
                "Decide before the next version is published, with release: approve: required",
            )
        return record_decisions(state, found, reviewer)


@contextmanager
def opened_state(
    policy: Policy, changed: Callable[[State, Policy], str | None] | None = None
) -> Iterator[tuple[State, SubKeys]]:
    """Open the state of this policy's last run, locked against other runs.

    ``changed`` returns what is no longer as in the run, or None; by default it looks at settings and inputs.
    """
    if policy.release.mode == "anonymous":
        raise UsageError(
            "An anonymous run cannot be reviewed: its state is deleted with its key",
            "Review a pseudonymous run of the same inputs first",
        )
    subkeys = release_keys(policy)
    path = workspace_of(policy).database
    if not path.exists():
        raise UsageError("There is no state of this release", "Run the policy first")
    # Temporary files of SQLite may contain PHI.
    os.environ["SQLITE_TMPDIR"] = str(policy.state)
    with preflight.locked(workspace_of(policy)):
        state = State(path, subkeys)
        try:
            if (reason := (changed or difference)(state, policy)) is not None:
                raise UsageError(f"The last run is out of date: {reason}", "Run the policy again first")
            yield state, subkeys
        finally:
            state.close()


def staged_ending(state: State, policy: Policy) -> tuple[str, str]:
    """Return the ending of the run, and the digest of what it staged."""
    judged = JUDGED.load(state)
    if judged is None:
        raise UsageError("The run is not finished", "Run the policy first, then review")
    if judged.ending == "published" and not preflight.is_finished(workspace_of(policy)):
        raise UsageError("The run is not finished", "Run the policy first, then review")
    return judged.ending, judged.digest


# -- what is on a page ----------------------------------------------------------------------


def finding_cards(state: State) -> Iterator[ReviewCard]:
    """Yield a card for each kind of finding in objects to be released."""
    for group in finding_groups(state):
        yield ReviewCard(
            f"finding-{finding_name(state, group.location, group.rule)}",
            group.rule,
            f"The audit failed {_objects(group.objects)}: {group.location}",
            (("quarantine", "Quarantine"),),
            note="Without a decision, the gate refuses the release again.",
        )
    for excerpt in undecided_excerpts(state):
        yield _excerpt_card(excerpt)


def _excerpt_card(found: OpenExcerpt) -> ReviewCard:
    """Return the card of a known value that the audit found: file, place, value and surroundings."""
    lines = [f"File: {_printable(found.path)}", f"Place: {found.place}", f"Value: {found.value}"]
    if found.surroundings != found.value:
        lines.append(f"With what surrounds it: {found.surroundings}")
    pixels = found.location == "pixels"
    return ReviewCard(
        f"excerpt-{found.name.hex()}",
        found.rule,
        f"The audit found a known value in {_objects(found.objects)}: {found.location}",
        (("quarantine", "Quarantine"), ("chance", "This is chance")),
        text="\n".join(lines),
        note="Without a decision, the object is left out of the release, or the release is refused."
        if pixels
        else "Without a decision, the gate refuses the release again.",
        reasoned="chance",
    )


def _printable(path: bytes) -> str:
    # A path may not be valid UTF-8, but the page must be.
    return os.fsdecode(path).encode("utf-8", "replace").decode()


def _item_cards(state: State, items: Sequence[UndecidedItem]) -> Iterator[ReviewCard]:
    for one in items:
        yield _item_card(one.name.hex(), open_item(state, one.name), one.objects)


def _item_card(name: str, item: ReviewItem, count: int) -> ReviewCard:
    note = f"In {_objects(count)}." if count > 1 else ""
    if item.before and item.before == item.after:
        note = f"Left unchanged. {note}"
    pictures = data_uri(item.before), data_uri(item.after)
    return ReviewCard(name, item.rule, item.location, _CHOICES, item.text, note.strip(), *pictures)


def _objects(count: int) -> str:
    return "1 object" if count == 1 else f"{count:,} objects"


def _parts(cards: Iterable[ReviewCard]) -> Iterator[list[ReviewCard]]:
    """Split cards into pages of bounded size; there is always a first page."""
    part: list[ReviewCard] = []
    size = 0
    for card in cards:
        weight = len(card.text) + len(card.before) + len(card.after)
        if part and (len(part) == MAX_CARDS or size + weight > MAX_CHARACTERS):
            yield part
            part, size = [], 0
        part.append(card)
        size += weight
    yield part


def _other_pages(state: State, identity: str, digest: str) -> tuple[str, ...]:
    """Return the pages of this digest on which other persons may be deciding."""
    before = REVIEW.load(state)
    if before is None or before.digest != digest:
        return ()
    return tuple(dict.fromkeys(one for one in (*before.others, before.page) if one != identity))


def _sample_note(waiting: int) -> tuple[str, ...]:
    return (f"{waiting:,} more of the sample follow when these are judged.",) if waiting else ()


def _preview_sample(
    state: State,
    policy: Policy,
    subkeys: SubKeys,
    ending: str,
    numbers: Sequence[int],
    cancellation: Cancellation,
) -> list[ObjectPreview]:
    """Preview staged or published objects."""
    if not numbers:
        return []
    workspace = workspace_of(policy)
    root = workspace.release if ending == "published" else workspace.staging
    setup = Setup(policy, subkeys, staging=None, keep_links=False)
    with LocalEngine(setup, 1, cancellation) as engine:
        return preview_objects(state, engine, root, numbers)


def _complete_first_page(page: ReviewPage, state: State, looks: Sequence[ObjectPreview]) -> ReviewPage:
    """Add quarantine, sample and counts to the first page."""
    if page.number > 1:
        return page
    quarantined, lacking = rule_counts(state, "quarantined"), count_listed(state)[2]
    missing = {_MISSING: lacking} if lacking else {}
    return replace(
        page,
        sample=tuple(_preview_card(state, look) for look in looks),
        refusals=(*quarantine_entries(state), *_missing_entries(state)),
        reasons={rule: reason_for(rule) for rule in (*quarantined, *missing)},
        quarantined={**quarantined, **missing},
        counts={**outcome_counts(state), "in the sample": len(looks)},
    )


def _preview_card(state: State, look: ObjectPreview) -> ReviewCard:
    found = sampled_object(state, look.id)
    notes = (
        look.missing,
        "It changed after the last review." if found.changed else "",
        f"{_objects(found.equal_pixels)} more {'has' if found.equal_pixels == 1 else 'have'} the same pixels."
        if found.equal_pixels
        else "",
    )
    modality = next((row[4] for row in look.header if row[1] == "(0008,0060)"), "") or "Object"
    return ReviewCard(
        id=f"object-{look.id}",
        rule="sample",
        title=f"{modality} of {look.path.split('/')[1]}",
        choices=_SAMPLE_CHOICES,
        text=look.path,
        note=" ".join(filter(None, notes)),
        after=data_uri(look.picture),
        header=look.header,
        source=_picture_source(look),
    )


def _picture_source(look: ObjectPreview) -> PictureSource | None:
    """Return what a region of the policy may state about the image of a preview; None without an image."""
    values = {tag: value for depth, tag, _, _, value in look.header if not depth}
    rows, columns = values.get(_ROWS, ""), values.get(_COLUMNS, "")
    if not (look.picture and rows.isdecimal() and columns.isdecimal()):
        return None
    # A value that the preview cuts matches no object.
    stated = ((name, values.get(tag, "")) for name, tag in _REGION_ATTRIBUTES.items())
    kept = tuple((name, value) for name, value in stated if value and not value.endswith("…"))
    return PictureSource(kept, int(rows), int(columns))


def quarantine_entries(state: State) -> Iterator[QuarantineEntry]:
    """Yield quarantined objects with the paths of their sources, some of every rule."""
    rules = rule_counts(state, "quarantined")
    share = max(10, _MAX_QUARANTINE_ENTRIES // max(len(rules), 1))
    for rule in rules:
        for one in quarantined_sources(state, rule, share):
            yield QuarantineEntry(_printable(shown_path(one.path)), one.location, rule)


def _missing_entries(state: State) -> Iterator[QuarantineEntry]:
    """Yield files that a DICOMDIR lists and that are not in the inputs."""
    for path in missing_paths(state, _MAX_QUARANTINE_ENTRIES):
        yield QuarantineEntry(_printable(path), "file", _MISSING)


def _omission_notes(state: State, beyond: int) -> tuple[str, ...]:
    told = []
    if beyond:
        told.append(f"{beyond:,} more review items follow when these are decided.")
    if unseen := count_left_out(state):
        told.append(
            f"{unseen:,} more review items were not stored, because one object or the run has too many."
            " Their locations are released as they were cleaned."
        )
    return tuple(told)


def _write(path: Path, content: bytes) -> None:
    """Write a page with mode 0600 from its first byte on."""
    with storage_errors():
        temporary = path.with_name(f".{path.name}.tmp")
        temporary.unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(temporary, flags, 0o600), "wb") as file:
            file.write(content)
        temporary.replace(path)
