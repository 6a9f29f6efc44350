"""A dataset card as Markdown, as facts for programs, and as a record set of Croissant."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Final

from medsanitize.release.dataset_card.noisy_tables import DatasetCard

RECORD_SET: Final = "dataset-card"
_COLUMNS: Final = (
    ("table", "sc:Text", "Table of the card."),
    ("category", "sc:Text", "Category, fixed before the data were counted."),
    ("patients", "sc:Integer", "Number of patients, with noise."),
    ("error", "sc:Integer", "The noise of this figure is at most this, with 95 % confidence."),
)
# The row of the number of patients.
_TOTAL: Final = ("patients", "all")


def statement(card: DatasetCard) -> str:
    """Return what the card promises, in public sentences."""
    return (
        f"Numbers of patients with differential privacy: epsilon {card.epsilon}, delta 0, for one patient "
        "with all images (neighbors: one released patient more or less). Noise: discrete Laplace; the number "
        f"of patients and each of the {len(card.tables)} tables spend the same part. Then the figures were "
        "made consistent: not negative, and with equal totals where each patient is counted once."
    )


def limits() -> tuple[str, ...]:
    """Return what the card does not promise."""
    return (
        "The card protects patients from its figures. It does not protect them from the release itself: the "
        "manifest states the exact number of patients, and the modality and the number of images of each. "
        "Age, sex and body region are as exact in the headers and in the research index, and findings in the "
        "tables, as the policy keeps them.",
        "The epsilons of the cards of all versions add up, and of all other statistics about these patients.",
        "Errors are those of the noise, before the figures were made consistent, which makes most of them "
        "smaller; a figure near 0 is rounded up to 0 if noise made it negative.",
    )


def card_facts(card: DatasetCard) -> dict[str, Any]:
    """Return the card for programs."""
    return {"unit": "patient", "neighbors": "one patient more or less", "delta": 0, **asdict(card)}


def card_markdown(card: DatasetCard) -> str:
    """Return the card for readers."""
    lines = [
        f"# Dataset card of {card.name} {card.version}",
        "",
        statement(card),
        "",
        f"**Patients: {card.patients:,}** (95 %: ± {card.error:,})",
    ]
    for table in card.tables:
        counted = (
            "Each patient is counted once."
            if table.per_patient == 1
            else f"A patient is counted in up to {table.per_patient} rows; further ones are left out."
        )
        lines += [
            "",
            f"## {_plain(table.title)}",
            "",
            f"{counted} 95 %: each figure ± {table.error:,}, all of them at once ± {table.joint_error:,}.",
            "",
            "| category | patients |",
            "|---|---:|",
            *(f"| {_plain(name)} | {count:,} |" for name, count in table.rows),
        ]
    lines += ["", "## What the card does not protect", "", *(f"- {one}" for one in limits())]
    return "\n".join(lines) + "\n"


def croissant_record_set(card: DatasetCard) -> dict[str, Any]:
    """Return the card as a record set with inline data."""
    rows = [(*_TOTAL, card.patients, card.error)]
    rows += [(one.name, name, count, one.error) for one in card.tables for name, count in one.rows]
    names = [f"{RECORD_SET}/{name}" for name, _, _ in _COLUMNS]
    return {
        "@type": "cr:RecordSet",
        "@id": RECORD_SET,
        "name": RECORD_SET,
        "description": f"{statement(card)} {' '.join(limits())}",
        "key": [{"@id": names[0]}, {"@id": names[1]}],
        "field": [
            {
                "@type": "cr:Field",
                "@id": f"{RECORD_SET}/{name}",
                "name": name,
                "description": text,
                "dataType": kind,
            }
            for name, kind, text in _COLUMNS
        ],
        "data": [dict(zip(names, row, strict=True)) for row in rows],
    }


def _plain(text: str) -> str:
    """Return a text of the policy without characters that have a meaning in Markdown tables."""
    return " ".join(text.replace("\\", " ").replace("|", "/").replace("<", "‹").split())
