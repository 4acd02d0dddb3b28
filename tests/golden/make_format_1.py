"""Write the golden artifacts of format 1: python -m tests.golden.make_format_1 FOLDER.

What lies beside this script was written once, before panels had a second format, and is never
written again: `tests/test_golden.py` proves that later versions read it, and that the runs
forecast the same bits. A new format adds a script and artifacts of its own.
"""

import json
import platform
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from forecaster.config import GraphConfig
from forecaster.estimators.base import Estimator
from forecaster.estimators.checks.sample import RECIPE, small_city
from forecaster.estimators.registry import find_estimator
from forecaster.graph.dependency import DependencyGraph
from forecaster.graph.learn import learn_graph
from forecaster.graph.storage import save_graph
from forecaster.panel.panel import Panel
from forecaster.panel.parts import LocalCovariates
from forecaster.recipe import Preset, Recipe
from forecaster.serve.data.registration import Registration
from forecaster.serve.data.store import Store
from forecaster.splits import Splits

# name of the run → estimator, preset
RUNS: dict[str, tuple[str, Preset | None]] = {
    "best": ("Forecaster", "best"),
    "paper": ("Forecaster", "paper"),
    "ridge": ("Ridge", None),
    "boosting": ("Boosting", None),
    "historical-mean": ("HistoricalMean", None),
    "dcrnn": ("DCRNN", None),
}
ORIGIN = -3  # of the forecasts, as a step of the panel
OPENED = np.datetime64("2021-03-09T23:00", "s")  # midnight in Berlin


def city() -> Panel:
    """Counts of five locations, one of which opens later; a past-only local covariate."""
    bare = small_city()
    generator = np.random.default_rng(7)
    drop_offs = generator.poisson(11.0, (1, *bare.local_covariates.values.shape[1:]))
    opens = np.full(5, "NaT", dtype="datetime64[s]")
    opens[1] = OPENED
    panel = replace(
        bare,
        locations=replace(bare.locations, opens=opens, extra={"zone": (1, 2, None, 4, 5)}),
        local_covariates=LocalCovariates(
            ("drop_offs",), drop_offs.astype(np.float32), ("drop_offs",)
        ),
        counts={"note": "golden"},
    )
    return panel.within_lives().without_unseen()


def shop() -> Panel:
    """Measurements with opening hours."""
    bare = small_city("measurement")
    return bare.with_hours(["Mo-Sa 08:00-20:00"] * 4 + [""])


def months() -> Panel:
    """Two series by the month."""
    ds = pd.date_range("2010-01-01", periods=61, freq="MS")
    wide = pd.DataFrame({"time": ds, "north": np.arange(61) * 3.0, "south": np.arange(61) % 12})
    wide.loc[17, "north"] = None
    return Panel.from_wide(wide, timezone="America/New_York", step_months=1)


def graph_of(panel: Panel, config: GraphConfig) -> DependencyGraph:
    """The dependency graph of the training steps."""
    splits = Splits.by_share(panel)
    return learn_graph(panel, splits, config)


def fit(name: str, preset: Preset | None, panel: Panel) -> Estimator:
    """A small run of an estimator."""
    content = RECIPE.model_dump(exclude_unset=True) | {"preset": preset}
    recipe = Recipe.model_validate(content)
    return find_estimator(name)(recipe=recipe).fit(panel, Splits.by_share(panel))


def forecast(run: Estimator, panel: Panel) -> pd.DataFrame:
    """Its forecast, on one thread: a number of threads may change the last bits."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return run.forecast(panel, panel.times[ORIGIN])
    finally:
        torch.set_num_threads(threads)


def save_store(path: Path, panel: Panel) -> None:
    """The service's file: two hours of observations with a revision, weather and a new place."""
    store = Store(path, str(panel.digest))
    seconds = panel.instants(len(panel.values) + np.arange(2)).astype(np.int64).tolist()
    entries = [(i, s, float(n)) for s in seconds for n, i in enumerate(panel.locations.ids)]
    store.write("observations", entries, received=seconds[-1] + 60)
    store.write("observations", [("place 0", seconds[0], 5.0)], received=seconds[-1] + 90)
    store.write("covariates", [("rain", seconds[1] + 4 * 3600, 1.0)], received=seconds[-1])
    store.register(Registration("place 5", "Neubau", 52.5, 13.4, opens=seconds[0]))
    store.close()


def machine() -> dict[str, str]:
    """What the last bits of a forecast depend on besides the program."""
    capability = torch.backends.cpu.get_cpu_capability()
    versions = {"torch": torch.__version__, "numpy": np.__version__}
    return {**versions, "processor": capability, "model": processor_model()}


def processor_model() -> str:
    """Family and model of the processor: of one capability some still round differently."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    parts = [line.partition(":")[::2] for line in lines]
    values = {name.strip(): value.strip() for name, value in parts}
    known = [values[name] for name in ("vendor_id", "cpu family", "model") if name in values]
    return " ".join(known) or platform.processor()


def save_forecasts(folder: Path, runs: Mapping[str, Estimator], panel: Panel) -> None:
    """Write the forecasts of runs, and the machine that they were made on."""
    folder.mkdir(parents=True)
    for name, run in runs.items():
        forecast(run, panel).to_parquet(folder / f"{name}.parquet", index=False)
    (folder / "machine.json").write_text(json.dumps(machine()) + "\n")


def main(folder: Path) -> None:
    """Write all artifacts, and the forecasts of the runs."""
    panels = {"city": city(), "shop": shop(), "months": months()}
    for name, panel in panels.items():
        panels[name] = panel.save(folder / "panels" / name, RECIPE)
    panel = panels["city"]
    save_graph(graph_of(panel, GraphConfig(kind="inverse")), folder / "graphs" / "undirected")
    save_graph(graph_of(panel, GraphConfig(kind="lagged")), folder / "graphs" / "directed")
    runs = {name: fit(*settings, panel) for name, settings in RUNS.items()}
    for name, run in runs.items():
        run.save(folder / "runs" / name)
    save_forecasts(folder / "forecasts", runs, panel)
    save_store(folder / "store.sqlite", panel)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
