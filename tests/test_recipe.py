import hashlib
import tomllib
from contextlib import suppress
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from forecaster.config import (
    EvaluationConfig,
    GraphConfig,
    LagConfig,
    MetricConfig,
    ModelConfig,
    PanelConfig,
    Season,
    SplitsConfig,
    TrainingConfig,
)
from forecaster.errors import ConfigError
from forecaster.recipe import Recipe, change, check_stage, read_recipe

SPELLED = """
[panel]
timezone = "America/New_York"
kind = "count"
country = "US-NY"

[lags]
recent = 5
seasons = [{ days = 1, count = 3, before = 1, after = 2 }]
horizon = 2

[metrics]
mape_cut = 10
"""
RESPELLED = """
metrics.mape_cut = 10.0   # a float, a comment, another order
lags = { horizon = 2, seasons = [{after=2, before=1, count=3, days=1}], recent = 0x5 }
panel = { country = 'US-NY', kind = "count", timezone = "America\\u002FNew_York" }
"""
OTHER_VALUES = [
    {"panel": {"timezone": "Asia/Kolkata"}},
    {"panel": {"kind": "measurement"}},
    {"panel": {"step_minutes": 15}},
    {"panel": {"country": "US"}},
    {"panel": {"ambiguous": "split"}},
    {"panel": {"nonexistent": "null"}},
    {"lags": {"recent": 7}},
    {"lags": {"seasons": []}},
    {"lags": {"seasons": [{"days": 1, "count": 5}, {"days": 7, "count": 4}]}},
    {"lags": {"seasons": [{"days": 7, "count": 4}, {"days": 1, "count": 6}]}},
    {"lags": {"horizon": 5}},
    {"metrics": {"mape_cut": 11.0}},
    {"intervals": {"quantiles": [0.05, 0.5, 0.95]}},
    {"graph": {"kind": "own"}},
    {"graph": {"subtract": "nothing"}},
    {"graph": {"penalty": 0.1}},
    {"graph": {"choose": "ebic"}},
    {"graph": {"threshold": 0.2}},
    {"graph": {"degree": 2.5}},
    {"graph": {"penalise_diagonal": False}},
    {"graph": {"gap_tolerance": 1e-5}},
    {"graph": {"max_iterations": 7}},
    {"graph": {"seed": 3}},
    {"model": {"per_location": 8}},
    {"model": {"auxiliary": 32}},
    {"model": {"heads": 2}},
    {"model": {"n_layers": 2}},
    {"model": {"dropout": 0.1}},
    {"model": {"positions": "literal"}},
    {"model": {"width": 64}},
    {"model": {"level": True}},
    {"preset": "paper"},
    {"preset": "best"},
    {"mixer": {"hidden": 8}},
    {"boosting": {"objective": "poisson"}},
    {"stid": {"inputs": "lags"}},
    {"stid": {"embedding": 8}},
    {"stid": {"n_layers": 1}},
    {"stid": {"dropout": 0.0}},
    {"graph_wavenet": {"inputs": "lags"}},
    {"graph_wavenet": {"blocks": 2}},
    {"staeformer": {"inputs": "lags"}},
    {"staeformer": {"adaptive": 8}},
    {"mixer": {"blocks": 1}},
    {"mixer": {"edges": 0}},
    {"mixer": {"factors": 0}},
    {"training": {"eta": 3e-4}},
    {"training": {"eta": "balanced"}},
    {"training": {"learning_rate": 1e-3}},
    {"training": {"batch": 32}},
    {"training": {"epochs": 3}},
    {"training": {"patience": 3}},
    {"training": {"clip": 2.0}},
    {"training": {"weight_decay": 0.0}},
    {"training": {"ema": 0.999}},
    {"training": {"precision": "bf16"}},
    {"training": {"seed": 3}},
    {
        "splits": {
            "train": [["2013-01-01", "2013-12-31"]],
            "validation": [["2014-01-01", "2014-02-28"]],
            "test": [["2014-03-01", "2014-06-30"]],
        }
    },
]

seasons = st.builds(
    Season,
    days=st.sampled_from([1, 7, 364]),
    count=st.integers(1, 13),
    before=st.integers(0, 7),
    after=st.integers(0, 5),
)
ranges = st.lists(st.tuples(st.text(max_size=5), st.text(max_size=5)), min_size=1, max_size=3).map(
    tuple
)
recipes = st.builds(
    Recipe,
    preset=st.sampled_from([None, "paper", "best"]),
    panel=st.builds(
        PanelConfig,
        timezone=st.text(max_size=5),
        step_minutes=st.sampled_from([1, 5, 15, 60]),
        country=st.none() | st.sampled_from(["US", "US-NY"]),
        ambiguous=st.sampled_from(["null", "split"]),
        nonexistent=st.sampled_from(["refuse", "null", "next"]),
    ),
    lags=st.builds(
        LagConfig,
        recent=st.integers(1, 11),
        seasons=st.lists(seasons, max_size=3).map(tuple),
        horizon=st.integers(1, 7),
    ),
    metrics=st.builds(MetricConfig, mape_cut=st.floats(1e-300, 1e300)),
    splits=st.just(SplitsConfig())
    | st.builds(SplitsConfig, train=ranges, validation=ranges, test=ranges),
    graph=st.builds(GraphConfig, degree=st.floats(0, 1e3))
    | st.builds(
        GraphConfig, threshold=st.floats(0, 0.99), penalty=st.none() | st.floats(1e-9, 1e9)
    ),
    model=st.builds(ModelConfig, heads=st.sampled_from([1, 2, 4]), dropout=st.floats(0, 0.99)),
    training=st.builds(
        TrainingConfig,
        eta=st.floats(0, 1e9) | st.just("balanced"),
        ema=st.floats(0, 0.999999),
        seed=st.integers(0, 2**63 - 1),
    ),
)
KEYS = [
    "panel",
    "lags",
    "metrics",
    "graph",
    "splits",
    "degree",
    "threshold",
    "train",
    "seasons",
    "days",
    "recent",
    "kind",
    "step_minutes",
    "x",
]
contents = st.dictionaries(
    st.sampled_from(KEYS),
    st.recursive(
        st.one_of(
            st.booleans(),
            st.integers(),
            st.floats(),
            st.text(max_size=5),
            st.just(date(2015, 11, 1)),
            st.just(datetime(2015, 11, 1, 1, tzinfo=UTC)),
        ),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=3), inner, max_size=5)
        ),
        max_leaves=11,
    ),
)


def recipe_of(text: str) -> Recipe:
    return check_stage(Recipe, tomllib.loads(text), source="recipe.toml")


def fault_of(content: dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as caught:
        check_stage(Recipe, content, source="recipe.toml")
    return str(caught.value)


def test_an_empty_recipe_is_the_papers() -> None:
    recipe = recipe_of("")  # section 3.1.2 and 3.1.3
    assert recipe.lags.recent == 6
    assert recipe.lags.horizon == 3
    assert [(s.days, s.count, s.before, s.after) for s in recipe.lags.seasons] == [
        (1, 6, 1, 5),
        (7, 4, 1, 5),
    ]
    assert recipe.metrics.mape_cut == 10.0


def test_a_preset_decides_what_a_recipe_does_not_say() -> None:
    recipe = recipe_of('preset = "best"\n[training]\nepochs = 7')
    assert recipe.training.epochs == 7
    assert recipe.training.eta == "balanced"
    assert recipe.training.ema == 0.99
    assert recipe.training.weight_decay == 0.1
    assert recipe.training.batch == TrainingConfig().batch


def test_the_preset_best_compares_an_ensemble_and_one_network_stays_one_network() -> None:
    simple = ("LastValue", "SeasonalNaive", "HistoricalMean", "Ridge")
    best, quick = recipe_of('preset = "best"'), recipe_of('preset = "quick"')
    assert best.evaluation.models == (*simple, "Ensemble")
    assert quick.evaluation.models == (*simple, "Forecaster")
    assert (best.estimator, quick.estimator) == ("Ensemble", "Forecaster")
    named = recipe_of('preset = "best"\n[evaluation]\nmodels = ["Ridge", "Forecaster"]')
    assert named.evaluation.models == ("Ridge", "Forecaster")  # as written by earlier versions
    assert named.digest() == best.digest()


def test_a_recipe_tells_where_it_departs_from_its_preset() -> None:
    text = 'preset = "best"\n[training]\nepochs = 30\nema = 0.0\neta = 8e-3'
    assert recipe_of(text).departures() == ["training.eta = 0.008", "training.ema = 0.0"]
    assert recipe_of('preset = "paper"').departures() == []
    assert recipe_of("[training]\nepochs = 7").departures() == []


def test_another_preset_takes_back_what_the_first_had_decided() -> None:
    best = recipe_of('preset = "best"\n[training]\nbatch = 7')
    paper = change(best, {"preset": "paper"}, source="test")
    assert paper.training == TrainingConfig(batch=7)
    assert paper.graph.subtract == "nothing"


def test_an_unknown_preset_is_refused() -> None:
    with pytest.raises(ConfigError, match="preset: Input should be 'paper', 'quick' or 'best'"):
        recipe_of('preset = "bets"')


def test_an_unknown_section_is_refused_with_the_nearest_name() -> None:
    assert fault_of({"pannel": {}}) == (
        "recipe.toml: 1 fault\n  pannel: unknown key; did you mean 'panel'?"
    )


def test_an_unknown_key_is_refused_with_the_nearest_name() -> None:
    assert "\n  lags.horizons: unknown key; did you mean 'horizon'?" in fault_of(
        {"lags": {"horizons": 3}}
    )


def test_an_unknown_key_deep_inside_is_refused_with_the_nearest_name() -> None:
    season = {"days": 7, "count": 4, "befor": 1}
    assert "\n  lags.seasons.1.befor: unknown key; did you mean 'before'?" in fault_of(
        {"lags": {"seasons": [{"days": 1, "count": 6}, season]}}
    )


def test_an_unknown_key_like_no_other_gets_the_list_of_keys() -> None:
    assert "lags.xyzzy: unknown key; known: recent, seasons, horizon" in fault_of(
        {"lags": {"xyzzy": 1}}
    )


def test_all_faults_are_named_at_once() -> None:
    message = fault_of(
        {
            "panel": {"kind": "counts", "step_minutes": 7},
            "lags": {"recent": 0, "seasons": [{"count": 4}]},
            "metric": {},
        }
    )
    assert message.startswith("recipe.toml: 5 faults\n")
    for place in ("panel.kind", "panel.step_minutes", "lags.recent", "lags.seasons.0.days"):
        assert f"\n  {place}: " in message
    assert "\n  metric: unknown key; did you mean 'metrics'?" in message


def test_a_recipe_of_python_values_takes_lists_and_fills_in_the_preset() -> None:
    seasons = [{"days": 1, "count": 2, "before": 0, "after": 1}]
    recipe = Recipe.of(
        {"preset": "best", "intervals": {"quantiles": [0.1, 0.9]}, "lags": {"seasons": seasons}}
    )
    assert recipe.intervals.quantiles == (0.1, 0.9)
    assert recipe.lags.seasons == (Season(days=1, count=2, before=0, after=1),)
    assert recipe.training.eta == "balanced"


def test_a_recipe_of_python_values_is_refused_as_a_file_is() -> None:
    with pytest.raises(ConfigError) as error:
        Recipe.of({"trainig": {"epochs": 3}, "lags": {"horizon": "3"}})
    assert str(error.value).startswith("recipe: 2 faults\n")
    assert "\n  trainig: unknown key; did you mean 'training'?" in str(error.value)
    assert "\n  lags.horizon: " in str(error.value)


def test_a_recipe_error_is_an_error_of_use() -> None:
    with pytest.raises(ConfigError) as caught:
        recipe_of("x = 1")
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("step", "days", "largest"),  # days less three hours, in whole steps, by hand
    [(60, 1, 21), (15, 1, 84), (60, 7, 165), (360, 1, 3), (1440, 1, 0), (1440, 7, 6)],
)
def test_a_season_may_not_reach_past_the_origin(step: int, days: int, largest: int) -> None:
    def content(after: int) -> dict[str, Any]:
        season = {"days": days, "count": 1, "after": after}
        return {"panel": {"step_minutes": step}, "lags": {"seasons": [season]}}

    assert check_stage(Recipe, content(largest), source="x").lags.seasons[0].after == largest
    assert f"at most {largest} for {days} days" in fault_of(content(largest + 1))


def test_every_season_that_reaches_past_the_origin_is_named() -> None:
    near, far = {"days": 1, "count": 2, "after": 22}, {"days": 7, "count": 3, "after": 166}
    message = fault_of({"lags": {"seasons": [near, {"days": 2, "count": 1}, far]}})
    assert message.startswith("recipe.toml: 2 faults\n")
    assert "\n  lags.seasons.0: after = 22 steps may reach past the origin" in message
    assert "\n  lags.seasons.2: after = 166 steps may reach past the origin" in message


def test_days_of_splits_may_be_written_as_toml_dates() -> None:
    text = "train = [[2013-01-01, 2013-12-31]]\nvalidation = [[2014-01-01, 2014-02-28]]"
    splits = recipe_of(f"[splits]\n{text}\ntest = [['2014-03-01', '2014-06-30']]").splits
    assert splits.train == (("2013-01-01", "2013-12-31"),)


def test_a_recipe_has_all_splits_or_none() -> None:
    message = fault_of({"splits": {"train": [["2013-01-01", "2013-12-31"]]}})
    assert "splits: train, validation and test: give ranges for all three" in message


def test_a_recipe_cannot_be_changed_once_read() -> None:
    recipe = Recipe()
    with pytest.raises(ValidationError, match="frozen"):
        recipe.panel.step_minutes = 15
    with pytest.raises(ValidationError, match="frozen"):
        recipe.lags = LagConfig(recent=1)


def test_the_hash_is_of_the_values_in_sorted_json() -> None:
    canonical = (
        '{"dcrnn": {"diffusion_steps": 2, "inputs": "recent", "kernel_threshold": 0.1, '
        '"n_layers": 2, "recent": 12, "sampling_decay": 2000.0, "units": 64}, '
        '"graph": {"choose": "likelihood", "degree": null, "gap_tolerance": 0.0001, '
        '"kind": "lasso", "max_iterations": 100, "penalise_diagonal": true, "penalty": null, '
        '"seed": 0, "subtract": "hour_of_week", "threshold": 0.1}, '
        '"intervals": {"quantiles": [0.1, 0.5, 0.9]}, '
        '"lags": {"horizon": 3, "recent": 6, "seasons": ['
        '{"after": 5, "before": 1, "count": 6, "days": 1}, '
        '{"after": 5, "before": 1, "count": 4, "days": 7}]}, '
        '"metrics": {"mape_cut": 10.0}, '
        '"mixer": {"blocks": 2, "dropout": 0.1, "edges": 2, "factors": 4, "hidden": 96}, '
        '"model": {"auxiliary": 64, "dropout": 0.0, "heads": 4, "level": false, "n_layers": 1, '
        '"per_location": 4, '
        '"positions": "location", "width": null}, '
        '"panel": {"ambiguous": "null", "country": null, "gaps": "refuse", "kind": "count", '
        '"nonexistent": "refuse", "step_minutes": 60, "timezone": "UTC"}, '
        '"preset": null, '
        '"splits": {"test": [], "train": [], "validation": []}, '
        '"table": null, '
        '"training": {"batch": 64, "clip": 1.0, "ema": 0.0, '
        '"epochs": 60, "eta": 0.008, "learning_rate": 0.003, "patience": 10, '
        '"precision": "float32", "seed": 0, "weight_decay": 0.01}, '
        '"trips": null, "weather": null}'
    )
    assert Recipe().digest() == hashlib.sha256(canonical.encode()).hexdigest()


def test_a_recipe_without_a_largest_delay_keeps_its_hash() -> None:
    """Golden: `digest` at commit e150482, before graphs had delays."""
    plain = {"kind": "pearson", "degree": 3.0}
    kept = Recipe.of({"graph": plain})
    assert Recipe().digest() == "f0a3bacc8b96dcd42086224bdbe7e3178ae7db713b79a83d19bcae484023d1dc"
    assert kept.digest() == "4c58bc7282710429db945db88aa4cf22cea2bb722ea84ed2428f330969e7c4f5"
    delayed = Recipe.of({"graph": {**plain, "max_delay": 7}})
    assert delayed.digest() != kept.digest()
    assert recipe_of(delayed.to_toml()) == delayed
    assert "max_delay" not in kept.to_toml()


def test_the_hash_is_of_the_run_not_of_what_it_is_compared_with() -> None:
    other = Recipe(evaluation=EvaluationConfig(models=("VAR",), seeds=2))
    assert other.digest() == Recipe().digest()


def test_the_hash_ignores_order_and_spelling() -> None:
    assert recipe_of(SPELLED) == recipe_of(RESPELLED)
    assert recipe_of(SPELLED).digest() == recipe_of(RESPELLED).digest()


def test_the_hash_ignores_whether_a_default_is_written_out() -> None:
    assert recipe_of("[panel]\nstep_minutes = 60").digest() == Recipe().digest()


def test_the_hash_ignores_what_cannot_change_a_result() -> None:
    assert recipe_of("[training]\ncheckpoint_steps = 7").digest() == Recipe().digest()
    assert recipe_of("[training]\ntimeout_seconds = 7").digest() == Recipe().digest()


def test_the_hash_follows_every_value() -> None:
    digests = [check_stage(Recipe, c, source="x").digest() for c in [{}, *OTHER_VALUES]]
    assert len(set(digests)) == 1 + len(OTHER_VALUES)


@given(recipes)
def test_a_recipe_written_back_reads_as_the_same_recipe(recipe: Recipe) -> None:
    again = recipe_of(recipe.to_toml())
    assert again == recipe
    assert again.digest() == recipe.digest()


def test_a_recipe_is_written_with_its_defaults() -> None:
    written = tomllib.loads(Recipe().to_toml())
    assert written["panel"]["step_minutes"] == 60
    assert written["metrics"] == {"mape_cut": 10.0}
    assert not written["lags"]  # they depend on the panel


def test_lags_that_are_set_are_written() -> None:
    written = tomllib.loads(Recipe.of({"lags": {"horizon": 7}}).to_toml())
    assert written["lags"] == {"horizon": 7}
    seasons = [{"days": 7, "count": 4, "before": 1, "after": 5}]
    assert tomllib.loads(Recipe.of({"lags": {"seasons": seasons}}).to_toml())["lags"] == {
        "seasons": seasons
    }


def test_a_horizon_alone_does_not_ask_for_seasons_of_hours() -> None:
    content = {"panel": {"step_minutes": 1440}, "lags": {"horizon": 24}}
    assert Recipe.of(content).lags.horizon == 24


def test_a_recipe_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "recipe.toml"
    path.write_text(SPELLED, encoding="utf-8")
    recipe = read_recipe(path)
    assert recipe.panel.country == "US-NY"
    assert recipe.lags.seasons[0].count == 3


def test_faults_of_a_file_come_with_its_name(tmp_path: Path) -> None:
    path = tmp_path / "recipe.toml"
    path.write_text("[panel]\nkind = 'counts'", encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        read_recipe(path)
    assert str(caught.value).startswith(f"{path}: 1 fault\n  panel.kind: ")


def test_a_missing_recipe_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"recipe\.toml: cannot be read \(No such file"):
        read_recipe(tmp_path / "recipe.toml")


def test_a_folder_is_no_recipe(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot be read \(Is a directory\)"):
        read_recipe(tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        b"[panel\nkind = 'count'",
        b"panel: {kind: count}",
        b"[panel]\ntimezone = '\xff'",  # not UTF-8
        b"[panel]\nkind = 'count'\nkind = 'count'",
        b"x = " + b"1" * 5_000,  # more digits than Python reads
        b"x = " + b"[" * 5_000,  # deeper than Python reads
    ],
    ids=["cut", "yaml", "latin", "doubled", "long", "deep"],
)
def test_a_file_that_is_not_toml_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "recipe.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"recipe\.toml: not TOML \(.*see recipes/"):
        read_recipe(path)


@given(st.integers(0, len(SPELLED)), st.binary(max_size=7))
def test_any_damaged_file_gives_a_recipe_or_a_typed_error(
    tmp_path_factory: pytest.TempPathFactory, place: int, junk: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "damaged.toml"
    path.write_bytes(SPELLED[:place].encode() + junk + SPELLED[place:].encode())
    with suppress(ConfigError):
        assert isinstance(read_recipe(path), Recipe)


@given(contents)
def test_any_content_gives_a_recipe_or_a_typed_error(content: dict[str, Any]) -> None:
    with suppress(ConfigError):
        check_stage(Recipe, content, source="recipe.toml")


def test_a_recipe_with_opening_hours_has_a_hash_of_its_own() -> None:
    hours = recipe_of('[panel]\nhours = "Mon-Fri 05:00-23:00"')
    assert hours.panel.hours == "Mon-Fri 05:00-23:00"
    assert hours.digest() != Recipe().digest()


def test_past_only_covariates_change_the_hash_only_where_there_are_any() -> None:
    plain = Recipe()
    assert plain.digest() == Recipe.of({"panel": {"past_only": []}}).digest()
    assert plain.digest() != Recipe.of({"panel": {"past_only": ["rain"]}}).digest()


def test_changes_leave_their_own_values_as_they_are() -> None:
    first = {"model": {"level": True}}
    changed = change(Recipe(), first, {"model": {"width": 64}}, source="test")
    assert (changed.model.level, changed.model.width) == (True, 64)
    assert first == {"model": {"level": True}}
