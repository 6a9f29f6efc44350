"""Items of a comparison: what two hospitals must write equally to find it in common."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from medsanitize.federation.private_overlap.terms import What
from medsanitize.release.manifest import ObjectRow

Items = Mapping[What, Sequence[bytes]]
"""Items by what is compared; equal ones count once."""


@dataclass(frozen=True, slots=True, repr=False)
class ReleaseItems:
    """The items of a release; they contain PHI.

    Attributes
    ----------
    items
        Digests of decoded pixels and of source files, and patient identifiers.
    compared, not_compared
        Number of released images with and without a digest of their pixels; slides have none.
    paths
        The images of each digest of pixels, as paths in the release, and the source files of each digest.
    """

    items: Items
    compared: int
    not_compared: int
    paths: Mapping[bytes, Sequence[str]]


def items_of(
    rows: Iterable[ObjectRow],
    what: Sequence[What],
    identifiers: Iterable[tuple[str, str]],
    files: Mapping[bytes, Sequence[str]] | None = None,
) -> ReleaseItems:
    """Collect the items of a release.

    Parameters
    ----------
    rows : iterable of ObjectRow
        The object manifest.
    what : sequence of str
        What is compared.
    identifiers : iterable of (str, str)
        Patient identifiers and their pseudonyms; those of patients who are not released are left out.
    files : mapping of bytes to sequence of str, optional
        Source files of the released objects by digest.
    """
    paths: dict[bytes, list[str]] = {}
    patients, without = set[str](), 0
    for row in rows:
        patients.add(row.patient)
        if row.pixels_sha256 and row.kind != "slide":
            paths.setdefault(bytes.fromhex(row.pixels_sha256), []).append(row.path)
        # Reports and other objects without pixels have nothing to compare.
        elif row.kind == "slide" or row.rows:
            without += 1
    found: dict[What, Sequence[bytes]] = {}
    if "pixels" in what:
        found["pixels"] = sorted(paths)
    if "patients" in what:
        found["patients"] = normalized_identifiers(old for old, new in identifiers if new in patients)
    if "files" in what:
        found["files"] = sorted(files or ())
    return ReleaseItems(found, sum(map(len, paths.values())), without, {**paths, **(files or {})})


def sizes_of(items: Items) -> dict[What, int]:
    """Number of different items."""
    return {what: len(set(found)) for what, found in items.items()}


def normalized_identifiers(identifiers: Iterable[str]) -> list[bytes]:
    """Normalize patient identifiers: NFKC, case folded, without spaces; UTF-8, each once.

    Leading zeros stay, since they distinguish patients at some hospitals.
    """
    normal = ("".join(unicodedata.normalize("NFKC", one).casefold().split()) for one in identifiers)
    return sorted({one.encode("utf-8") for one in normal if one})
