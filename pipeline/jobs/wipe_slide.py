"""The command ``wipe``: overwrites everything but tissue in slides, in place."""

from __future__ import annotations

import mmap
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from medsanitize.errors import EnvironmentFailure, UsageError
from medsanitize.pipeline.runtime.optional_dependencies import check_extra
from medsanitize.policies.model import WholeSlides
from medsanitize.sanitize.quarantine import Quarantined
from medsanitize.sanitize.wsi.source import SlideView, SourceFile
from medsanitize.sanitize.wsi.wipe import Wipe, plan_wipe

_ZEROS = bytes(1 << 20)


@dataclass(frozen=True, slots=True)
class WipeResult:
    """Number of wiped slides, and numbers of refused (unchanged) ones by rule."""

    wiped: int
    refused: dict[str, int] = field(default_factory=dict)


def wipe_slides(paths: Sequence[Path]) -> WipeResult:
    """Overwrite everything but tissue in slides of one TIFF file.

    Raises
    ------
    UsageError
        A path is not a file or is a link, or the extra for slides is not installed.
    EnvironmentFailure
        A file cannot be read or written.
    """
    check_extra("wsi")
    # A link could point to an original that the user did not name.
    if any(path.is_symlink() or not path.is_file() for path in paths):
        raise UsageError("A slide to wipe is not a file", "Give slides of one file each")
    wiped, refused = 0, dict[str, int]()
    for path in paths:
        try:
            wipe_slide(path)
            wiped += 1
        except Quarantined as problem:
            refused[problem.rule] = refused.get(problem.rule, 0) + 1
        except OSError:
            raise EnvironmentFailure(
                "A slide cannot be read or written", "Check the disk and the access rights, then run again"
            ) from None
    return WipeResult(wiped, dict(sorted(refused.items())))


def wipe_slide(path: Path) -> None:
    """Wipe one slide in place; a refused one is not changed.

    Raises
    ------
    Quarantined
        With the rule of the vendor's module.
    OSError
        The file cannot be read or written.
    """
    with path.open("r+b", buffering=0) as file:
        if os.fstat(file.fileno()).st_size == 0:
            raise Quarantined("empty-file")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            view = SlideView((SourceFile(path.name, data),), untouched=True)
            plan = plan_wipe(view, WholeSlides())
            _apply(file.fileno(), plan)


def _apply(descriptor: int, plan: Wipe) -> None:
    """Write the new structure, then overwrite what it no longer uses."""
    # In this order an interruption never leaves a directory that points to overwritten data.
    _write(descriptor, plan.behind, plan.end)
    _write(descriptor, plan.head, 0)
    for start, end in plan.gaps:
        for at in range(start, end, len(_ZEROS)):
            _write(descriptor, _ZEROS[: min(len(_ZEROS), end - at)], at)


def _write(descriptor: int, data: bytes, at: int) -> None:
    while data:
        # pwrite may write less than requested, for example at a quota.
        written = os.pwrite(descriptor, data, at)
        data, at = data[written:], at + written
