"""Models of a benchmark on real data: trained by name and seed, their scores kept as JSON.

Every model and seed has a file of its own, so that several processes, or machines, can train at
the same time; a table is printed from the files that are there.
"""

import argparse
import json
import logging
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from forecaster.estimators.base import Estimator
from forecaster.estimators.registry import find_estimator
from forecaster.evaluation.model_specs import MODELS, list_models
from forecaster.panel.panel import Panel
from forecaster.recipe import Recipe, change
from forecaster.splits import Splits

CHEAP = ("LastValue", "SeasonalNaive", "HistoricalMean", "Ridge", "VAR", "Boosting")
NETWORKS = ("DCRNN", "Transformer-level", "Forecaster-paper", "quick", "best")
Scores = Mapping[str, Any]


@dataclass(frozen=True)
class Options:
    """The options that all these benchmarks have."""

    data: Path
    out: Path
    models: tuple[str, ...]
    seeds: range
    epochs: int | None  # None: those of the recipe
    width: int  # of the dense Transformer

    @staticmethod
    def parser(description: str | None, models: Sequence[str]) -> argparse.ArgumentParser:
        """The parser of these options, to which a benchmark adds its own."""
        parser = argparse.ArgumentParser(description=description)
        parser.add_argument("data", type=Path, help="the folder of data sets")
        parser.add_argument("out", type=Path, help="for the scores of each model and seed")
        parser.add_argument("--models", default=",".join(models))
        parser.add_argument(
            "--seeds", type=int, default=1, help="of each model with random weights"
        )
        parser.add_argument("--first-seed", type=int, default=0)
        parser.add_argument("--epochs", type=int)
        parser.add_argument("--width", type=int, default=256, help="of Transformer-level")
        parser.add_argument("--table", action="store_true", help="print the table, train nothing")
        return parser

    @staticmethod
    def of(arguments: argparse.Namespace) -> "Options":
        """The parsed options."""
        return Options(
            data=arguments.data,
            out=arguments.out,
            models=() if arguments.table else tuple(filter(None, arguments.models.split(","))),
            seeds=range(arguments.first_seed, arguments.first_seed + arguments.seeds),
            epochs=arguments.epochs,
            width=arguments.width,
        )

    def fit(self, name: str, seed: int, recipe: Recipe, panel: Panel, splits: Splits) -> Estimator:
        """Train a model by its name in comparisons."""
        training = {"seed": seed} | ({} if self.epochs is None else {"epochs": self.epochs})
        values: dict[str, object] = {"training": training}
        if name.startswith("Transformer"):
            values["model"] = {"width": self.width}
        spec = list_models(change(recipe, values, source=name), [name])[0]
        return find_estimator(spec.estimator)(recipe=spec.recipe).fit(panel, splits)

    def run(self, measure: Callable[[str, int], Scores], *, is_network: bool = False) -> None:
        """Measure every model and seed that has no file yet.

        Args:
            measure: trains and scores a model.
            is_network: whether all rows have random weights, whatever their names.
        """
        logging.basicConfig(level=logging.WARNING)
        self.out.mkdir(parents=True, exist_ok=True)
        for name in self.models:
            for seed in self.seeds if is_network or _is_seeded(name) else (0,):
                path = self.out / f"{name}-{seed}.json"
                if path.exists():
                    continue
                began = time.monotonic()
                scores = dict(measure(name, seed))
                scores["seconds"] = round(time.monotonic() - began, 1)
                path.write_text(json.dumps(scores), encoding="utf-8")
                print(f"{path.name}: {scores['seconds']:.0f} s", flush=True)

    def results(self) -> dict[str, list[Scores]]:
        """The scores that are there, by model: one for each seed."""
        results: dict[str, list[Scores]] = {}
        for path in sorted(self.out.glob("*-*.json")):
            name = path.stem.rpartition("-")[0]
            results.setdefault(name, []).append(json.loads(path.read_text(encoding="utf-8")))
        rank = {name: number for number, name in enumerate((*CHEAP, *NETWORKS))}
        return dict(sorted(results.items(), key=lambda item: rank.get(item[0], -1)))


def _is_seeded(name: str) -> bool:
    return name in MODELS and list_models(Recipe(), [name])[0].seeded  # or a row of its own


def show(values: Sequence[float], digits: int = 2) -> str:
    """The mean of several seeds, with their deviation."""
    mean = f"{statistics.fmean(values):.{digits}f}"
    return mean if len(values) == 1 else f"{mean} ± {statistics.stdev(values):.{digits}f}"


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table in Markdown."""
    print("| " + " | ".join(header) + " |")
    print("|" + " --- |" + " --: |" * (len(header) - 1))
    for row in rows:
        print("| " + " | ".join(row) + " |")


def least_squares(inputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """The weights of a linear regression, the constant first: [1 + L, K].

    Args:
        inputs: [rows, L].
        targets: [rows, K].
    """
    table = np.column_stack([np.ones(len(inputs)), inputs]).astype(np.float64)
    return np.asarray(np.linalg.lstsq(table, targets.astype(np.float64), rcond=None)[0])
