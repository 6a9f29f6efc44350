"""Pictures that are parts of a slide: formats of several files keep labels and tiles in plain JPEG files."""

from __future__ import annotations

import os
from functools import lru_cache

from medsanitize.errors import EnvironmentFailure

_SUFFIXES = (b".mrxs", b".vms", b".vmu", b".svs", b".ndpi", b".scn", b".bif", b".afi", b".czi", b".qptiff")
_MACRO = b".full"
"""What Trestle calls the picture of the whole glass."""


def is_slide_part(path: bytes) -> bool:
    """Whether a picture is the index of a slide, or named after a slide that lies beside it.

    Names are believed here because they only lead to a refusal.
    """
    folder, _, name = path.rpartition(b"/")
    name = name.lower()
    if name.endswith((*_SUFFIXES, _MACRO)):
        return True
    # Of a file in a store it is the walk that says what lies beside it.
    return path.startswith(b"/") and any(name.startswith(stem) for stem in _slides_in(folder))


def beside_slide(name: bytes, names: frozenset[bytes]) -> bool:
    """Whether a file is named after a slide among ``names``, which lie in one folder of a store."""
    return any(name.lower().startswith(stem) for stem in _stems(names))


@lru_cache(maxsize=4)
def _stems(names: frozenset[bytes]) -> frozenset[bytes]:
    stems = (os.path.splitext(name.lower()) for name in names)
    return frozenset(stem for stem, suffix in stems if suffix in _SUFFIXES)


@lru_cache(maxsize=64)
def _slides_in(folder: bytes) -> frozenset[bytes]:
    """Names, less their endings, of the slides in a folder.

    Raises
    ------
    EnvironmentFailure
        It could be listed when the inventory was taken, and cannot be now: a label might pass for a picture.
    """
    try:
        names = os.listdir(folder or b"/")
    except OSError:
        raise EnvironmentFailure(
            "A folder of the inputs can no longer be listed",
            "See that it is mounted and may be read, then run the same command again",
        ) from None
    return _stems(frozenset(names))
