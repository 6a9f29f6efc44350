"""The rows of a run, as the data controller accounts for them."""

from __future__ import annotations

import os

from medsanitize.pipeline.runtime.workspace import workspace_of
from medsanitize.pipeline.state.database import State
from medsanitize.pipeline.state.keys import open_paths
from medsanitize.pipeline.storage.containers.address import shown
from medsanitize.policies.model import Policy
from medsanitize.sanitize.pseudonyms import derive_sub_keys

from tests.helpers.hospital import KEY


def account(policy: Policy) -> list[tuple[str, str, str]]:
    """Path, outcome and rule of every row, as the state has them after a run."""
    root = os.fsencode(policy.inputs[0]) + b"/"
    with State(
        workspace_of(policy).database, derive_sub_keys(KEY, scope="release:chest-ct")
    ).closed_on_failure() as state:
        rows = state.db.execute(
            "SELECT source, outcome, coalesce(rule, '') FROM objects ORDER BY id"
        ).fetchall()
        found = [
            (os.fsdecode(shown(open_paths(state.seal, source)[0]).removeprefix(root)), outcome, rule)
            for source, outcome, rule in rows
        ]
        state.close()
    return found
