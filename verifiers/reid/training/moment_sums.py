"""Recipe ``moments`` from sums: means, then covariances of cells and coarse grids, then those of products.

Equals `second_order_pooling.train_moments` on the images of all sites together, up to rounding: principal
directions come from an eigendecomposition of the summed covariance instead of a singular value decomposition.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from medsanitize.verifiers.reid.images.image import Modality
from medsanitize.verifiers.reid.models.networks.layers import GridPool
from medsanitize.verifiers.reid.models.networks.moments import COARSE, Branch, Coarse, LiteMoments
from medsanitize.verifiers.reid.training.frozen_backbone import TrainedModel
from medsanitize.verifiers.reid.training.precomputed_features import pooled_maps, preprocessing_for
from medsanitize.verifiers.reid.training.second_order_pooling import (
    MomentsRecipe,
    dimension_of,
    facts_of,
    network_of,
    products_of,
    set_cells,
    set_coarse,
    set_products,
    smoothed,
)
from medsanitize.verifiers.reid.training.sums import (
    COUNTS,
    PHASE,
    Arrays,
    SiteImages,
    State,
    Summed,
    counted,
    packed_triangle,
    phase_of,
    triangle,
    unpacked_triangle,
)
from numpy.typing import NDArray
from torch import Tensor

MEANS, COVARIANCES, PRODUCTS, TRAINED = range(4)
# Largest absolute values of an image. Features are below 100; the square of a sum of 256 weights is 65,536.
_FEATURE, _SQUARE, _PRODUCT, _PRODUCT_SQUARE = 2.0**10, 2.0**16, 2.0**8, 2.0**16
_LEARNED = "network."


@dataclass(frozen=True, slots=True)
class MomentSums:
    """The training, as `medsanitize.verifiers.reid.training.sums.SummedTraining`.

    Attributes
    ----------
    recipe
        Hyperparameters; each site uses at most ``most`` images.
    modality
        Modality of the images.
    most
        Most images of all sites together.
    """

    recipe: MomentsRecipe
    modality: Modality
    most: int

    def start(self) -> State:
        """Return the state before the first round."""
        return {PHASE: np.array(float(MEANS))}

    def asked(self, state: State) -> Mapping[str, Summed]:
        """Return what is summed in the round of a state."""
        phase, wanted = phase_of(state), dict[str, Summed]()
        if phase == TRAINED:
            return wanted
        images = float(self.most) if phase == MEANS else float(state["fit_images"])
        for name, branch, coarse in _parts(network_of(self.recipe)):
            channels, grid, _ = branch.cells.mean.shape
            if phase == MEANS:
                wanted[f"{name}.mean"] = Summed((channels, grid, grid), images * _FEATURE)
            elif phase == COVARIANCES:
                wanted[f"{name}.cells"] = Summed(triangle(channels), images * _SQUARE)
                side = coarse.project.in_features
                wanted[f"{name}.coarse"] = Summed(triangle(side), images * _SQUARE)
            else:
                count = _products(branch)
                wanted[f"{name}.products"] = Summed((len(branch.mean), count), images * _PRODUCT)
                wanted[f"{name}.spread"] = Summed(triangle(count), images * _PRODUCT_SQUARE)
        return {**counted(self.most), **wanted} if phase == MEANS else wanted

    def contribution(self, state: State, site: SiteImages, _number: int, /) -> Arrays:
        """Compute the sums of a site."""
        draw = np.random.default_rng(self.recipe.seed)
        chosen = np.sort(draw.permutation(len(site.fit))[: self.recipe.most])
        found: dict[str, NDArray[np.float64]] = site.counts() if phase_of(state) == MEANS else {}
        if found:
            found["fit_images"] = np.array(float(len(chosen)))
        network, examples = self._network(state), site.fit.part(chosen)
        how = preprocessing_for(self.modality, self.recipe.sizes[0])
        with torch.no_grad():
            for place, (scale, rescaling) in enumerate(zip(network.scales, network.rescalings, strict=True)):
                grid = scale.branches[0].cells.mean.shape[-1]
                maps = pooled_maps(
                    examples, how, self.recipe.groups, grid, site.unfinished, site.progress,
                    site.cancellation, rescaling,
                )  # fmt: skip
                for number, pooled in enumerate(maps):
                    site.cancellation.check()
                    name = f"{place}.{number}"
                    branch = scale.branches[number]
                    found |= {
                        f"{name}.{what}": value
                        for what, value in _statistics(state, name, branch, pooled).items()
                    }
        return found

    def following(self, state: State, sums: Arrays) -> State:
        """Return the state that follows from the sums."""
        phase = phase_of(state)
        # A network in memory is set, and its parameters are the state.
        network = self._network(state)
        kept = {name: state[name] for name in (*COUNTS, *_centers(state)) if name in state}
        if phase == MEANS:
            kept |= {name: sums[name] for name in COUNTS}
        images = float(kept["fit_images"])
        with torch.no_grad():
            for name, branch, coarse in _parts(network):
                if phase == MEANS:
                    mean = sums[f"{name}.mean"] / images
                    kept[f"{name}.center"] = mean
                    branch.cells.mean.copy_(smoothed(torch.from_numpy(mean).float()))
                elif phase == COVARIANCES:
                    _set_covariances(name, branch, coarse, kept, sums, self.recipe.whitening)
                else:
                    _set_products(name, branch, sums, images)
        learned = {
            _LEARNED + name: value.double().numpy()
            for name, value in network.state_dict().items()
            if name.startswith("scales.") and not name.endswith((".signs", ".kept"))
        }
        return {PHASE: np.array(float(phase + 1)), **kept, **learned}

    def trained(self, state: State) -> TrainedModel:
        """Return the network of a state in which only calibration remains."""
        return TrainedModel(
            network=facts_of(self.recipe),
            weights=self._network(state).state_dict(),
            dimension=dimension_of(self.recipe),
            preprocessing=preprocessing_for(self.modality, self.recipe.sizes[0]),
        )

    def _network(self, state: State) -> LiteMoments:
        network = network_of(self.recipe)
        learned = {
            name.removeprefix(_LEARNED): torch.from_numpy(value).float()
            for name, value in state.items()
            if name.startswith(_LEARNED)
        }
        network.load_state_dict({**network.state_dict(), **learned})
        return network


def _parts(network: LiteMoments) -> Iterator[tuple[str, Branch, Coarse]]:
    for place, scale in enumerate(network.scales):
        for number, (branch, coarse) in enumerate(zip(scale.branches, scale.coarse, strict=True)):
            yield f"{place}.{number}", branch, coarse


def _products(branch: Branch) -> int:
    channels = len(branch.cells.whiten.weight)
    return channels * (channels + 1) // 2


def _centers(state: State) -> Iterator[str]:
    return (name for name in state if name.endswith(".center"))


def _statistics(state: State, name: str, branch: Branch, pooled: Tensor) -> dict[str, NDArray[np.float64]]:
    """The sums of one group's feature maps, shape (n, channels, grid, grid), in the phase of a state."""
    phase = phase_of(state)
    if phase == MEANS:
        return {"mean": pooled.double().sum(0).numpy()}
    if phase == COVARIANCES:
        rows = (pooled - branch.cells.mean).permute(0, 2, 3, 1).flatten(0, 2).double()
        center = torch.from_numpy(state[f"{name}.center"])
        coarse = _on_coarse_grid(pooled.double()) - _on_coarse_grid(center[None])
        cells = (rows.T @ rows / pooled.shape[-1] ** 2).numpy()
        return {"cells": packed_triangle(cells), "coarse": packed_triangle((coarse.T @ coarse).numpy())}
    regions, count = len(branch.mean), _products(branch)
    total, spread = torch.zeros(regions, count, dtype=torch.float64), torch.zeros(count, count).double()
    for maps in pooled:
        products = products_of(branch, maps).double()
        total += products
        spread += products.T @ products / regions
    return {"products": total.numpy(), "spread": packed_triangle(spread.numpy())}


def _on_coarse_grid(maps: Tensor) -> Tensor:
    pool = GridPool(maps.shape[-1], COARSE).double()
    pooled: Tensor = pool(maps)
    return pooled.flatten(1)


def _set_covariances(
    name: str,
    branch: Branch,
    coarse: Coarse,
    kept: Mapping[str, NDArray[np.float64]],
    sums: Arrays,
    whitening: float,
) -> None:
    from scipy.linalg import eigh  # type: ignore[import-untyped]

    images, center = float(kept["fit_images"]), torch.from_numpy(kept[f"{name}.center"])
    covariance = unpacked_triangle(sums[f"{name}.cells"] / images, len(center))
    set_cells(branch.cells, branch.cells.mean.clone(), torch.from_numpy(covariance))
    side = coarse.project.in_features
    # The rank of so few images is known: further directions would be rounding, amplified.
    most = min(coarse.project.out_features, side, int(images) - 1)
    scatter = unpacked_triangle(sums[f"{name}.coarse"], side)
    values, columns = eigh(scatter, subset_by_index=(side - most, side - 1))
    deviations = torch.from_numpy(np.sqrt(np.maximum(values[::-1], 0)).copy())
    directions = torch.from_numpy(columns[:, ::-1].T.copy())
    set_coarse(coarse, _on_coarse_grid(center[None])[0], deviations, directions, whitening)


def _set_products(name: str, branch: Branch, sums: Arrays, images: float) -> None:
    mean = sums[f"{name}.products"] / images
    spread = unpacked_triangle(sums[f"{name}.spread"] / images, mean.shape[1])
    covariance = spread - mean.T @ mean / len(mean)
    set_products(branch, torch.from_numpy(mean).float(), torch.from_numpy(covariance))
