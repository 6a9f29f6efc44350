"""Attacks on each scheme by those who take part in it, beside what is claimed about them.

Attackers follow the protocol (semi-honest). An attacker has embeddings of other people's images, as everyone
has who uses the common model, and may know some of the embeddings, as of images that were published.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Literal

from medsanitize.verifiers.reid.recovery.blinded_points import gram_of_points
from medsanitize.verifiers.reid.recovery.encrypted_scores import NOISE, decrypted_scores
from medsanitize.verifiers.reid.recovery.masks import (
    flake_upload,
    gram_matrix,
    mask_parameters,
    unmask_flake,
    unmask_parameters,
)
from medsanitize.verifiers.reid.recovery.recover import recover_from_gram, recover_from_scores
from medsanitize.verifiers.reid.recovery.recovered import Recovered, judge

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float64]

Scheme = Literal["flake", "masks", "ckks-scores", "private-overlap"]
PARTIES: Final = 3
# Numbers of embeddings that an attacker knows.
KNOWN: Final = (0, 10, 20, 40)
AGGREGATOR: Final = "aggregator"
COLLUDING: Final = "aggregator with one party"
ASKING: Final = "asking hospital"
ANSWERING: Final = "answering hospital"
CLAIMS: Final = {
    ("flake", AGGREGATOR): 'Ünal et al. 6.3: "cannot infer anything about [...] latent representations"',
    ("masks", AGGREGATOR): 'Ünal et al. 6.2: local and global models are not "visible to the aggregator"',
    ("flake", COLLUDING): "Ünal et al. 6.1: excluded by the assumption that parties do not collude",
    ("masks", COLLUDING): "Ünal et al. 6.1: excluded by the assumption that parties do not collude",
    ("ckks-scores", ASKING): "not in Ünal et al.: only scores are decrypted, no embedding",
    ("private-overlap", ASKING): "medsanitize: the asking party learns nothing of items that are not common",
    ("private-overlap", ANSWERING): "medsanitize: the answering party learns nothing of the items",
}
"""What is claimed about each attacker; section 6 of Ünal et al.: nothing leaks to any unauthorized party."""

# Fixed: the same images give the same table.
_SEED: Final = 52_187


def attack_flake(parties: Sequence[Vectors], others: Vectors) -> list[Recovered]:
    """Attack FLAKE as the aggregator, alone and with the seed of one party.

    Parameters
    ----------
    parties : sequence of arrays of float64, shape (rows, dimension)
        Embeddings of each party.
    others : array of float64, shape (m, dimension)
        Embeddings of other people's images, which the attacker has.
    """
    import numpy as np

    random = np.random.default_rng(_SEED + 1)
    uploads = [flake_upload(one, _SEED, random) for one in parties]
    found = _with_known_rows(gram_matrix(uploads), np.concatenate(parties), others, "flake", AGGREGATOR)
    unmasked = [unmask_flake(one, _SEED) for one in uploads]
    return [*found, _by_collusion(unmasked, parties, "flake")]


def attack_masks(parties: Sequence[Vectors], others: Vectors) -> list[Recovered]:
    """Attack the masks of model parameters; embeddings stand for the parameters of each party.

    Parameters
    ----------
    parties : sequence of arrays of float64, shape (rows, dimension)
        What is masked; of one shape.
    others : array of float64, shape (m, dimension)
        Rows of other parties, which the attacker has.
    """
    import numpy as np

    masked = mask_parameters(parties, _SEED)
    seen = np.concatenate(masked)
    found = _with_known_rows(seen @ seen.T, np.concatenate(parties), others, "masks", AGGREGATOR)
    return [*found, _by_collusion(unmask_parameters(masked, _SEED), parties, "masks")]


def attack_scores(gallery: Vectors, others: Vectors) -> tuple[list[Recovered], str]:
    """Attack decrypted scores as the hospital that asks, with its own images as queries.

    Parameters
    ----------
    gallery : array of float64, shape (n, dimension)
        Embeddings of the hospital that is asked.
    others : array of float64, shape (m, dimension)
        Embeddings of the hospital that asks.

    Returns
    -------
    list of Recovered
        With a quarter and half as many queries as an embedding has numbers, and with as many.
    str
        The library that encrypted; empty if only its errors were simulated.
    """
    import numpy as np

    dimension = gallery.shape[1]
    queries = others[:dimension]
    scores = decrypted_scores(gallery, queries)
    every, found = np.arange(len(gallery)), []
    for count in sorted({min(dimension // part, len(queries)) for part in (4, 2, 1)}):
        estimates = recover_from_scores(scores.values[:, :count], queries[:count], others, noise=NOISE)
        found.append(_judged(estimates, gallery, every, "ckks-scores", ASKING, count))
    return found, scores.library


def attack_points(
    points: Sequence[bytes], embeddings: Vectors, others: Vectors, attacker: str
) -> list[Recovered]:
    """Attack blinded items of a private comparison in the way that FLAKE is attacked.

    Parameters
    ----------
    points : sequence of bytes
        The blinded items that the attacker sees.
    embeddings : array of float64, shape (points, dimension)
        Embedding of the image behind each of them.
    others : array of float64, shape (m, dimension)
        Embeddings of other people's images, which the attacker has.
    attacker : str
        ``ASKING`` or ``ANSWERING``.
    """
    return _with_known_rows(gram_of_points(points), embeddings, others, "private-overlap", attacker)


def _with_known_rows(
    gram: Vectors, truth: Vectors, others: Vectors, scheme: Scheme, attacker: str
) -> list[Recovered]:
    """Attack inner products with each number of known rows; the larger sets contain the smaller ones."""
    import numpy as np

    order, found = np.random.default_rng(_SEED + 2).permutation(len(truth)), []
    # At least half of the rows remain to be recovered.
    for count in (one for one in KNOWN if 2 * one <= len(truth)):
        known, unknown = order[:count], np.sort(order[count:])
        estimates = recover_from_gram(gram, known, truth[known], others)
        found.append(_judged(estimates, truth, unknown, scheme, attacker, count))
    return found


def _by_collusion(unmasked: Sequence[Vectors], parties: Sequence[Vectors], scheme: Scheme) -> Recovered:
    """Judge what the seed unmasks of all parties but the last, which colludes."""
    import numpy as np

    truth, own = np.concatenate(parties), len(parties[-1])
    unknown = np.arange(len(truth) - own)
    return _judged(np.concatenate(unmasked), truth, unknown, scheme, COLLUDING, own)


def _judged(
    estimates: Vectors,
    truth: Vectors,
    rows: NDArray[np.intp],
    scheme: Scheme,
    attacker: str,
    known: int,
) -> Recovered:
    claim = CLAIMS[scheme, attacker]
    return judge(estimates, truth, rows, scheme=scheme, attacker=attacker, known=known, claim=claim)
