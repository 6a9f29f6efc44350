"""Digests of the source files of released objects, for comparisons with partners; never stored."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence

from medsanitize.errors import UsageError
from medsanitize.pipeline.state.database import State
from medsanitize.pipeline.state.objects import released_sources
from medsanitize.pipeline.storage.containers.address import shown
from medsanitize.pipeline.storage.protocol import SourceProblem
from medsanitize.pipeline.storage.sources import open_source_files


def digests_of_sources(state: State) -> Mapping[bytes, Sequence[str]]:
    """Return the SHA-256 of every source file of the released objects, with the addresses of equal files.

    Raises
    ------
    UsageError
        A file cannot be read any more, or has changed since the run.
    EnvironmentFailure
        The inputs cannot be reached.
    """
    found: dict[bytes, list[str]] = {}
    for paths, stamp in released_sources(state):
        try:
            with open_source_files(paths, state.seal, stamp) as contents:
                digests = [hashlib.sha256(content).digest() for content in contents]
        except SourceProblem:
            raise UsageError(
                "A source file of the release was removed or has changed, so that files cannot be compared",
                "Restore the inputs of the run, or leave files out of partners.agreements.compare",
            ) from None
        for path, digest in zip(paths, digests, strict=True):
            found.setdefault(digest, []).append(os.fsdecode(shown(path)))
    return found
