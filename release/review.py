"""The review pages, on which a person decides. They contain PHI."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from importlib.resources import files

from jinja2 import Environment, StrictUndefined

Row = tuple[int, str, str, str, str]
"""A line of a header: depth, tag, name, VR, value."""


@dataclass(frozen=True, slots=True)
class PictureSource:
    """The device of a picture and the size of its image, for regions of the policy that are drawn on it.

    Attributes
    ----------
    attributes : tuple of (str, str)
        Fields of a region of the policy, in order, and their values as released.
    rows, columns : int
        Of the image, of which the picture may be a smaller copy.
    """

    attributes: tuple[tuple[str, str], ...]
    rows: int
    columns: int


# No generated repr: items contain PHI, which must not reach logs or tracebacks.
@dataclass(frozen=True, slots=True, repr=False)
class ReviewCard:
    """A review item.

    Attributes
    ----------
    id : str
        Identifies the item in decisions.
    rule : str
        The rule that made it an item.
    title, note : str
        What it is, in one line; additional information.
    choices : tuple of (str, str)
        Verdict and label of each possible decision.
    before, after : str
        Images as data URIs; empty if there are none.
    header : tuple of Row
        Lines of the header to show.
    source : PictureSource or None
        What the picture ``after`` shows as a whole; boxes can be drawn on it.
    reasoned : str
        The verdict that needs a reason; empty if none does.
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
    source: PictureSource | None = None
    reasoned: str = ""

    def __repr__(self) -> str:
        return f"ReviewCard({self.id})"


@dataclass(frozen=True, slots=True, repr=False)
class QuarantineEntry:
    """A quarantined object: its path, which only the data controller knows, and why it is quarantined."""

    path: str
    location: str
    rule: str

    def __repr__(self) -> str:
        return f"QuarantineEntry({self.rule})"


@dataclass(frozen=True, slots=True, repr=False)
class ReviewPage:
    """One page of a review.

    ``ending`` is how the run ended. Decisions are bound to ``id``, approvals to ``digest``. ``number`` is the
    position among the pages, whose file names are ``names``. ``reasons`` explains each rule of ``refusals``
    (why, what to do).
    """

    name: str
    version: str
    ending: str
    id: str
    digest: str
    number: int
    names: tuple[str, ...]
    command: str
    review_items: tuple[ReviewCard, ...] = ()
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
        """Quarantined objects by rule, the most frequent rule first."""
        found: dict[str, list[QuarantineEntry]] = {}
        for one in self.refusals:
            found.setdefault(one.rule, []).append(one)
        return dict(sorted(found.items(), key=lambda item: (-len(item[1]), item[0])))

    def __repr__(self) -> str:
        return f"ReviewPage({self.number} of {len(self.names)})"


def data_uri(picture: bytes) -> str:
    """Encode a PNG or JPEG as a data URI; empty for any other content."""
    kinds = {b"\x89PNG\r\n\x1a\n": "png", b"\xff\xd8\xff": "jpeg"}
    kind = next((kind for magic, kind in kinds.items() if picture.startswith(magic)), None)
    return f"data:image/{kind};base64,{b64encode(picture).decode()}" if kind else ""


def render_review_page(page: ReviewPage) -> bytes:
    """Render a page as self-contained HTML.

    All values are escaped, and a content security policy allows only the script of the page itself.
    """
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["count"] = "{:,}".format
    source = files("medsanitize.release").joinpath("review.html").read_text("utf-8")
    # Hash of the only permitted script: injected markup could otherwise run code next to PHI.
    script = source.partition("<script>")[2].partition("</script>")[0]
    allowed = b64encode(sha256(script.encode()).digest()).decode()
    return environment.from_string(source).render(page=page, allowed=allowed).encode("utf-8")
