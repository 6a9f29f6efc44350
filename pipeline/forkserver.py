"""The process that workers are forked from: it imports what they need once, beside this one's own start."""

from __future__ import annotations

import multiprocessing
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext

_PRELOAD = [
    "medsanitize.pipeline.audit_stage",
    "medsanitize.pipeline.dedup_stage",
    "medsanitize.pipeline.sanitize_stage",
    "medsanitize.sanitize.dicom.peek",
    "medsanitize.sanitize.dicom.sanitizer",
    "medsanitize.sanitize.text.cleaner",
    "medsanitize.verifiers.duplicates",
    "medsanitize.verifiers.residual",
]


def fork_context() -> ForkServerContext:
    """The context in which a pool of workers is made."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_PRELOAD)
    return context


def begin() -> None:
    """Start the process now, before anything large is imported here, so that both import at once."""
    fork_context()
    forkserver.ensure_running()
