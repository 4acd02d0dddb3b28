"""Write the golden panel of format 1: python tests/panel/golden/make_format_1.py FOLDER.

The panel beside this script was written once, by the first release, and is never written again:
`test_S10_…` proves that later releases still read it.
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd

from forecaster.panel.panel import Panel

HOURS, KNOWN_HOURS = 29, 37
LOCATIONS = pd.DataFrame(
    {
        "id": ["007", "=cmd()", "🚕"],
        "name": ["James", "Fifth & 42nd", None],
        "lat": [40.7527, 40.7536, None],
        "lon": [-73.9772, -73.9832, None],
        "zone": [161, 230, 0],
    }
)


def make() -> Panel:
    """Return 29 hours from 2015-07-03T20:00Z, y = step · 10 + location, one null."""
    times = pd.date_range("2015-07-03T20:00", periods=KNOWN_HOURS, freq="h", tz="UTC")
    wide = pd.DataFrame({"time": times[:HOURS]})
    for number, identity in enumerate(LOCATIONS["id"]):
        wide[identity] = np.arange(HOURS) * 10.0 + number
    wide.loc[5, "=cmd()"] = None
    step = np.arange(KNOWN_HOURS)
    weather = pd.DataFrame({"ds": times, "temperature": step / 2 - 3, "wind": step * 1.0})
    weather.loc[31, "wind"] = None
    dry = pd.DataFrame({"unique_id": "007", "ds": times, "rain": step / 4})
    wet = pd.DataFrame({"unique_id": "🚕", "ds": times, "rain": step / 4 + 1})
    return Panel.from_wide(
        wide,
        timezone="America/New_York",
        country="US",
        locations=LOCATIONS,
        covariates=weather,
        local_covariates=pd.concat([dry, wet]),
    )


if __name__ == "__main__":
    make().save(Path(sys.argv[1]))
