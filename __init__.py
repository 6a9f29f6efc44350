"""medsanitize: turn an export of medical images into a dataset that may be published.

The names in ``__all__`` are the public API, documented in docs/api.md. Every other name and module is
private and may change in any version.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from medsanitize.offline import keep_offline

if TYPE_CHECKING:
    from medsanitize.api.curation import (
        add_rule,
        decision_log,
        edit_site_lists,
        open_review,
        open_values,
        site_lists,
    )
    from medsanitize.api.deidentifier import Deidentifier, Result
    from medsanitize.api.jobs import audit, compare, plan, propose_words, run, verify
    from medsanitize.api.policy import import_policy, load_policy
    from medsanitize.api.release import Release
    from medsanitize.api.release_key import ReleaseKey, keygen
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
    "Progress",
    "Release",
    "ReleaseKey",
    "Result",
    "UsageError",
    "__version__",
    "add_rule",
    "audit",
    "compare",
    "decision_log",
    "edit_site_lists",
    "import_policy",
    "keygen",
    "load_policy",
    "open_review",
    "open_values",
    "plan",
    "propose_words",
    "run",
    "site_lists",
    "verify",
]

_MODULES: Final = {
    "api.curation": (
        *("add_rule", "decision_log", "edit_site_lists", "open_review", "open_values", "site_lists"),
    ),
    "api.deidentifier": ("Deidentifier", "Result"),
    "api.jobs": ("audit", "compare", "plan", "propose_words", "run", "verify"),
    "api.policy": ("import_policy", "load_policy"),
    "api.release": ("Release",),
    "api.release_key": ("ReleaseKey", "keygen"),
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
