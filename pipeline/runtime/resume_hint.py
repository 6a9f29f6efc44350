"""Error hints of anonymous runs, which cannot be resumed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from medsanitize.errors import EnvironmentFailure
from medsanitize.pipeline.runtime.workspace import Workspace
from medsanitize.progress import Cancelled

# The part of an error hint that says what the same command does, for runs with a state.
RESUMES: Final = "it resumes where it stopped"


@contextmanager
def restart_hint(workspace: Workspace) -> Iterator[None]:
    """Replace the resume hint of errors raised in the block, if the run is anonymous.

    Parameters
    ----------
    workspace : Workspace
        Says whether the run is anonymous, and whether its output is a store.
    """
    if not workspace.anonymous:
        yield
        return
    told = "it starts from scratch, as every anonymous run does"
    # A new key gives other pseudonyms: files of the earlier attempt would mix with those of the next.
    if not isinstance(workspace.output, Path):
        told += ", and what was written to output must be removed first"
    try:
        yield
    except EnvironmentFailure as failure:
        remedy = failure.remedy
        failure.remedy = remedy.replace(RESUMES, told) if RESUMES in remedy else f"{remedy}: {told}"
        # Pickling rebuilds an exception from its args.
        failure.args = (failure.what, failure.remedy)
        raise
    except Cancelled as stopped:
        stopped.remedy = f"Run the same command again: {told}"
        raise
