"""GPU benchmarks: sparse products, training steps, the paper's run, and their lower bounds.

`python -m benchmarks.gpu linear step small growth paper` measures these parts; without names all
of them. `tune` compares tile sizes, `profile` lists the kernels of a step, `norm` measures the
norm.
"""

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path

import torch

from benchmarks.measure import Options, Result, report

Measurement = tuple[list[str], list[Result]]
MEASURED = ("linear", "step", "small", "growth", "paper")
BY_NAME = ("norm", "tune", "profile")  # measured only if named


def main() -> None:
    """Measure the named parts, and print each as soon as it is measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[[], *MEASURED, *BY_NAME], metavar="PART")
    parser.add_argument("--quick", action="store_true", help="smaller sizes")
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    parser.add_argument("--save", type=Path, help="also append the JSON objects to this file")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        print("no CUDA device: nothing was measured")
        return
    options, measures = Options(arguments.quick, arguments.json), _measures(quick=arguments.quick)
    for part in arguments.parts or MEASURED:
        begin = time.perf_counter()
        notes, results = measures[part]()
        seconds = time.perf_counter() - begin
        name = torch.cuda.get_device_name()
        report(options, ["", f"## {part} ({name}, {seconds:.0f} s)", "", *notes, ""], results)
        if arguments.save is not None:
            _save(arguments.save, results)


def _measures(*, quick: bool) -> dict[str, Callable[[], Measurement]]:
    from benchmarks import gpu_linear, gpu_paper, gpu_steps  # noqa: PLC0415 (they need CUDA)

    locations, sizes = (250, (250, 996)) if quick else (gpu_steps.PAPER, gpu_steps.SIZES)
    return {
        "linear": gpu_linear.measure_linear,
        "norm": gpu_linear.measure_norm,
        "tune": gpu_linear.tune,
        "step": partial(gpu_steps.measure_step, locations),
        "small": gpu_steps.measure_small,
        "growth": partial(gpu_steps.measure_growth, sizes),
        "profile": partial(gpu_steps.show_profile, locations),
        "paper": partial(gpu_paper.measure_paper, quick=quick),
    }


def _save(path: Path, results: list[Result]) -> None:
    """Append results to a file, one JSON object per line."""
    with path.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(asdict(result)) + "\n" for result in results)


if __name__ == "__main__":
    main()
