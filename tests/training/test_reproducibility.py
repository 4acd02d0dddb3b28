import os
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from forecaster.config import PACE
from forecaster.models.layers.randomness import draw_uniform
from forecaster.training.distributed import ProcessGroup
from forecaster.training.reproducibility import (
    CUBLAS,
    describe_machine,
    describe_task,
    differences,
    reproducible,
    seed_dropout,
)
from forecaster.training.task import TrainingTask
from forecaster.windows.scaling import Scale
from tests.training.town import CONFIG, make_task

CPU = torch.device("cpu")


def test_the_key_alone_decides_what_is_drawn_next() -> None:
    draws = []
    for key in ((1, 2, 3), (1, 2, 3), (1, 3, 2), (2, 1, 3)):
        torch.rand(7)
        seed_dropout(CPU, *key)
        draws.append(tuple(draw_uniform(5, device=CPU).tolist()))
    assert draws[0] == draws[1]
    assert len(set(draws)) == 3


def test_torch_is_left_as_it_was_found() -> None:
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    with reproducible(CPU):
        seed_dropout(CPU, 0)
        draw_uniform(11, device=CPU)
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.gpu
def test_T10_a_gpu_operation_that_cannot_repeat_its_bits_is_refused_by_name() -> None:
    device = torch.device("cuda:0")
    before = torch.get_deterministic_debug_mode(), os.environ.get(CUBLAS)
    with reproducible(device), pytest.raises(RuntimeError, match="does not have a deterministic"):
        torch.histc(torch.rand(3, device=device), bins=2)
    assert (torch.get_deterministic_debug_mode(), os.environ.get(CUBLAS)) == before


OTHERS = {
    "eta": 1e-3, "learning_rate": 1e-3, "batch": 7, "epochs": 5, "patience": 2, "clip": 2.0,
    "weight_decay": 0.5, "ema": 0.9, "precision": "bf16", "seed": 1, "relative": True,
    "locations": 2,
}  # fmt: skip


def changed(task: TrainingTask) -> list[str]:
    """Return what differs from the task as it comes."""
    return differences(describe_task(make_task(), {}), describe_task(task, {}))


def test_the_same_task_is_described_alike() -> None:
    assert changed(make_task()) == []


@pytest.mark.parametrize("name", sorted(PACE))
def test_a_training_may_go_on_at_another_pace(name: str) -> None:
    assert changed(make_task(**{name: 7})) == []


@pytest.mark.parametrize("name", sorted(type(CONFIG).model_fields.keys() - PACE))
def test_T7_every_field_of_the_training_is_named_with_both_values(name: str) -> None:
    was, new = getattr(CONFIG, name), OTHERS[name]
    was = "nothing" if was is None else was
    assert changed(make_task(**{name: new})) == [f"training.{name}: was {was}, is {new}"]


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("training windows", {"train": np.arange(61, 98)}),
        ("validation windows", {"validation": np.arange(211, 224)}),
        ("mape_cut", {"mape_cut": 11.0}),
        ("sampling_decay", {"sampling_decay": 3.0}),
        ("scale", {"scale": Scale(np.zeros(5, np.float32), np.ones(5, np.float32))}),
    ],
)
def test_T7_every_part_of_a_task_counts(name: str, change: dict[str, Any]) -> None:
    names = changed(replace(make_task(), **change))
    assert len(names) == 1
    assert names[0].startswith(f"{name}: was ")


def test_C4_a_network_of_other_numbers_or_shapes_is_another() -> None:
    assert "network: was " in changed(make_task(dtype=torch.float64))[0]


def test_C4_windows_of_other_steps_are_other_windows() -> None:
    task = make_task()
    task.network.K = 2
    assert changed(task) == ["steps of a window: was 5 past, 3 ahead, is 5 past, 2 ahead"]


def test_T11_hashes_are_shown_of_both_sides() -> None:
    old, new = ({"panel": letter * 64, "graph": "c" * 64} for letter in "ab")
    assert differences(old, new) == [f"panel: was {'a' * 64}, is {'b' * 64}"]
    assert differences({}, {"graph": "c"}) == ["graph: was nothing, is c"]


def test_T8_the_number_of_processes_is_of_the_machine_and_not_of_the_task() -> None:
    first, two = (describe_machine(ProcessGroup(torch.device("cpu"), 0, size)) for size in (1, 2))
    assert differences(first, two) == ["processes: was 1, is 2"]


def test_T7_other_quantiles_are_another_task() -> None:
    first, second = (describe_task(make_task(levels=q), {}) for q in ((0.1, 0.9), (0.2, 0.9)))
    assert differences(first, second) == ["quantiles: was (0.1, 0.9), is (0.2, 0.9)"]
