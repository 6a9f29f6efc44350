"""What the evidence says of synthetic images: how many, by which generator, under which verdict."""

from __future__ import annotations

from medsanitize.release.summary import Summary


def released_synthetic(summary: Summary) -> int:
    """The number of synthetic images in a release."""
    return summary.synthetic.released if summary.synthetic else 0


def synthesis(summary: Summary) -> str | None:
    """A sentence on the synthetic images of a release; None where it has none."""
    made = summary.synthetic
    if made is None or not made.released:
        return None
    bound = "" if made.bound is None else f", at most {made.bound:.4f} of them match a training patient"
    return (
        f"{made.released} of {summary.objects} objects are synthetic images, drawn by the generator with "
        f"SHA-256 {made.model}; anonymity gate: {made.state}{bound}. "
        "The manifest marks them in its column synthetic."
    )
