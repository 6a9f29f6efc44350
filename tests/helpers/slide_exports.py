"""Exports of slides, as files in a folder."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from medsanitize.sanitize.wsi.source import SlideView

from tests.helpers import slides
from tests.helpers.hospital import CANARIES

KINDS = ("aperio", "vms", "mirax", "trestle", "zeiss")


def save(view: SlideView, folder: Path, name: str) -> Path:
    """Write the files of a slide, the main one and its folder ``name``; return the main file."""
    old = view.files[0].name.partition(".")[0]
    for file in view.files:
        own = file.name.startswith((f"{old}.", f"{old}/"))
        path = folder / (name + file.name.removeprefix(old) if own else file.name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(file.data))
    return folder / (name + view.files[0].name.removeprefix(old))


def fill(root: Path, kinds: Iterable[str] = KINDS) -> dict[str, Path]:
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    return {kind: save(slides.MAKERS[kind](), root / kind, f"S26-{CANARIES[0]}-1234") for kind in kinds}
