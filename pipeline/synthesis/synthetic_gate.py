"""The gate ``synthetic images`` of a run, from what the stage stored."""

from __future__ import annotations

from medsanitize.pipeline.state.database import State
from medsanitize.pipeline.state.stage_results import SYNTHETIC
from medsanitize.pipeline.synthesis.replaced_objects import read_replaced
from medsanitize.release.summary import GateSummary


def synthetic_gate(state: State, *, replaces: bool) -> GateSummary:
    """Decide the gate ``synthetic images``: passed only if all requested images passed the privacy gate."""
    name, facts = "synthetic images", SYNTHETIC.load(state)
    if not replaces:
        return GateSummary(name, "not_applicable", "No image is replaced by a synthetic one.")
    unlabeled = _unlabeled(state)
    if facts is None:
        nothing = "The policy replaces images, but there was none to replace."
        return GateSummary(name, "flagged" if unlabeled else "passed", unlabeled or nothing)
    told, sound = [f"{facts.replaced} images were dropped."], not unlabeled
    if facts.state == "passed":
        promised = f"{facts.label} (at most {facts.residual or 0:.4%} copies, at 95 % over all tries)"
        told.append(f"{facts.released} synthetic images are released: {promised}.")
    else:
        told.append(f"No synthetic image is released: the verdict is {facts.state}.")
        # The first line says what is required; the report has the next steps.
        told += facts.statement[:1]
        sound = False
    if facts.state == "passed" and facts.released < facts.requested:
        told.append(f"{facts.requested - facts.released} of the requested images are missing.")
        sound = False
    told += [unlabeled] if unlabeled else []
    return GateSummary(name, "passed" if sound else "flagged", " ".join(told))


def _unlabeled(state: State) -> str:
    """Return the message on images that cannot be replaced because the table has no label for them."""
    replaced = read_replaced(state)
    if not replaced.unlabeled:
        return ""
    if not replaced.named:
        return (
            "No file of the table is an image of this release:"
            f" {replaced.unlabeled} images could not be replaced by label."
        )
    return f"{replaced.unlabeled} images without a label in the table were not replaced."
