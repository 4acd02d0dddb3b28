"""One step of learning: the gradient of the loss over a batch, clipped, and AdamW."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor
from torch.optim.adamw import adamw  # the class would load torch's compiler: seconds

from forecaster.errors import ArtifactError
from forecaster.training.determinism import seed_dropout
from forecaster.training.distributed import Team
from forecaster.training.loss import count_terms, join_terms, sum_errors, sum_pinball
from forecaster.training.memory import Rations
from forecaster.training.recording import Recorder
from forecaster.training.schedule import one_cycle
from forecaster.training.task import Task
from forecaster.training.weights import Weights
from forecaster.windows.batches import Batch

BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-8  # of AdamW, as torch has them
WARM_UP = 10  # steps: an average of few steps may not look back further than there were


class Learner:
    """The weights of a network, and how they move.

    A step whose loss or gradient is not finite moves nothing, and neither do those after it: the
    weights wait, as they were before it, for somebody to look. A GPU need not be waited for.
    """

    def __init__(self, task: Task, team: Team, say: Callable[[str], None]) -> None:
        self._task, self._team, self._rations = task, team, Rations(task, say)
        alone_on_a_gpu = task.device.type == "cuda" and team.size == 1
        self._recorder = Recorder(say) if alone_on_a_gpu else None
        self.weights = Weights(task.network, task.config.precision)
        vector = self.weights.vector
        names = ("first_moment", "second_moment", "best", "average")
        self.vectors = {"weights": vector, **{name: torch.zeros_like(vector) for name in names}}
        if not task.config.ema:
            del self.vectors["average"]
        parts = len(self.weights.parts(vector))
        *self._taken, self._failed = vector.new_zeros(parts + 1, dtype=torch.float32).unbind()
        task.network.train()

    def begin(self, arrays: Mapping[str, np.ndarray] | None, step: int) -> None:
        """Go on from the first process's arrays, or from its fresh weights at step 0."""
        if arrays is not None:
            lengths = {name: array.shape for name, array in arrays.items()}
            if lengths != {name: vector.shape for name, vector in self.vectors.items()}:
                raise ArtifactError("a checkpoint of another network; use another folder")
            for name, vector in self.vectors.items():
                vector.copy_(torch.from_numpy(arrays[name]))
        elif step == 0 and "average" in self.vectors:
            self.vectors["average"].copy_(self.vectors["weights"])
        for vector in self.vectors.values():
            self._team.spread(vector)
        for taken in self._taken:
            taken.fill_(step)
        self.weights.show()

    def rate(self, step: int) -> float:
        """Return the learning rate of a step, counted from 0."""
        return self._task.config.learning_rate * one_cycle(step, self._task.steps)

    def learn(self, origins: Int64[np.ndarray, " B"], step: int) -> Float64[Tensor, "6"]:
        """Take a step, counted from 0; return its loss, the gradient's norm, errors and counts.

        With quantiles there are two gradients; the larger norm is returned.
        """
        config = self._task.config
        errors, counts = self._differentiate(origins, step)
        gradient = self._team.add(self.weights.collect_gradient())
        self._team.add(errors)
        parts = self.weights.parts(gradient)
        norms = torch.stack([part.norm().double() for part in parts])
        loss, norm = join_terms(errors, counts, self._task.eta), norms.max()
        self._failed.logical_or_(~torch.isfinite(loss + norm))
        for part, own in zip(parts, norms, strict=True):
            part.mul_((config.clip / own).clamp(max=1.0))
        self._move(step)
        return torch.cat([torch.stack([loss, norm]), errors, counts])

    def validate(self, stop: Callable[[], bool]) -> Float64[Tensor, "4"] | None:
        """Return errors and counts over all validation windows, or None if told to stop."""
        origins, batch = self._task.validation, self._task.config.batch
        totals = torch.zeros(4, dtype=torch.float64, device=self._task.device)
        with self._ready_to_forecast():
            for start in range(0, len(origins), batch):
                if stop():
                    return None
                share = self._team.share(origins[start : start + batch])
                totals += self._rations.serve(partial(self._score, share))
        return self._team.add(totals)

    def keep_best(self) -> None:
        """Remember the weights that were validated."""
        self.vectors["best"].copy_(self._chosen())

    def finish(self) -> dict[str, np.ndarray]:
        """Give the network its best weights, and return them by name."""
        self._recorder = None  # it holds memory of the GPU
        self.weights.vector.copy_(self.vectors["best"])
        self._task.network.eval()
        return self.weights.release()

    def find_non_finite(self, origins: Int64[np.ndarray, " B"], step: int) -> str:
        """Return the first tensors that are not finite in a step that has moved nothing."""
        batch = self._task.batches.cut(self._team.share(origins))
        for name, values in vars(batch).items():
            if not values.isfinite().all():
                return f"the input {name}"
        if wrong := self.weights.name_non_finite(self.weights.vector):
            return f"the weights {wrong}"
        self._differentiate(origins, step)
        wrong = self.weights.name_non_finite(self.weights.collect_gradient())
        return f"the gradient of {wrong}" if wrong else "the loss (none of this process's tensors)"

    def _move(self, step: int) -> None:
        """Move the weights along the gradient, unless a step has failed; then their average."""
        config, parts = self._task.config, self.weights.parts
        adamw(
            parts(self.weights.vector),
            parts(self.weights.gradient),
            exp_avgs=parts(self.vectors["first_moment"]),
            exp_avg_sqs=parts(self.vectors["second_moment"]),
            max_exp_avg_sqs=[],
            state_steps=self._taken,
            fused=True,
            found_inf=self._failed,
            amsgrad=False,
            beta1=BETA_1,
            beta2=BETA_2,
            lr=self.rate(step),
            weight_decay=config.weight_decay,
            eps=EPSILON,
            maximize=False,
        )
        if config.ema:
            decay = min(config.ema, (1 + step) / (WARM_UP + step))
            for average, now in zip(
                parts(self.vectors["average"]), parts(self.weights.vector), strict=True
            ):
                average.lerp_(now, 1 - decay)
        self.weights.show()

    def _differentiate(
        self, origins: Int64[np.ndarray, " B"], step: int
    ) -> tuple[Float64[Tensor, "2"], Float64[Tensor, "2"]]:
        """Sum up the gradient of this process's share; return its errors, and all counts."""
        share = self._team.share(origins)
        places = self._task.batches.locate(share)
        if self._recorder is not None and len(share) <= self._rations.windows:
            shown, seed = self._task.shown(step), partial(self._seed, step)
            inputs = (places,) if shown is None else (places, shown)
            found = self._recorder.play("learn", self._sum_up_whole, inputs, seed)
            if found is not None:
                return found[:2], found[2:]
        whole = self._task.batches.gather(places)
        counts = self._team.add(self._count(whole))
        return self._rations.serve(partial(self._sum_up, share, whole, counts, step)), counts

    def _sum_up_whole(
        self, places: Int64[Tensor, "B T"], shown: Bool[Tensor, " S"] | None = None
    ) -> Float64[Tensor, "4"]:
        """Sum up gradient, errors and counts of a batch that no other process shares."""
        whole = self._task.batches.gather(places)
        counts = self._count(whole)
        self.weights.clear_gradient()
        errors = self._learn_from(whole, counts, shown)
        return torch.cat([errors, counts])

    def _sum_up(
        self,
        share: Int64[np.ndarray, " B"],
        whole: Batch,
        counts: Float64[Tensor, "2"],
        step: int,
        windows: int,
    ) -> Float64[Tensor, "2"]:
        """Sum up gradient and errors of a batch, some windows at a time."""
        self._seed(step)
        shown = self._task.shown(step)
        self.weights.clear_gradient()
        errors = torch.zeros_like(counts)
        for part in [whole] if len(share) <= windows else self._cut(share, windows):
            errors += self._learn_from(part, counts, shown)
        return errors

    def _learn_from(
        self, part: Batch, counts: Float64[Tensor, "2"], shown: Bool[Tensor, " S"] | None
    ) -> Float64[Tensor, "2"]:
        """Add the gradient of some windows; return their errors.

        Quantiles have a loss of their own, in scaled numbers, so that all locations count alike.
        """
        forecast, quantiles = self._task.teach_quantiles(part, shown)
        errors = self._errors(forecast, part)
        loss = join_terms(errors, counts, self._task.eta)
        if quantiles.shape[1]:
            levels = self._task.levels
            pinball = sum_pinball(quantiles, part.next_values, part.observed, levels)
            loss = loss + pinball / (counts[0].clamp(min=1.0) * len(levels))
        self.weights.differentiate(loss)
        return errors.detach()

    def _score(self, share: Int64[np.ndarray, " B"], windows: int) -> Float64[Tensor, "4"]:
        totals = torch.zeros(4, dtype=torch.float64, device=self._task.device)
        for start in range(0, len(share), windows):
            places = self._task.batches.locate(share[start : start + windows])
            found = None
            if self._recorder is not None and len(share) <= windows:
                found = self._recorder.play("score", self._score_part, (places,), _nothing)
            totals += self._score_part(places) if found is None else found
        return totals

    def _score_part(self, places: Int64[Tensor, "B T"]) -> Float64[Tensor, "4"]:
        part = self._task.batches.gather(places)
        errors = self._errors(self._task.roll_out(part), part)
        return torch.cat([errors, self._count(part)])

    def _seed(self, step: int) -> None:
        seed_dropout(self._task.device, self._task.config.seed, step, self._team.rank)

    def _count(self, batch: Batch) -> Float64[Tensor, "2"]:
        return count_terms(batch.target, batch.observed, self._task.mape_cut)

    def _errors(self, forecast: Float[Tensor, "N B K"], batch: Batch) -> Float64[Tensor, "2"]:
        return sum_errors(forecast, batch.target, batch.observed, self._task.mape_cut)

    def _cut(self, origins: Int64[np.ndarray, " B"], windows: int) -> Iterator[Batch]:
        for start in range(0, len(origins), windows):
            yield self._task.batches.cut(origins[start : start + windows])

    def _chosen(self) -> Float[Tensor, " W"]:
        return self.vectors.get("average", self.vectors["weights"])

    @contextmanager
    def _ready_to_forecast(self) -> Iterator[None]:
        """Let the network forecast with the weights that are chosen from, for a while."""
        vector, network = self.weights.vector, self._task.network
        moving = vector.clone()
        vector.copy_(self._chosen())
        self.weights.show()
        network.eval()
        try:
            with torch.no_grad():
                yield
        finally:
            network.train()
            vector.copy_(moving)
            self.weights.show()


def _nothing() -> None:
    """Prepare nothing: validation draws no numbers."""
