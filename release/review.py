"""The review: the pages on which a person decides. For the holder's eyes alone, since they show values."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from importlib.resources import files

from jinja2 import Environment, StrictUndefined

Row = tuple[int, str, str, str, str]
"""A line of a header: depth, tag, name, VR, value."""


@dataclass(frozen=True, slots=True, repr=False)
class ReviewCard:
    """Something to decide. ``choices`` are (verdict, label); pictures are data URIs, empty without one.

    ``id`` is how a decision names it; ``title`` says in one line what it is; ``note`` adds to that.
    """

    id: str
    rule: str
    title: str
    choices: tuple[tuple[str, str], ...]
    text: str = ""
    note: str = ""
    before: str = ""
    after: str = ""
    header: tuple[Row, ...] = ()

    def __repr__(self) -> str:
        return f"Card({self.id})"


@dataclass(frozen=True, slots=True, repr=False)
class QuarantineEntry:
    """An object in quarantine: where it lies with the holder, and why."""

    path: str
    place: str
    rule: str

    def __repr__(self) -> str:
        return f"Refusal({self.rule})"


@dataclass(frozen=True, slots=True, repr=False)
class ReviewPage:
    """One page of a review.

    ``ending`` is how the run ended. ``id`` is what decisions are bound to, ``digest`` what an approval
    is; ``number`` of ``pages``, whose file names are ``names``. ``reasons`` tells each rule of
    ``refusals`` in plain words (why, what to do).
    """

    name: str
    version: str
    ending: str
    id: str
    digest: str
    number: int
    names: tuple[str, ...]
    command: str
    doubts: tuple[ReviewCard, ...] = ()
    sample: tuple[ReviewCard, ...] = ()
    refusals: tuple[QuarantineEntry, ...] = ()
    reasons: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    quarantined: Mapping[str, int] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()

    @property
    def open(self) -> bool:
        """Whether decisions can still change the release."""
        return self.ending in ("awaiting_approval", "refused")

    @property
    def groups(self) -> dict[str, list[QuarantineEntry]]:
        """Refusals by rule, the commonest rule first."""
        found: dict[str, list[QuarantineEntry]] = {}
        for one in self.refusals:
            found.setdefault(one.rule, []).append(one)
        return dict(sorted(found.items(), key=lambda item: (-len(item[1]), item[0])))

    def __repr__(self) -> str:
        return f"Page({self.number} of {len(self.names)})"


def data_uri(picture: bytes) -> str:
    """A PNG or JPEG as a URI that needs no file; empty for anything else."""
    kinds = {b"\x89PNG\r\n\x1a\n": "png", b"\xff\xd8\xff": "jpeg"}
    kind = next((kind for magic, kind in kinds.items() if picture.startswith(magic)), None)
    return f"data:image/{kind};base64,{b64encode(picture).decode()}" if kind else ""


def render_review_page(page: ReviewPage) -> bytes:
    """Return a page as self-contained HTML: every value is escaped, and no script but its own may run."""
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["count"] = "{:,}".format
    source = files("medsanitize.release").joinpath("review.html").read_text("utf-8")
    script = source.partition("<script>")[2].partition("</script>")[0]
    allowed = b64encode(sha256(script.encode()).digest()).decode()
    return environment.from_string(source).render(page=page, allowed=allowed).encode("utf-8")
