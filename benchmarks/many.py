"""`doctor` and a report at many locations: processor time, memory and size of the pages.

`python -m benchmarks.many` makes a panel of 20,000 locations × 1,000 hours from a made city,
shifted and thinned, examines it, compares two simple models on it, and writes both pages.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from forecaster.config import LagConfig, Season
from forecaster.panel.parts import LocalCovariates, Locations
from forecaster.recipe import Recipe
from forecaster.synthetic.city import make_city

CITY = 500  # locations that are drawn; the others repeat them
HOURS, SPARE = 1_000, 168
MODELS = ("SeasonalNaive", "HistoricalMean")


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--locations", type=int, default=20_000)
    parser.add_argument("--quick", action="store_true", help="4,000 locations")
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    parser.add_argument("--keep", type=Path, help="folder for the panel and the pages")
    arguments = parser.parse_args()
    locations = 4_000 if arguments.quick else arguments.locations
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        panel, recipe = make_many(folder, locations)
        compare = ["evaluate", recipe, "--panel", panel, "--out", folder / "compare"]
        compare += ["--models", ",".join(MODELS)]
        commands: dict[str, list[object]] = {
            "doctor": ["doctor", panel, "--out", folder / "doctor"],
            "evaluate": compare,
            "report": ["report", folder / "compare", "--panel", panel],
        }
        pages = {"doctor": folder / "doctor", "report": folder / "compare"}
        for name, command in commands.items():
            row = {"name": name, "locations": locations, **_run([str(part) for part in command])}
            if name in pages:
                page = next(pages[name].glob("*.html"))
                row["page_mb"] = round(page.stat().st_size / 1e6, 2)
            print(json.dumps(row) if arguments.json else row, flush=True)


def make_many(folder: Path, locations: int) -> tuple[Path, Path]:
    """Save a panel of many locations and its recipe, unless they are there."""
    panel, recipe = folder / "panel", folder / "recipe.toml"
    if not panel.exists():
        city, generator = make_city(CITY, hours=HOURS + SPARE).panel, np.random.default_rng(5)
        starts, factors = (
            generator.integers(0, SPARE // 24, locations) * 24,
            generator.uniform(0.5, 1.0, locations),
        )
        column = np.arange(locations) % CITY
        steps = starts[:, None] + np.arange(HOURS)
        values = generator.binomial(
            city.values[steps, column[:, None]].astype(np.int64), factors[:, None]
        )
        ids = tuple(f"L{n:06d}" for n in range(locations))
        lat, lon = generator.uniform((42.0, -3.5), (50.0, 7.0), (locations, 2)).T
        many = replace(
            city.steps(0, HOURS, HOURS),
            values=values.T.astype(np.float32),
            locations=Locations(ids, ids, lat, lon),
            local_covariates=LocalCovariates.empty(HOURS, locations),
            digest=None,
        )
        lags = LagConfig(recent=3, seasons=(Season(days=1, count=2),), horizon=3)
        made = Recipe(lags=lags)
        many.save(panel, made)
        recipe.write_text(made.to_toml())
    return panel, recipe


def _run(command: Sequence[str]) -> dict[str, float]:
    """Processor seconds and peak memory of a command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.monotonic()
    subprocess.run([sys.executable, "-m", "forecaster", *command], check=True)  # noqa: S603
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {
        "processor_s": round(spent, 1),
        "clock_s": round(time.monotonic() - began, 1),
        "peak_gib": round(after.ru_maxrss / 2**20, 2),
    }


if __name__ == "__main__":
    main()
