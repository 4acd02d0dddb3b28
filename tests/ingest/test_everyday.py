"""Tables as people have them, read with no option."""

import re
from pathlib import Path

import numpy as np
import pytest

from forecaster.errors import DataError, ForecasterError, naming_options
from forecaster.ingest.build import Sources, build_panel, find_sources
from forecaster.ingest.guess import common_folder, describe, guess_recipe
from forecaster.panel.panel import Panel
from tests.everyday_tables import FURTHER, TABLES, Everyday, Truth
from tests.harder_tables import HARDER

QUESTIONS = {  # what they are asked, and the answer
    "a logger in milliseconds": (
        "column 'T_out [°C]': 2 values of -999, all others from -2.5 up; give --missing -999",
        {"missing": ["-999"]},
    ),
}


def read(paths: list[Path], rules: dict[str, object]) -> Panel:
    """Return the panel of files, as `forecaster run` builds it."""
    sources = Sources(paths)
    recipe, rows = guess_recipe(sources, {"table": rules})
    lines = describe(sources, recipe, rows).splitlines()
    assert lines[3:] == list(rows.notes)
    return build_panel(recipe, find_sources(recipe, common_folder(sources)))


def confirm(panel: Panel, truth: Truth) -> None:
    """Check that a panel holds what its writer had in mind."""
    size = (len(panel.locations), panel.clock.step_minutes, len(panel.values))
    assert size == (truth.places, truth.minutes, truth.steps)
    assert np.nansum(panel.values, dtype=np.float64) == pytest.approx(truth.total, rel=1e-6)


def read_in_python(paths: list[Path], rules: dict[str, object]) -> Panel:
    """Return the panel of files, as `Panel.from_long` or `from_wide` reads them."""
    table = paths[0] if len(paths) == 1 else paths
    try:
        return Panel.from_long(table, **rules)
    except DataError as error:
        if "Panel.from_wide reads such a table" not in str(error):
            raise
    return Panel.from_wide(table, **rules)


def in_python(question: str) -> str:
    """Return a question with its option as an argument of Python."""
    return re.sub(r"--(\w+) (\S+)", r'\1="\2"', question)


@pytest.mark.parametrize("table", [*TABLES, *FURTHER, *HARDER], ids=lambda table: table.name)
def test_a_table_is_read_as_its_writer_meant_it_or_asks(tmp_path: Path, table: Everyday) -> None:
    paths, truth = table.write(tmp_path)
    question, answer = QUESTIONS.get(table.name, ("", {}))
    if not question:
        confirm(read(paths, {}), truth)
        confirm(read_in_python(paths, {}), truth)
        return
    with pytest.raises(ForecasterError) as caught, naming_options():
        read(paths, {})
    assert question in str(caught.value)
    with pytest.raises(ForecasterError) as caught:
        read_in_python(paths, {})
    assert in_python(question) in str(caught.value)
    confirm(read(paths, answer), truth)
    confirm(read_in_python(paths, answer), truth)
