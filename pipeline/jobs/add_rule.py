"""Add a rule to a policy during a review, with which the next run sanitizes all objects again."""

from __future__ import annotations

import os
from pathlib import Path

from medsanitize.errors import UsageError
from medsanitize.pipeline.amend import amending
from medsanitize.pipeline.state.database import translated_errors
from medsanitize.policies.edit_policy import with_attribute_action
from medsanitize.policies.load import load, policy_text
from medsanitize.policies.model import Action
from medsanitize.release.atomic_io import write_atomic


@translated_errors()
def add_rule(path: Path, attribute: str, action: Action = "X") -> None:
    """Write an override into a policy file; decisions of its review stay.

    Parameters
    ----------
    path : Path
        The policy file; comments and other lines stay as they are.
    attribute : str
        Keyword, tag or mask of a public attribute; or its path, of which the last attribute counts.
    action : str
        Action of PS3.15 Table E.1-1a.

    Raises
    ------
    PolicyError, UsageError
        The policy is invalid, or cannot be extended; or the attribute is private or unknown.
    EnvironmentFailure
        Another process holds the release, or the disk failed.
    """
    if '"' in attribute:
        raise UsageError(
            "A private attribute has no rule of its own",
            "Remove its line from dicom.safe_private, or set dicom: options: retain_safe_private: false",
        )
    before, text = load(path), policy_text(path)
    base = Path(os.path.abspath(path)).parent
    changed, after = with_attribute_action(text, attribute.rsplit(".", 1)[-1], action, base=base)
    if after == before:
        return
    with amending(before, after):
        # Through a link, the file it names is written.
        write_atomic(Path(os.path.realpath(path)), changed.encode(), sync=True)
