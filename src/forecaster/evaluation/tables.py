"""The tables of a comparison in Markdown and CSV, and the text of every figure in them."""

import csv
import io
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from forecaster.errors import count_of
from forecaster.estimators.ensemble.described import describe_members
from forecaster.evaluation.bias import name_sizes
from forecaster.evaluation.bootstrap import RelativeDifference

DIGITS = 4  # significant digits
MAX_WHOLE_DIGITS = 7  # larger numbers are written as 1.234e+09
MISSING = "–"
TITLES = {"rmse": "RMSE", "mape": "MAPE %", "mae": "MAE", "wape": "WAPE %", "bias": "bias %"}
PERCENT = ("mape", "wape", "bias", "coverage", "randomised")  # fractions, shown as per cent
MEAN, RELATIVE = "y_hat", "y_relative"  # the columns of a forecast that are scored
LARGE_BIAS = 10  # per cent; larger ones have one decimal
RANDOMISED_NOTE = (
    "Where counts are small, an interval contains whole counts and so a larger share; the "
    "randomised coverage spreads every count evenly over ± ½ and should be the same there. "
)

FRESHNESS_NOTE = (
    "A refitted model forecasts each day as a service would that is updated on the way: fitted to "
    "all that was known at the last refit, from the run before, by the same choice on validation "
    "as `forecaster update`. Changes are paired by date; + is a larger error. Times are medians."
)

Content = Mapping[str, Any]  # of `Comparison.to_dict`, or a part of it


def markdown_text(content: Content) -> str:
    """Return the verdict, the paper's table, costs, differences and failures."""
    tested = [row for row in content["rows"] if row["seeds"]]
    parts = [f"**{line}**" for line in content["verdict"]]
    if tested:
        weathers = list(tested[0]["weather"])
        parts += [
            describe_windows(content, weathers[0]),
            _error_table(content, weathers[0], "rmse"),
        ]
        parts += [_error_table(content, weathers[0], "mape"), describe_outputs(tested)]
        parts += [*describe_ensembles(tested), *describe_fallbacks(tested)]
        parts += [*_bias(tested, weathers[0]), *_intervals(content), *_day_totals(content)]
        parts += [_costs(tested, weathers[0])]
        parts += [_weathers(tested, weathers)] if weathers[1:] else []
        parts += [*_differences(content), *_freshness(content)]
    failures = describe_failures(content["rows"])
    parts += ["\n".join(["Failed:", "", *failures])] if failures else []
    return "\n\n".join(parts) + "\n"


def csv_text(content: Content) -> str:
    """Return a line for each model and weather; MAPE and WAPE are in per cent."""
    lines = [line for row in content["rows"] for line in _csv_lines(row)]
    names = dict.fromkeys(name for line in lines for name in line)
    text = io.StringIO()
    writer = csv.DictWriter(text, list(names), lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()


def format_score(score: Content, metric: str) -> str:
    """Format mean and deviation over seeds, as `5.188 ± 0.008`."""
    if score["mean"] is None:
        return "n/a (0 terms)"
    mean, deviation = (_scaled(score[part], metric) for part in ("mean", "deviation"))
    whole = math.floor(math.log10(abs(mean))) + 1 if mean else 1
    form = (
        f".{max(DIGITS - whole, 0)}f" if -DIGITS < whole <= MAX_WHOLE_DIGITS else f".{DIGITS - 1}e"
    )
    return f"{mean:{form}}" + ("" if deviation is None else f" ± {deviation:{form}}")


def model_label(row: Content) -> str:
    """Return a model's name with the hyperparameters that validation chose."""
    chosen = chosen_text(row["chosen"])
    return f"{row['model']} ({chosen})" if chosen else str(row["model"])


def chosen_text(chosen: Mapping[str, str]) -> str:
    """Return the hyperparameters that validation chose, as `width 256; dropout 0`."""
    return "; ".join(
        option if name == "training" else f"{name} {option}" for name, option in chosen.items()
    )


def interval_name(levels: Sequence[float]) -> str:
    """Return the name of the interval between the outermost quantiles: `80 % interval`."""
    if len(levels) == 1:
        return f"{100 * levels[0]:g} % quantile"
    return f"{100 * (levels[-1] - levels[0]):g} % interval"


def describe_outputs(rows: Iterable[Content]) -> str:
    """Say which of a model's numbers each metric is of; `rows` have `model` and `mape_of`."""
    both = [
        str(row["model"])
        for row in rows
        if row["mape_of"] == RELATIVE and not row.get("without_fallback")
    ]
    means = f"RMSE, MAE and bias are of `{MEAN}`, the forecast mean"
    if not both:
        return f"{means}; so is MAPE, since no model here has a second output for relative error."
    return (
        f"{means}. MAPE is of `{RELATIVE}`, the output with the lowest relative error, for "
        f"{', '.join(both)}; the other models have one number for both."
    )


def describe_ensembles(rows: Iterable[Content]) -> list[str]:
    """Say what each member adds to an ensemble; empty: no row is one."""
    return [
        f"{row['model']} averages {'; '.join(describe_members(row['members']))}. What a member "
        "adds is measured on validation days that the weights were not chosen by."
        for row in rows
        if row.get("members")
    ]


def describe_fallbacks(rows: Iterable[Content]) -> list[str]:
    """Say at how many locations each model serves a simple one; empty: none was compared."""
    compared = [row for row in rows if row.get("fallback")]
    sentences = [_describe_fallback(row) for row in compared]
    if any(found["locations"] for row in compared for found in row["fallback"].values()):
        sentences.append(
            "Scores are of what is served: where a simple model was better on validation by more "
            "than chance, that one. A row “without fallback” is of the model alone."
        )
    return [" ".join(sentences)] if sentences else []


def _describe_fallback(row: Content) -> str:
    seeds = list(row["fallback"].values())
    of = f"of {count_of(seeds[0]['of'], 'location')}"
    total: Counter[str] = Counter()
    for found in seeds:
        total.update(found["models"])
    if not total:
        return f"{row['model']} falls back at none {of}."
    names = ", ".join(f"{name} {count:,}" for name, count in total.items())
    at = ", ".join(f"{found['locations']:,}" for found in seeds)
    by_seed = " by seed" if seeds[1:] else ""
    return f"{row['model']} falls back at {at} {of}{by_seed}: {names}."


def format_bias(bias: float | None) -> str:
    """Format a bias in per cent with its sign: `+0.42`, `−12.3`."""
    if bias is None:
        return MISSING
    percent = 100 * bias
    return f"{percent:+.{1 if abs(percent) >= LARGE_BIAS else 2}f}".replace("-", "−")


def hour_range(biases: Sequence[float | None]) -> str:
    """Return the lowest and the highest bias of the hours: `−1.20 (4:00) … +3.10 (23:00)`."""
    by_hour = [(bias, hour) for hour, bias in enumerate(biases) if bias is not None]
    if not by_hour:
        return MISSING
    ends = min(by_hour), max(by_hour)
    return " … ".join(f"{format_bias(bias)} ({hour}:00)" for bias, hour in ends)


def describe_windows(content: Content, weather: str) -> str:
    """Say what models were tested on, and how their scores are to be read."""
    size = count_of(content["windows"], "test window")
    if content["windows"] > content["days"]:  # otherwise steps are days, or longer
        size += f" on {count_of(content['days'], 'day')}"
    rules = f"MAPE over targets ≥ {content['mape_cut']:g}; ± is the deviation over seeds"
    covariates = "no covariates but the calendar"
    if content["covariates"]:
        covariates = "no covariates ahead but the calendar"
    if {*content["covariates"]} - {*content.get("past_only", ())}:
        covariates = f"future covariates: {weather}"
    return f"{size}; {covariates}; {rules}."


def _error_table(content: Content, weather: str, metric: str) -> str:
    """Return one metric of every model: the average, and each step ahead or group of steps."""
    tested = next(row for row in content["rows"] if row["seeds"])
    heads = _step_heads(content, len(tested["weather"][weather][metric]) - 1)
    lines = []
    for row in content["rows"]:
        scores = _by_step(row, "weather", weather, metric) if row["seeds"] else None
        texts = [format_score(s, metric) for s in scores] if scores else None
        lines.append([model_label(row), *(texts or ["failed"] * (len(heads) + 1))])
    return _table([TITLES[metric], "average", *heads], lines)


def _step_heads(content: Content, steps: int) -> list[str]:
    """Return the titles of the columns: of each step ahead, or of groups of many."""
    if "step_groups" in content:
        return [group["label"] for group in content["step_groups"]]
    return [f"+{k}" for k in range(1, steps + 1)]


def _by_step(row: Content, part: str, form: str, metric: str) -> list[Content]:
    """Return a metric over all steps ahead, then of each step or group of steps."""
    scores: list[Content] = row[part][form].get(metric) or []
    if "by_group" not in row:
        return scores
    return [*scores[:1], *row["by_group"][part][form][metric]]


def _bias(rows: Sequence[Content], weather: str) -> list[str]:
    """Return the bias of every model: overall, by fifth of location size, and by hour."""
    if all(row["weather"][weather]["bias"][0]["mean"] is None for row in rows):
        return []  # nothing but zeros observed, or tested by an earlier version
    count = max(len(row["bias_by_size"]) for row in rows)
    by_hour = any(row["bias_by_hour"] for row in rows)  # not of steps of days
    lines = []
    for row in rows:
        groups = [format_bias(group["bias"]) for group in row["bias_by_size"]]
        groups += [MISSING] * (count - len(groups))
        overall = row["weather"][weather]["bias"][0]["mean"]
        hours = [hour_range(row["bias_by_hour"])] if by_hour else []
        lines.append([row["model"], format_bias(overall), *groups, *hours])
    note = (
        "Bias is the sum of forecast minus observed, relative to the sum observed: + is too high. "
        "The locations are ordered by their mean value in training"
    )
    if by_hour:
        note += "; the last column gives the hours of the day with the lowest and the highest bias"
    heads = ["bias %", "overall", *name_sizes(count), *(["by hour"] if by_hour else [])]
    return [_table(heads, lines), f"{note}."]


def _intervals(content: Content) -> list[str]:
    """Return coverage, width and pinball loss of every model's intervals."""
    levels = content["quantiles"]
    intervals = [row["intervals"] for row in content["rows"] if row.get("intervals")]
    if not intervals:
        return []
    heads = _step_heads(content, len(intervals[0]["online"]["coverage"]) - 1)
    counts = any(_is_randomised(scores) for scores in intervals)
    further = [*(["randomised"] if counts else []), "width", "pinball"]
    columns = [("coverage", k) for k in range(len(heads) + 1)]
    columns += [(metric, 0) for metric in further]
    lines = []
    for row in content["rows"]:
        if row.get("without_fallback"):  # intervals are of what is served
            continue
        has_intervals = bool(row.get("intervals"))
        cells = (_pair(row, *c) if has_intervals else MISSING for c in columns)
        lines.append([row["model"], *cells])
    head = [interval_name(levels), "coverage %", *heads]
    return [
        *([content["sureness"]] if content["sureness"] else []),
        _table([*head, *further], lines),
        "Each cell is static / online: calibrated once on validation, or updated at every "
        f"forecast origin with the values observed by then. {_coverage_note(levels)}"
        f"{RANDOMISED_NOTE if counts else ''}"
        "Width and pinball loss are in units of the data; lower is better.",
    ]


def _day_totals(content: Content) -> list[str]:
    """Return RMSE and coverage of the totals of days, by day ahead."""
    rows = [row for row in content["rows"] if row.get("day_totals")]
    if not rows:
        return []
    days = max(len(row["day_totals"]["rmse"]) for row in rows) - 1
    lines = []
    for row in rows:
        totals = row["day_totals"]
        errors = [format_score(score, "rmse") for score in totals["rmse"]]
        coverage = [format_mean(score["mean"], "coverage") for score in totals["coverage"]]
        lines.append([row["model"], *errors, *coverage])
    names = ["all", *(f"day {day}" for day in range(1, days + 1))] if days > 1 else [""]
    lines = lines if days > 1 else [[line[0], line[1], line[3]] for line in lines]
    heads = [f"{title} {name}".strip() for title in ("RMSE", "coverage %") for name in names]
    note = (
        "Totals of whole local days, forecast from the end of the day before, by day ahead. "
        "Their intervals follow the outcomes of the last 28 days (not of days of training)."
    )
    return [_table(["totals of days", *heads], lines), note]


def _coverage_note(levels: Sequence[float]) -> str:
    if len(levels) == 1:
        return ""
    nominal = f"{100 * (levels[-1] - levels[0]):g}"
    return (
        f"Coverage is the share of values within the interval; it should be {nominal} %. Of two "
        "intervals with that coverage the narrower one is better. "
    )


def _is_randomised(scores: Content) -> bool:
    """Whether intervals of counts were scored; older stored comparisons lack the metric."""
    return any(score["mean"] is not None for score in scores["online"].get("randomised", ()))


def _pair(row: Content, metric: str, k: int) -> str:
    """Return a metric of both calibration modes: `78.9 / 80.2`."""
    parts = [_by_step(row, "intervals", mode, metric) for mode in ("static", "online")]
    means = [part[k]["mean"] if part else None for part in parts]
    return " / ".join(format_mean(mean, metric) for mean in means)


def format_mean(mean: float | None, metric: str) -> str:
    """Format an interval metric without its deviation: `80.2`."""
    if mean is None:
        return "n/a"
    if metric in ("coverage", "randomised"):
        return f"{100 * mean:.1f}"
    return format_score({"mean": mean, "deviation": None}, metric)


def _costs(rows: Iterable[Content], weather: str) -> str:
    head = ["", "MAE", "WAPE %", "terms", "MAPE terms", "seeds", "parameters"]
    lines = []
    for row in rows:
        errors = [format_score(row["weather"][weather][m][0], m) for m in ("mae", "wape")]
        counts = [row["terms"], row["mape_terms"], len(row["seeds"]), row["parameters"]]
        costs = [format_cost(row["seconds"]), format_cost(row["milliseconds"])]
        lines.append([row["model"], *errors, *(f"{count:,}" for count in counts), *costs])
    return _table([*head, "training s", "forecast ms"], lines)


def _weathers(rows: Iterable[Content], weathers: list[str]) -> str:
    """Return the averages under each assumption about covariates after the origin."""
    columns = [(weather, metric) for weather in weathers for metric in ("rmse", "mape")]
    lines = [
        [r["model"], *(format_score(r["weather"][w][m][0], m) for w, m in columns)] for r in rows
    ]
    return _table(["future covariates", *(f"{w}: {TITLES[m]}" for w, m in columns)], lines)


def _differences(content: Content) -> list[str]:
    if not content["differences"]:
        return []
    lines = [
        [name, *(_difference(difference[metric]) for metric in ("rmse", "mape"))]
        for name, difference in content["differences"].items()
    ]
    note = "Differences are paired by date (block bootstrap, 95 % interval); + is a larger error."
    return [_table([f"against {content['against']}", "RMSE", "MAPE"], lines), note]


def _freshness(content: Content) -> list[str]:
    """Return what refits on the way are worth and cost, overall and by month."""
    rows = content.get("freshness", ())
    if not rows:
        return []
    lines = []
    for row in rows:
        errors = [
            cell
            for metric in ("rmse", "mape")
            for cell in (
                *(_plain(row[metric][side], metric) for side in ("unchanged", "refitted")),
                _difference(row["difference"][metric]),
            )
        ]
        cost = [format_cost(row["seconds"]), format_share(row["share"])]
        lines.append([row["model"], *errors, f"{row['refits']:,}", *cost])
    heads = [f"refit every {count_of(rows[0]['days'], 'day')}"]
    for metric in ("rmse", "mape"):
        heads += [f"{TITLES[metric]} unchanged", "refitted", "change"]
    tables = [_table([*heads, "refits", "s per refit", "% of a training"], lines)]
    return [*tables, FRESHNESS_NOTE, *_months(rows)]


def _months(rows: Sequence[Content]) -> list[str]:
    """Return the change of the errors by refits in each month; empty for a single one."""
    months = [month["month"] for month in rows[0]["months"]]
    if len(months) < 2:  # noqa: PLR2004 (the table above says it)
        return []
    metrics = ("rmse", "mape")
    lines = [
        [month, *(format_change(row["months"][n][m]) for row in rows for m in metrics)]
        for n, month in enumerate(months)
    ]
    heads = [f"{row['model']}: {TITLES[m].split()[0]}" for row in rows for m in metrics]
    return [_table(["change by refits, %", *heads], lines)]


def format_change(pair: Content) -> str:
    """Format the relative change of an error by refits, in per cent: `−5.2`."""
    if not pair["unchanged"] or pair["refitted"] is None:
        return MISSING
    change = 100 * (pair["refitted"] / pair["unchanged"] - 1)
    return f"{change:+.1f}".replace("-", "−")


def format_share(share: float | None) -> str:
    """Format a share of the time of a training, in per cent."""
    return MISSING if share is None else f"{100 * share:.0f}"


def _plain(value: float | None, metric: str) -> str:
    return format_score({"mean": value, "deviation": None}, metric)


def describe_failures(rows: Iterable[Content]) -> list[str]:
    """Return a line for each training that failed: its model, the trial and the reason."""
    return [
        f"- {row['model']}, {trial}: {' '.join(reason.split())}"
        for row in rows
        for trial, reason in row["failures"].items()
    ]


def _csv_lines(row: Content) -> list[dict[str, Any]]:
    """Return the CSV lines of a model, one for each weather."""
    failures = "; ".join(f"{trial}: {reason}" for trial, reason in row["failures"].items())
    model = {"model": row["model"], "chosen": chosen_text(row["chosen"])}
    if not row["seeds"]:
        return [{**model, "failures": failures}]
    costs = ("terms", "mape_terms", "mape_of", "parameters", "seconds", "milliseconds")
    lines: list[dict[str, Any]] = []
    for weather, scores in row["weather"].items():
        line: dict[str, Any] = {**model, "weather": weather, "trainings": len(row["seeds"])}
        line |= _score_columns(scores)
        if not lines:  # bias by group and quantiles are of the first weather
            line |= _bias_columns(row)
            for mode, interval_scores in row["intervals"].items():
                line |= _score_columns(interval_scores, f"{mode}_")
        refits = {} if row.get("refit_days") is None else {"refit_days": row["refit_days"]}
        costs_of_row = {name: row[name] for name in costs}
        lines.append({**line, **costs_of_row, **refits, "failures": failures})
    return lines


def _bias_columns(row: Content) -> dict[str, float | None]:
    """Return bias by column: `bias_size_1` of the smallest locations, `bias_hour_0`."""
    sizes = {f"bias_size_{g}": s["bias"] for g, s in enumerate(row["bias_by_size"], start=1)}
    hours = {f"bias_hour_{hour}": bias for hour, bias in enumerate(row["bias_by_hour"])}
    return {name: _scaled(bias, "bias") for name, bias in (sizes | hours).items()}


def _score_columns(scores: Content, prefix: str = "") -> dict[str, float | None]:
    """Return metrics with their deviations by column: `rmse`, `rmse_deviation`, `rmse_1`."""
    columns: dict[str, float | None] = {}
    for metric, means in scores.items():
        for k, score in enumerate(means):
            name = f"{prefix}{metric}_{k}" if k else f"{prefix}{metric}"
            columns[name] = _scaled(score["mean"], metric)
            columns[f"{name}_deviation"] = _scaled(score["deviation"], metric)
    return columns


def _scaled(value: float | None, metric: str) -> float | None:
    return None if value is None else value * (100 if metric in PERCENT else 1)


def format_cost(value: float | None) -> str:
    """Format seconds or milliseconds: `7.3`, `1,204`."""
    if value is None:
        return MISSING
    return f"{value:,.1f}" if value < 100 else f"{value:,.0f}"  # noqa: PLR2004


def format_difference(difference: RelativeDifference | None) -> str:
    """Format a relative difference with its interval: `−5.2 % (−7.1 … −3.3)`."""
    if difference is None:
        return MISSING
    value, low, high = (
        f"{100 * part:+.1f}" for part in (difference.value, difference.low, difference.high)
    )
    return f"{value} % ({low} … {high})".replace("-", "−")


def difference_text(content: Content, model: str) -> str:
    """Return how much larger a model's RMSE is than that of the model all are compared with."""
    difference = content["differences"].get(model)
    return MISSING if difference is None else _difference(difference["rmse"])


def coverage_text(row: Content) -> str:
    """Return the share of values in a model's interval, in per cent, if updated at each origin."""
    if not row.get("intervals"):
        return MISSING
    return format_mean(row["intervals"]["online"]["coverage"][0]["mean"], "coverage")


def _difference(difference: Content | None) -> str:
    return format_difference(None if difference is None else RelativeDifference(**difference))


def _table(head: list[str], lines: list[list[str]]) -> str:
    rule = ["---", *["--:"] * (len(head) - 1)]
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, rule, *lines))
