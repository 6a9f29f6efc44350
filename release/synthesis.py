"""What the evidence says of synthetic images: how many, by which generator, under which verdict."""

from __future__ import annotations

from dataclasses import dataclass

from medsanitize.release.summary import Summary


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
    bound = "" if made.bound is None else f", at most {made.bound:.4f} of them match a training patient"
    sentence = (
        f"{made.released} of {summary.objects} objects are synthetic images, drawn by the generator with "
        f"SHA-256 {made.model}; anonymity gate: {made.state}{bound}. "
        "The manifest marks them in its column synthetic."
    )
    return Synthesis(sentence, made.model)
