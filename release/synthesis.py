"""What the evidence says of synthetic images: how many, by which generator, under which verdict."""

from __future__ import annotations

from dataclasses import dataclass

from medsanitize.release.summary import Summary, Synthetic


@dataclass(frozen=True, slots=True)
class Synthesis:
    """That a release holds synthetic images, as a sentence, and the SHA-256 of their generator."""

    sentence: str
    generator: str


def synthesis(summary: Summary) -> Synthesis | None:
    """What is to be said of the synthetic images of a release; None where it has none."""
    made = summary.synthetic
    if made is None or not made.released:
        return None
    sentence = (
        f"{made.released} of {summary.objects} objects are synthetic images, drawn by the generator with "
        f"SHA-256 {made.model}; anonymity gate: {made.state}{_bounds(made)}. "
        "The manifest marks them in its column synthetic."
    )
    return Synthesis(sentence, made.model)


def _bounds(made: Synthetic) -> str:
    """Upper bounds of matches and copies among what the generator draws, and of copies among what is left."""
    if made.bound is None:
        return ""
    told = f", at most {made.bound:.3%} of what it draws matches a training patient"
    if made.copy_rate is None or made.residual is None:
        return told
    return (
        f"{told}, at most {made.copy_rate:.3%} of it are copies, and at most {made.residual:.2e} of what is"
        " left when matches are removed"
    )
