"""The start of `forecaster --help` against the start of Python."""

import subprocess
import sys
from pathlib import Path

from benchmarks.measure import Result, medians, read_options, report

GOAL_SECONDS = 0.5


def main() -> None:
    """Start each program several times."""
    options = read_options(__doc__)
    command = Path(sys.executable).with_name("forecaster")

    def start(*words: str | Path) -> None:
        subprocess.run(words, check=True, capture_output=True)  # noqa: S603 (our own program)

    jobs = {
        "python": lambda: start(sys.executable, "-c", "pass"),
        "help": lambda: start(command, "--help"),
    }
    seconds = medians(jobs, repeats=5 if options.quick else 20)
    notes = [f"{name:10} {taken * 1e3:8.0f} ms" for name, taken in seconds.items()]
    goal = f"≤ {GOAL_SECONDS:g} s"
    ratio = round(seconds["help"] / seconds["python"], 2)
    met = seconds["help"] <= GOAL_SECONDS
    report(options, notes, [Result("forecaster --help", ratio, "python -c pass", goal, met)])


if __name__ == "__main__":
    main()
