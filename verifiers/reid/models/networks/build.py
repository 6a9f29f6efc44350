"""Networks by the name and arguments in config.json."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from medsanitize.errors import IntegrityError
from medsanitize.verifiers.reid.models.networks.copies import LiteCopies
from medsanitize.verifiers.reid.models.networks.densenet import DenseFeatures
from medsanitize.verifiers.reid.models.networks.lite import LiteFeatures, LiteProjected
from medsanitize.verifiers.reid.models.networks.match import LiteMatch
from medsanitize.verifiers.reid.models.networks.moments import LiteMoments
from medsanitize.verifiers.reid.models.networks.siamese import SiameseRetrieval, SiameseVerification
from torch import nn

NETWORKS: dict[str, Callable[..., nn.Module]] = {
    "densenet": DenseFeatures,
    "lite0-copies": LiteCopies,
    "lite0-features": LiteFeatures,
    "lite0-match": LiteMatch,
    "lite0-moments": LiteMoments,
    "lite0-projected": LiteProjected,
    "siamese-retrieval": SiameseRetrieval,
    "siamese-verification": SiameseVerification,
}


def build_network(facts: Mapping[str, Any]) -> nn.Module:
    """Build a network without its weights.

    Parameters
    ----------
    facts : mapping
        ``name`` of the network and its arguments.

    Raises
    ------
    IntegrityError
        If no network has this name or takes these arguments.
    """
    arguments = dict(facts)
    maker = NETWORKS.get(str(arguments.pop("name", "")))
    try:
        if maker is not None:
            return maker(**arguments)
    except (TypeError, ValueError, IndexError):
        # The arguments come from a file: what a constructor refuses is of another version.
        pass
    raise IntegrityError(
        "This version does not support the model's network", "Use the version of medsanitize that trained it"
    )
