"""medsanitize: turn an export of medical images into a dataset that may be published.

The names in ``__all__`` are the public API, documented in docs/api.md. Every other name and module is
private and may change in any version.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from medsanitize.offline import keep_offline

if TYPE_CHECKING:
    from medsanitize.api.attributes import attribute_rules
    from medsanitize.api.curation import add_rule, edit_site_lists, open_values, site_lists
    from medsanitize.api.deidentifier import Deidentifier, Result
    from medsanitize.api.inventory import inventory, stored_inventory
    from medsanitize.api.jobs import audit, compare, plan, propose_words, run, verify
    from medsanitize.api.policy import import_policy, load_policy
    from medsanitize.api.policy_text import POLICY_QUESTIONS, draft_policy, policy_problems, policy_schema
    from medsanitize.api.preview import Previewer
    from medsanitize.api.release import Release
    from medsanitize.api.release_key import ReleaseKey, keygen
    from medsanitize.api.review import decision_log, open_review, staged_frame, staged_header
    from medsanitize.api.status import status, stop
    from medsanitize.errors import (
        EnvironmentFailure,
        IntegrityError,
        KeyMaterialError,
        MedsanitizeError,
        PolicyError,
        UsageError,
    )
    from medsanitize.pipeline.jobs.import_policy import ImportedPolicy
    from medsanitize.policies.model import Policy
    from medsanitize.progress import Progress
    from medsanitize.sanitize.result import Finding, Outcome

__version__ = "0.1.0"
__all__ = [
    "POLICY_QUESTIONS",
    "Deidentifier",
    "EnvironmentFailure",
    "Finding",
    "ImportedPolicy",
    "IntegrityError",
    "KeyMaterialError",
    "MedsanitizeError",
    "Outcome",
    "Policy",
    "PolicyError",
    "Previewer",
    "Progress",
    "Release",
    "ReleaseKey",
    "Result",
    "UsageError",
    "__version__",
    "add_rule",
    "attribute_rules",
    "audit",
    "compare",
    "decision_log",
    "draft_policy",
    "edit_site_lists",
    "import_policy",
    "inventory",
    "keygen",
    "load_policy",
    "open_review",
    "open_values",
    "plan",
    "policy_problems",
    "policy_schema",
    "propose_words",
    "run",
    "site_lists",
    "staged_frame",
    "staged_header",
    "status",
    "stop",
    "stored_inventory",
    "verify",
]

_MODULES: Final = {
    "api.attributes": ("attribute_rules",),
    "api.curation": ("add_rule", "edit_site_lists", "open_values", "site_lists"),
    "api.deidentifier": ("Deidentifier", "Result"),
    "api.inventory": ("inventory", "stored_inventory"),
    "api.jobs": ("audit", "compare", "plan", "propose_words", "run", "verify"),
    "api.policy": ("import_policy", "load_policy"),
    "api.policy_text": ("POLICY_QUESTIONS", "draft_policy", "policy_problems", "policy_schema"),
    "api.preview": ("Previewer",),
    "api.release": ("Release",),
    "api.release_key": ("ReleaseKey", "keygen"),
    "api.review": ("decision_log", "open_review", "staged_frame", "staged_header"),
    "api.status": ("status", "stop"),
    "errors": (
        *("EnvironmentFailure", "IntegrityError", "KeyMaterialError"),
        *("MedsanitizeError", "PolicyError", "UsageError"),
    ),
    "pipeline.jobs.import_policy": ("ImportedPolicy",),
    "policies.model": ("Policy",),
    "progress": ("Progress",),
    "sanitize.result": ("Finding", "Outcome"),
}
_HOME: Final = {name: module for module, names in _MODULES.items() for name in names}

keep_offline()  # before any library is imported, in whatever process this is


def __getattr__(name: str) -> object:
    """Import a public name when it is first used, so that importing the package stays quick."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
