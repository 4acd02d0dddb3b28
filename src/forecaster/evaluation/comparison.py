"""Models compared on the same test windows: scores over seeds, differences, recommendation."""

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Int64

from forecaster.choices import Weather
from forecaster.errors import ConfigError, DataError
from forecaster.estimators.base import Estimator
from forecaster.estimators.match import with_lags
from forecaster.evaluation.backtest import (
    CALIBRATION_MODES,
    BacktestResult,
    CalibrationMode,
    backtest,
)
from forecaster.evaluation.bias import SizeBias, bias_by_hour, bias_by_size
from forecaster.evaluation.bootstrap import ErrorDifference, compare_errors
from forecaster.evaluation.freshness import (
    Freshness,
    describe_freshness,
    measure_freshness,
    refit_name,
)
from forecaster.evaluation.refits import backtest_refitted, read_interval
from forecaster.evaluation.step_groups import ALL_STEPS, StepGroup, group_steps
from forecaster.evaluation.tables import (
    MEAN,
    RELATIVE,
    csv_text,
    describe_ensembles,
    describe_fallbacks,
    describe_outputs,
    markdown_text,
)
from forecaster.evaluation.verdict import (
    ModelScore,
    describe_coverage,
    describe_randomised,
    describe_ranking,
    recommend,
    strongest_simple,
)
from forecaster.panel.panel import Panel
from forecaster.recipe import Recipe, change
from forecaster.splits import Splits, cut_windows

METRICS = ("rmse", "mape", "mae", "wape", "bias", "mean_error")
INTERVAL_METRICS = ("coverage", "randomised", "width", "pinball")
REFERENCES = ("Forecaster", "Ensemble")  # what others are compared with: the first that is tested


@dataclass(frozen=True)
class SeedMean:
    """The mean of a metric over seeds; None where no target counts."""

    mean: float | None
    deviation: float | None = None  # of the sample; None for one seed

    @staticmethod
    def of(values: Sequence[float | None]) -> "SeedMean":
        """Return mean and sample deviation of the values that exist."""
        numbers = [value for value in values if value is not None]
        if not numbers:
            return SeedMean(None)
        return SeedMean(
            statistics.fmean(numbers), statistics.stdev(numbers) if numbers[1:] else None
        )


@dataclass(frozen=True, eq=False)
class ModelResult:
    """A model of the comparison and the backtest of each of its seeds."""

    name: str
    estimator: str
    results: Mapping[int, BacktestResult]  # by seed
    failures: Mapping[str, str] = field(default_factory=dict)  # seed 2, width 4096 → reason
    chosen: Mapping[str, str] = field(default_factory=dict)  # on validation: width → 256
    of: str | None = None  # the model that this one is an ablation of
    runs: Mapping[int, str] = field(default_factory=dict)  # folders, by seed
    is_own: bool = False  # the model alone, without the simple ones that are served
    refit_days: int | None = None  # between refits on the way; None: stays as it was fitted

    @property
    def own(self) -> "ModelResult | None":
        """The model without the simple ones that are served at some locations; None: same."""
        if all(result.own is None for result in self.results.values()):
            return None
        return ModelResult(
            name=f"{self.name}, without fallback",
            estimator=self.estimator,
            results={seed: _own_result(result) for seed, result in self.results.items()},
            of=self.of,
            is_own=True,
        )

    @property
    def fallback(self) -> dict[str, dict[str, Any]]:
        """At how many locations simple models are served, by seed; empty: never compared."""
        return {
            str(seed): {
                "locations": sum(result.fallback.values()),
                "of": result.by_location.squares.shape[1],
                "models": dict(result.fallback),
            }
            for seed, result in self.results.items()
            if result.fallback is not None
        }

    @property
    def members(self) -> Mapping[str, Any] | None:
        """The members of the first seed's ensemble, with weights and what each adds; or None."""
        return next((result.members for result in self.results.values()), None)

    @property
    def first(self) -> BacktestResult:
        """The backtest of the first seed."""
        return next(iter(self.results.values()))

    def seed_means(self, metric: str, weather: Weather) -> list[SeedMean]:
        """Return a metric over the seeds: of all steps ahead, then of each."""
        reports = [result.errors[weather].report() for result in self.results.values()]
        columns = zip(*((report.average, *report.steps) for report in reports), strict=True)
        return [SeedMean.of([getattr(s, metric).value for s in column]) for column in columns]

    def interval_seed_means(self, metric: str, mode: CalibrationMode) -> list[SeedMean]:
        """Return an interval metric: of all steps ahead, then of each; empty without quantiles."""
        intervals = [result.interval_results for result in self.results.values()]
        reports = [scores.by_window[mode].report() for scores in intervals if scores is not None]
        columns = zip(*reports, strict=True)
        return [SeedMean.of([getattr(s, metric).value for s in column]) for column in columns]

    def group_means(
        self, metric: str, weather: Weather, groups: Sequence[StepGroup]
    ) -> list[SeedMean]:
        """Return a metric over the seeds, of each group of steps ahead."""
        sums = [result.errors[weather] for result in self.results.values()]
        scores = [[s.steps(group.first, group.last).scores() for s in sums] for group in groups]
        return [SeedMean.of([getattr(s, metric).value for s in seeds]) for seeds in scores]

    def interval_group_means(
        self, metric: str, mode: CalibrationMode, groups: Sequence[StepGroup]
    ) -> list[SeedMean]:
        """Return an interval metric of each group of steps ahead; of models with quantiles."""
        intervals = [result.interval_results for result in self.results.values()]
        sums = [scores.by_window[mode] for scores in intervals if scores is not None]
        scores = [[s.steps(group.first, group.last).scores() for s in sums] for group in groups]
        return [SeedMean.of([getattr(s, metric).value for s in seeds]) for seeds in scores]

    def day_total_means(self) -> dict[str, list[SeedMean]]:
        """Return the scores of totals over days: of all days ahead, then of each day.

        Empty: the horizon is shorter than a day, or tested by an earlier version.
        """
        scored = [result.day_totals for result in self.results.values()]
        totals = [each for each in scored if each is not None]
        if not totals:
            return {}
        errors = [each.errors.report() for each in totals]
        intervals = [each.intervals.report() for each in totals]
        columns = {
            name: [[getattr(s, name) for s in (e.average, *e.steps)] for e in errors]
            for name in ("rmse", "mape")
        } | {
            name: [[getattr(s, name) for s in scores] for scores in intervals]
            for name in ("coverage", "width")
        }
        return {
            name: [SeedMean.of([m.value for m in seeds]) for seeds in zip(*rows, strict=True)]
            for name, rows in columns.items()
        }

    def judged_coverage(self, mode: CalibrationMode) -> list[SeedMean]:
        """Return the coverage to compare with the nominal one: of counts the randomised one."""
        randomised = self.interval_seed_means("randomised", mode)
        if any(score.mean is not None for score in randomised):
            return randomised
        return self.interval_seed_means("coverage", mode)

    @property
    def mape_of(self) -> str:
        """The column of a forecast that MAPE is of: `y_relative` if the model has it."""
        return RELATIVE if all(r.has_relative for r in self.results.values()) else MEAN

    def size_bias(self) -> list[SizeBias]:
        """Return the bias by fifth of location size, the mean over seeds; empty if not known."""
        sizes = self.first.location_sizes
        if sizes is None:
            return []
        seeds = [bias_by_size(result.by_location, sizes) for result in self.results.values()]
        return [
            replace(groups[0], bias=SeedMean.of([group.bias for group in groups]).mean)
            for groups in zip(*seeds, strict=True)
        ]

    def hour_bias(self) -> list[float | None]:
        """Return the bias by hour of the local day, the mean over seeds; empty if not known."""
        hours = self.first.hours
        if hours is None:
            return []
        results = self.results.values()
        seeds = [bias_by_hour(result.errors[result.weather], hours) for result in results]
        return [SeedMean.of(hour).mean for hour in zip(*seeds, strict=True)]

    def costs(self) -> dict[str, float | int | None]:
        """Return the parameters, the seconds of training and the milliseconds of a forecast."""
        results = self.results.values()
        return {
            "parameters": self.first.parameters,
            "seconds": SeedMean.of([result.seconds for result in results]).mean,
            "milliseconds": statistics.median(result.milliseconds for result in results),
        }


@dataclass(frozen=True, eq=False)
class Comparison:
    """The result of `evaluate`: models that were tested on the same windows.

    `to_markdown` shows it to people; `verdict` says in sentences which model to use.
    """

    rows: Sequence[ModelResult]  # one per model, with its backtests by seed
    mape_cut: float  # smallest target that counts for MAPE
    about: Mapping[str, Any]  # the panel and the recipe

    def __post_init__(self) -> None:
        origins = [r.origins.tolist() for row in self.rows for r in row.results.values()]
        if any(windows != origins[0] for windows in origins[1:]):
            raise DataError("models were tested on different windows; they cannot be compared")
        if len(self._all_levels) > 1:
            raise DataError("models forecast different quantiles; they cannot be compared")

    @property
    def tested(self) -> list[ModelResult]:
        """The models with at least one backtest."""
        return [row for row in self.rows if row.results]

    @property
    def unchanged(self) -> list[ModelResult]:
        """The tested models that stay as they were fitted, without those refitted on the way."""
        return [row for row in self.tested if row.refit_days is None]

    @cached_property
    def freshness(self) -> list[Freshness]:
        """What the refits of each refitted model are worth and cost."""
        models = {row.name: row for row in self.unchanged}
        pairs = [(models[r.of], r) for r in self.tested if r.refit_days and r.of in models]
        return [
            measure_freshness(
                model.name,
                [result for seed, result in model.results.items() if seed in refitted.results],
                list(refitted.results.values()),
            )
            for model, refitted in pairs
        ]

    @property
    def horizon(self) -> int:
        """The number of steps ahead; 0 without a tested model."""
        return self.tested[0].first.by_location.squares.shape[0] if self.tested else 0

    @property
    def step_groups(self) -> list[StepGroup]:
        """The groups of steps ahead that tables show; of a few steps each by itself."""
        return group_steps(self.horizon, self.about.get("step_minutes"))

    @property
    def shown(self) -> list[ModelResult]:
        """The rows of the tables: each model, and beside it the model without its fallback."""
        pairs = ((row, row.own) for row in self.rows)
        return [row for pair in pairs for row in pair if row is not None]

    @property
    def weathers(self) -> list[Weather]:
        """The covariates assumed after the origin; the first is the one of the tables."""
        return list(self.tested[0].first.errors) if self.tested else []

    @property
    def levels(self) -> tuple[float, ...]:
        """The quantile levels that were forecast."""
        return next(iter(self._all_levels), ())

    @property
    def _all_levels(self) -> set[tuple[float, ...]]:
        intervals = [r.interval_results for row in self.rows for r in row.results.values()]
        return {scores.levels for scores in intervals if scores is not None}

    @cached_property
    def reference(self) -> ModelResult | None:
        """The model that others are compared with.

        Forecaster, an Ensemble, or the model with the lowest RMSE.
        """
        rows = self.unchanged
        named = [row for name in REFERENCES for row in rows if row.name == name]
        return next(iter(named or sorted(rows, key=lambda r: self._mean(r, "rmse"))), None)

    @cached_property
    def differences(self) -> dict[str, ErrorDifference]:
        """The errors of each other model relative to the reference's."""
        reference = self.reference
        if reference is None:
            return {}
        rows = [row for row in self.unchanged if row is not reference]
        return {row.name: self.compare(row, reference) for row in rows}

    @cached_property
    def verdict(self) -> list[str]:
        """Sentences that say which model to use, and what refits are worth."""
        rows = {row.name: row for row in self.tested}
        lines = describe_ranking(self._scores, lambda a, b: self.compare(rows[a], rows[b]))
        return [*lines, *map(describe_freshness, self.freshness)]

    @property
    def interval_verdict(self) -> str | None:
        """A sentence about the coverage of the recommended model's intervals."""
        row = self.recommended
        if row is None or row.first.interval_results is None:
            return None
        static, online = (
            row.interval_seed_means("coverage", mode)[0].mean for mode in CALIBRATION_MODES
        )
        if static is None or online is None:
            return None
        nominal = row.first.interval_results.nominal_coverage
        sentence = describe_coverage(row.name, nominal, static, online)
        static, online = (
            row.interval_seed_means("randomised", mode)[0].mean for mode in CALIBRATION_MODES
        )
        if static is None or online is None:  # not counts
            return sentence
        return f"{sentence} {describe_randomised(static, online)}"

    @property
    def recommended(self) -> ModelResult | None:
        """The model to use: the simplest one close to the best."""
        name = recommend(self._scores)
        return next((row for row in self.tested if row.name == name), None)

    @property
    def scored_outputs(self) -> str:
        """A sentence on which of a model's numbers each metric is of."""
        rows = [{"model": row.name, "mape_of": row.mape_of} for row in self.tested]
        return describe_outputs(rows).replace("`", "")

    @property
    def fallbacks(self) -> list[str]:
        """A text on how many locations serve a simple model; empty: none was compared."""
        return describe_fallbacks({"model": r.name, "fallback": r.fallback} for r in self.tested)

    @property
    def ensembles(self) -> list[str]:
        """A text on what each member adds to an ensemble; empty: none was tested."""
        return describe_ensembles({"model": r.name, "members": r.members} for r in self.tested)

    @property
    def strongest_simple(self) -> ModelResult | None:
        """The simple model with the lowest RMSE, besides the recommended one."""
        name = strongest_simple(self._scores, besides=recommend(self._scores))
        return next((row for row in self.tested if row.name == name), None)

    @cached_property
    def _scores(self) -> list[ModelScore]:
        return [
            ModelScore(r.name, r.estimator, self._mean(r, "rmse"), self._mean(r, "mape"), r.of)
            for r in self.unchanged
        ]

    def compare(self, row: ModelResult, reference: ModelResult) -> ErrorDifference:
        """Return the errors of a model relative to those of a reference."""
        weather = self.weathers[0]
        errors, reference_errors = (
            [result.errors[weather] for result in r.results.values()] for r in (row, reference)
        )
        return compare_errors(errors, reference_errors, row.first.days)

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as JSON-compatible data."""
        first = self.tested[0].first if self.tested else None
        return {
            **self.about,
            "windows": len(first.origins) if first else 0,
            "days": len(set(first.days.tolist())) if first else 0,
            "mape_cut": self.mape_cut,
            "quantiles": list(self.levels),
            "verdict": self.verdict,
            "sureness": self.interval_verdict,
            "rows": [self._row_dict(row) for row in self.shown],
            "against": self.reference.name if self.reference else None,
            "differences": {name: asdict(diff) for name, diff in self.differences.items()},
            **({"step_groups": [asdict(g) for g in self.step_groups]} if self._is_long else {}),
            **({"freshness": [_fresh_dict(f) for f in self.freshness]} if self.freshness else {}),
        }

    def to_json(self) -> str:
        """Return the comparison as JSON."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n"

    def to_csv(self) -> str:
        """Return a CSV table with one line per model and weather."""
        return csv_text(self.to_dict())

    def to_markdown(self) -> str:
        """Return the verdict and the tables as Markdown."""
        return markdown_text(self.to_dict())

    def _row_dict(self, row: ModelResult) -> dict[str, Any]:
        description = {
            "model": row.name,
            "estimator": row.estimator,
            "ablation_of": row.of,
            "chosen": dict(row.chosen),
            "failures": dict(row.failures),
            "seeds": list(row.results),
            "runs": {str(seed): folder for seed, folder in row.runs.items()},
            "without_fallback": row.is_own,
            "fallback": row.fallback,
            **({} if row.members is None or row.is_own else {"members": row.members}),
            **({} if row.refit_days is None else {"refit_days": row.refit_days}),
        }
        if not row.results:
            return description
        errors = {
            weather: {m: [asdict(s) for s in row.seed_means(m, weather)] for m in METRICS}
            for weather in self.weathers
        }
        intervals = {
            mode: {
                m: [asdict(s) for s in row.interval_seed_means(m, mode)] for m in INTERVAL_METRICS
            }
            for mode in CALIBRATION_MODES
            if row.first.interval_results is not None
        }
        scores = row.first.errors[self.weathers[0]].scores()
        return {
            **description,
            "terms": scores.rmse.terms,
            "mape_terms": scores.mape.terms,
            "mape_of": row.mape_of,
            **row.costs(),
            "weather": errors,
            "bias_by_size": [asdict(group) for group in row.size_bias()],
            "bias_by_hour": row.hour_bias(),
            "intervals": intervals,
            **({"by_group": self._group_dict(row)} if self._is_long else {}),
            **self._total_dict(row),
        }

    @property
    def _is_long(self) -> bool:
        return self.horizon > ALL_STEPS

    def _group_dict(self, row: ModelResult) -> dict[str, Any]:
        """The figures of each group of steps ahead, as those of all steps are given."""
        groups = self.step_groups
        errors = {
            weather: {m: [asdict(s) for s in row.group_means(m, weather, groups)] for m in METRICS}
            for weather in self.weathers
        }
        intervals = {
            mode: {
                m: [asdict(s) for s in row.interval_group_means(m, mode, groups)]
                for m in INTERVAL_METRICS
            }
            for mode in CALIBRATION_MODES
            if row.first.interval_results is not None
        }
        return {"weather": errors, "intervals": intervals}

    @staticmethod
    def _total_dict(row: ModelResult) -> dict[str, Any]:
        """The scores of totals over days, if the horizon is a day or longer."""
        means = row.day_total_means()
        if not means:
            return {}
        return {"day_totals": {name: [asdict(s) for s in m] for name, m in means.items()}}

    def _mean(self, row: ModelResult, metric: str) -> float:
        mean = row.seed_means(metric, self.weathers[0])[0].mean
        return math.inf if mean is None else mean


def evaluate(
    models: Sequence[Estimator],
    panel: Panel,
    splits: Splits,
    *,
    weather: Sequence[Weather] = ("observed",),
    refit: str | None = None,
) -> Comparison:
    """Compare estimators on the test windows that all of them can forecast.

    Args:
        models: fitted ones are tested as they are, others are fitted first. Models that differ
            only in `training.seed` share a row: mean ± deviation over their seeds.
        panel: the observed data.
        splits: the training, validation and test ranges; only test steps are scored.
        weather: the covariates to assume after the origin; the verdict is about the first.
        refit: such as `7d`: every model is also tested as a service would use it, fitted anew
            after so many days to all that was known by then, from the run before. The given models
            stay as they are.
    """
    days = None if refit is None else read_interval(refit)
    mape_cut = _shared_cut(models)
    origins = common_test_windows(panel, splits, [model.recipe for model in models])
    rows: dict[tuple[str, str], dict[int, BacktestResult]] = {}
    refitted: dict[tuple[str, str], dict[int, BacktestResult]] = {}
    weathers = usable_weathers(panel, weather)
    kinds: dict[str, str] = {}
    for model in models:
        if days is not None and not model.saves:
            raise ConfigError(
                f"{model.label} cannot be refitted on the way; leave it out, or refit"
            )
        if model.run is None:
            model.fit(panel, splits)
        seed = model.recipe.training.seed if model.seeded else 0
        key = model.label, _row_key(model)
        row = rows.setdefault(key, {})
        if seed in row:
            raise ConfigError(f"{model.label} with seed {seed} is given twice")
        kinds[model.label] = type(model).__name__
        row[seed] = backtest(model, panel, origins, weathers)
        if days is not None:
            tested = backtest_refitted(model, panel, origins, weathers, days)
            refitted.setdefault(key, {})[seed] = tested
    names = _number_duplicates([name for name, _ in rows])
    results = []
    for name, (key, by_seed) in zip(names, rows.items(), strict=True):
        row_of_model = ModelResult(name, kinds[key[0]], by_seed)
        results += [row_of_model, *refit_rows(row_of_model, refitted.get(key, {}), {}, days)]
    return Comparison(results, mape_cut, describe_panel(panel))


def refit_rows(
    row: ModelResult,
    results: Mapping[int, BacktestResult],
    failures: Mapping[str, str],
    days: int | None,
) -> list[ModelResult]:
    """The row of a model that is refitted on the way, beside its own; none without refits.

    Args:
        row: of the model as it was fitted.
        results: of the refitted model, by seed.
        failures: of seeds that could not be refitted.
        days: between two refits; None: it is not refitted.
    """
    if days is None:
        return []
    refitted = replace(row, name=refit_name(row.name, days), of=row.name, refit_days=days)
    return [replace(refitted, results=results, failures=failures)]


def _fresh_dict(fresh: Freshness) -> dict[str, Any]:
    return {**asdict(fresh), "share": fresh.share}


def _shared_cut(models: Sequence[Estimator]) -> float:
    """The smallest target that counts for MAPE; models that cannot be compared are refused."""
    if not models:
        raise ConfigError("no model to evaluate; give some, as in evaluate([SeasonalNaive()], …)")
    cuts = {model.recipe.metrics.mape_cut for model in models}
    if len(cuts) > 1:
        raise ConfigError(f"models differ in metrics.mape_cut ({sorted(cuts)}); give all the same")
    levels = {_quantile_levels(model) for model in models} - {()}
    if len(levels) > 1:
        message = f"models differ in intervals.quantiles ({sorted(levels)})"
        raise ConfigError(f"{message}; give all the same")
    return cuts.pop()


def _own_result(result: BacktestResult) -> BacktestResult:
    """The backtest of a model without the simple ones that are served at some locations."""
    alone = replace(result, fallback=None, own=None, interval_results=None, day_totals=None)
    if result.own is None:
        return alone
    return replace(alone, errors=result.own.errors, by_location=result.own.by_location)


def describe_panel(panel: Panel) -> dict[str, Any]:
    """The panel's hash, number of locations, names of covariates and length of a step."""
    names = [*panel.covariates.names, *panel.local_covariates.names]
    about = {
        "panel": panel.digest,
        "locations": len(panel.locations),
        "covariates": names,
        "step_minutes": panel.clock.step_minutes,
    }
    return {**about, "past_only": list(panel.past_only)} if panel.past_only else about


def common_test_windows(
    panel: Panel, splits: Splits, recipes: Sequence[Recipe]
) -> Int64[np.ndarray, " B"]:
    """Return the origins of the test windows that the lags of all recipes have in common."""
    horizons = {recipe.lags.horizon for recipe in recipes}
    if len(horizons) > 1:
        raise ConfigError(f"models forecast {sorted(horizons)} steps ahead; give all the same")
    chosen = [with_lags(recipe, panel).lags for recipe in recipes]
    distinct = {lags.model_dump_json(): lags for lags in chosen}
    windows = [set(cut_windows(panel, splits, lags).test.tolist()) for lags in distinct.values()]
    common = sorted(set.intersection(*windows))
    if not common:
        raise DataError("models have no test window in common; test on a longer span")
    return np.array(common, dtype=np.int64)


def usable_weathers(panel: Panel, weather: Sequence[Weather]) -> list[Weather]:
    """Return the weather assumptions that can differ: a panel without covariates has only one."""
    distinct = list(dict.fromkeys(weather))
    if not distinct:
        raise ConfigError("weather: none given; observed, persist, climatology or none is needed")
    return distinct if panel.known_ahead else distinct[:1]


def _quantile_levels(model: Estimator) -> tuple[float, ...]:
    """The quantile levels of a model; none if its run was saved without quantiles."""
    return model.quantile_levels if model.run is not None else model.recipe.intervals.quantiles


def _row_key(model: Estimator) -> str:
    """The hash that models of one row share: of the recipe without its seed, and of the graph."""
    recipe = change(model.recipe, {"training": {"seed": 0}}, source="the recipe")
    graph = model.run.parents.get("graph", "") if model.run is not None else ""
    return recipe.digest() + graph + model.variant


def _number_duplicates(names: list[str]) -> list[str]:
    """Make names distinct: the second Forecaster is `Forecaster 2`."""
    numbered = []
    for index, name in enumerate(names):
        count = names[: index + 1].count(name)
        numbered.append(name if count == 1 else f"{name} {count}")
    return numbered
