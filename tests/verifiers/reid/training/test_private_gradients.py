"""Gradients per patient: what one patient can add, who takes part, and what is refused."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from medsanitize.errors import IntegrityError, UsageError
from medsanitize.verifiers.reid.training.keyed_noise import FILE, NoiseKey, kept_key
from medsanitize.verifiers.reid.training.privacy_accounting import PrivacyBudget, PrivacyPlan, SampledGaussian
from medsanitize.verifiers.reid.training.private_gradients import ClippedSum, check_network, sampled_patients
from torch import Tensor, nn

pytestmark = pytest.mark.dp

KEY = NoiseKey(bytes(range(32)))


def plan(*, rate: float = 0.25, noise: float = 2.0, clip: float = 0.5, patients: int = 40) -> PrivacyPlan:
    return PrivacyPlan(PrivacyBudget(8, 1e-5), SampledGaussian(rate, noise), clip, patients, 100)


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.SiLU(), nn.Flatten(), nn.Linear(16, 1))


def loss_of(model: nn.Module, images: Tensor) -> Tensor:
    return torch.as_tensor(model(images).square().mean())


def summed(images: list[Tensor], clip: float) -> Tensor:
    model = network()
    total = ClippedSum(model.parameters(), clip)
    for one in images:
        total.add(loss_of(model, one))
    return torch.cat([one.flatten() for one in total.sums])


@settings(max_examples=15, deadline=None)
@given(
    st.integers(0, 2**31),
    st.integers(1, 6),
    st.integers(1, 5),
    st.sampled_from([1e-3, 1.0, 1e3, 1e20]),
    st.sampled_from([1e-2, 0.5, 10.0]),
)
def test_all_images_of_a_patient_move_the_sum_by_at_most_the_bound(
    seed: int, others: int, images: int, size: float, clip: float
) -> None:
    draw = torch.Generator().manual_seed(seed)
    rest = [torch.randn((2, 1, 4, 4), generator=draw) for _ in range(others)]
    patient = torch.randn((images, 1, 4, 4), generator=draw) * size
    moved = summed([*rest, patient], clip) - summed(rest, clip)
    assert float(moved.norm()) <= clip * (1 + 1e-9)


def test_a_gradient_within_the_bound_is_not_changed() -> None:
    model = network()
    total = ClippedSum(model.parameters(), 1e6)
    images = torch.ones((3, 1, 4, 4))
    norm = total.add(loss_of(model, images))
    loss_of(model, images).backward()  # type: ignore[no-untyped-call]
    gradients = torch.cat([torch.as_tensor(one.grad).flatten() for one in model.parameters()])
    assert torch.allclose(torch.cat([one.flatten() for one in total.sums]).float(), gradients)
    assert norm == pytest.approx(float(gradients.norm()), rel=1e-5)


def test_a_patient_whose_gradient_is_no_number_adds_nothing() -> None:
    assert not summed([torch.full((1, 1, 4, 4), math.inf)], 1.0).any()


def test_the_noise_has_the_deviation_of_the_plan_and_covers_every_weight() -> None:
    model = nn.Linear(200, 200)
    total = ClippedSum(model.parameters(), 0.5)
    total.release(plan(), KEY, 3)
    weights = torch.as_tensor(model.weight.grad)
    # Noise 2, bound 0.5, divided by the ten patients that are expected.
    assert float(weights.std()) == pytest.approx(0.1, rel=0.02)
    assert float(torch.as_tensor(model.bias.grad).abs().min()) > 0


def test_a_step_without_patients_is_noise_only() -> None:
    model = network()
    ClippedSum(model.parameters(), 0.5).release(plan(), KEY, 0)
    assert all(one.grad is not None and bool(one.grad.any()) for one in model.parameters())


def test_noise_is_normal_new_in_each_step_and_the_same_when_repeated() -> None:
    drawn = KEY.gaussian("noise/1", 40_001)
    assert np.array_equal(drawn, KEY.gaussian("noise/1", 40_001))
    assert abs(np.corrcoef(drawn, KEY.gaussian("noise/2", 40_001))[0, 1]) < 0.03
    assert not np.array_equal(drawn, NoiseKey(bytes(32)).gaussian("noise/1", 40_001))
    # Mean, variance and kurtosis of the standard normal distribution, within six standard errors.
    assert abs(drawn.mean()) < 0.03
    assert abs(drawn.var() - 1) < 0.05
    assert abs((drawn**4).mean() - 3) < 0.3


def test_every_patient_takes_part_independently_with_the_planned_probability() -> None:
    taken = np.zeros((400, 40), bool)
    for step in range(400):
        taken[step, sampled_patients(plan(), KEY, step)] = True
    assert abs(taken.mean() - 0.25) < 0.02
    assert taken.mean(0).min() > 0.15
    # The size of a batch is random, as the bound assumes: its variance is that of a binomial distribution.
    assert taken.sum(1).var() == pytest.approx(40 * 0.25 * 0.75, rel=0.3)


def test_layers_that_mix_patients_are_refused() -> None:
    with pytest.raises(UsageError, match="batch normalization"):
        check_network(nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4)).eval())


def test_layers_that_mix_no_patients_are_accepted_and_left_as_they_are() -> None:
    model = network().eval()
    check_network(model)
    assert not model.training


def test_the_key_of_a_training_is_private_random_and_kept(tmp_path: Path) -> None:
    first = kept_key(tmp_path)
    assert kept_key(tmp_path) == first
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600
    (tmp_path / "other").mkdir()
    assert kept_key(tmp_path / "other") != first
    assert first.secret.hex() not in repr(first)


def test_a_damaged_key_is_refused(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"short")
    with pytest.raises(IntegrityError, match="key of the private training"):
        kept_key(tmp_path)
