"""A training step of `best` by horizon: 168 steps ahead against 3.

Beside the time: the floating-point operations of its products, and the bytes that all operations
read and write, each operand once. No faster code for the same network has fewer products.
"""

from collections.abc import Callable

from benchmarks.measure import at_most, medians, read_options, report

OPTIONS = read_options(__doc__)

import numpy as np  # noqa: E402 (after the number of threads is set)
import torch  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch.utils._pytree import tree_leaves  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

from forecaster.estimators.match import with_meaning  # noqa: E402
from forecaster.estimators.networks.estimator import best_device  # noqa: E402
from forecaster.estimators.networks.forecaster import Forecaster  # noqa: E402
from forecaster.estimators.training_data import hide_test  # noqa: E402
from forecaster.recipe import Recipe  # noqa: E402
from forecaster.splits import Splits, cut_windows  # noqa: E402
from forecaster.synthetic.city import make_city  # noqa: E402
from forecaster.training.distributed import ProcessGroup  # noqa: E402
from forecaster.training.loop import Trainer  # noqa: E402

LOCATIONS, HOURS = 57, 24 * 120
HORIZONS = (3, 24, 168)
GOAL = 3.0
# Operations that move nothing: other views of the same numbers, and sizes.
_VIEWS = ("view", "_unsafe_view", "transpose", "permute", "expand", "slice", "select", "unbind",
          "t", "split", "narrow", "detach", "alias", "unsqueeze", "squeeze", "as_strided",
          "reshape", "new_empty", "empty", "empty_like")  # fmt: skip


def main() -> None:
    """Print milliseconds of a training step, and the ratio of the longest horizon to the shortest.

    A step is all of it: gathering a batch of 64 windows, forward, backward, optimiser.
    """
    torch.set_num_threads(2)
    jobs = {f"{horizon} steps ahead": _step(horizon) for horizon in HORIZONS}
    seconds = medians(jobs, 5 if OPTIONS.quick else 25)
    notes = [f"{LOCATIONS} locations, batch of 64 windows, {best_device()}, 2 threads"]
    notes += [f"{name}: {1e3 * taken:.1f} ms" for name, taken in seconds.items()]
    notes += [f"{name}: {_count(job)}" for name, job in jobs.items()]
    shortest, *_, longest = seconds.values()
    ratio = longest / shortest
    goal = at_most("training step of 168 steps ahead", ratio, "one of 3 steps ahead", GOAL)
    report(OPTIONS, notes, [goal])


def _count(job: Callable[[], object]) -> str:
    """Count what a training step computes and moves."""
    with FlopCounterMode(display=False) as products:
        job()
    with _Traffic() as traffic:
        job()
    flops, moved = products.get_total_flops() / 1e9, traffic.moved / 1e9
    return f"{flops:.2f} GFLOP in products, {moved:.2f} GB moved, {traffic.operations} operations"


class _Traffic(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts operations, and the bytes of their tensors."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.moved = self.operations = 0

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        result = operation(*args, **(kwargs or {}))
        if operation.name().split("::")[1].split(".")[0] not in _VIEWS:
            leaves = {id(x): x for x in tree_leaves((args, kwargs, result))}
            tensors = [x for x in leaves.values() if isinstance(x, torch.Tensor)]
            self.moved += sum(x.numel() * x.element_size() for x in tensors)
            self.operations += 1
        return result


def _step(horizon: int) -> Callable[[], object]:
    """Return a function that takes one training step of a network with such a horizon."""
    panel = make_city(locations=LOCATIONS, hours=HOURS).panel
    splits = Splits.by_share(panel, validation=0.2, test=0.2)
    recipe = Recipe.of({"preset": "best", "lags": {"horizon": horizon}})
    model = Forecaster(recipe=with_meaning(recipe, panel))
    windows = cut_windows(panel, splits, model.recipe.lags)
    data = hide_test(panel, splits, windows)
    _, task = model.make_task(data, model.prerequisites(data))
    trainer = Trainer(task, ProcessGroup(task.device), print)
    trainer.begin(None, 0)
    origins = np.resize(task.train, task.config.batch)
    return lambda: trainer.train_step(origins, 0).tolist()  # waits for a GPU


if __name__ == "__main__":
    main()
