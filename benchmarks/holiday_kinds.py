"""What kinds of holiday are worth as inputs: the eve, the day after, New Year's night.

`python -m benchmarks.holiday_kinds DATA OUT --sets zones --seeds 2` trains the preset `quick` on
the panel of a set with these three columns beside its covariates, and compares errors on
validation with the trainings of `benchmarks.members` in OUT.
"""

import argparse
import logging
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import numpy as np

from benchmarks.last_residuals import forecast_validation
from benchmarks.members import DataSet
from benchmarks.proofs import print_table
from forecaster.panel.panel import Panel
from forecaster.panel.parts import Covariates
from forecaster.publish.manifest import MANIFEST

MEMBER = "Forecaster"
KINDS = ("eve", "day_after", "new_year_night")
NIGHT_HOURS = (21, 5)  # of New Year's night: from, until


def main() -> None:
    """Train what is missing, and print the errors."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="the folder of data sets")
    parser.add_argument("out", type=Path, help="as given to benchmarks.members")
    parser.add_argument("--sets", default="zones")
    parser.add_argument("--seeds", type=int, default=1)
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.WARNING)
    rows = []
    for name in arguments.sets.split(","):
        for seed in range(arguments.seeds):
            for made in (DataSet, WithKinds):
                data_set = made(name, arguments.data, arguments.out, (MEMBER,), None)
                data_set.train(MEMBER, seed)
                title = f"{name}, seed {seed}" + (
                    ": kinds of holiday" if made is WithKinds else ""
                )
                rows.append([title, *_errors(data_set, seed)])
    print_table(["validation", "RMSE", "MAPE %"], rows)


class WithKinds(DataSet):
    """A data set whose panel also has the kinds of holiday, in a folder of its own."""

    @property
    def folder(self) -> Path:
        """The folder of the panel and of the trainings."""
        return self.out / f"{self.name}-holidays"

    @cached_property
    def panel(self) -> Panel:
        """The panel with three more columns, known ahead."""
        folder = self.folder / "with-kinds"
        if (folder / MANIFEST).exists():
            return Panel.open(folder)
        plain = DataSet(self.name, self.data, self.out, self.members, self.epochs).panel
        kinds = holiday_kinds(plain)
        covariates = Covariates(
            (*plain.covariates.names, *KINDS), np.hstack([plain.covariates.values, kinds])
        )
        return replace(plain, covariates=covariates, digest=None).save(folder, self.recipe)


def holiday_kinds(panel: Panel) -> np.ndarray:
    """Whether each known step is on the eve of a holiday, the day after, New Year's night."""
    local = panel.clock.local(panel.known_times)
    days = local.astype("datetime64[D]")
    hours = (local - days).astype("timedelta64[h]").astype(np.int64)
    holidays = panel.clock.holidays
    dates = np.array(() if holidays is None else holidays.dates, dtype="datetime64[D]")
    free = np.isin(days, dates)
    eve = np.isin(days + 1, dates) & ~free
    after = np.isin(days - 1, dates) & ~free
    of_year = days.astype(str).astype("U10")
    ends, begins = (np.char.endswith(of_year, day) for day in ("-12-31", "-01-01"))
    night = (ends & (hours >= NIGHT_HOURS[0])) | (begins & (hours < NIGHT_HOURS[1]))
    return np.stack([eve, after, night], axis=1).astype(np.float32)


def _errors(data_set: DataSet, seed: int) -> list[str]:
    truth, outputs, _ = forecast_validation(data_set, MEMBER, seed)
    relative = outputs.mean if outputs.relative is None else outputs.relative
    counted = truth >= data_set.recipe.metrics.mape_cut
    rmse = np.sqrt(np.nanmean(np.square(outputs.mean - truth)))
    mape = np.mean(np.abs(relative - truth)[counted] / truth[counted])
    return [f"{rmse:.4g}", f"{100 * mape:.2f}"]


if __name__ == "__main__":
    main()
