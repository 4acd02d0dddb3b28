import numpy as np
import pytest

from forecaster.report.draw.canvas import FAINT, to_svg
from forecaster.report.draw.charts import draw_breakdown, line_styles, rank_locations, shorten
from forecaster.report.groups import Breakdown


def breakdown(labels: int, models: int) -> Breakdown:
    rmse = {f"model {n}": np.arange(1.0, labels + 1) for n in range(models)}
    return Breakdown(tuple(f"{n}:00" for n in range(labels)), np.full(labels, 29), rmse)


def test_models_are_told_apart_by_colour_and_by_mark() -> None:
    found = line_styles(["a", "b", "c", "d"])
    assert list(found) == ["a", "b", "c", "d"]
    assert len({look.colour for look in found.values()}) == 4
    assert len({look.mark for look in found.values()}) == 4
    assert found["d"].colour == FAINT


@pytest.mark.parametrize(("labels", "models"), [(2, 1), (7, 3), (24, 3)])
def test_every_model_has_a_line(labels: int, models: int) -> None:
    figure = draw_breakdown(breakdown(labels, models), "hour")
    lines = figure.axes[0].lines
    assert [line.get_ydata().tolist() for line in lines] == [
        [*np.arange(1.0, labels + 1)]
    ] * models
    assert figure.axes[0].get_ylim()[0] == 0  # a small difference must not look large
    for n in range(models):
        assert f"model {n}".encode() in to_svg(figure, "x")


def test_errors_are_ranked_where_there_are_any() -> None:
    assert rank_locations(np.array([0.2, np.nan, 0.7, 0.1])).tolist() == [2, 0, 3]


def test_long_names_leave_room() -> None:
    assert shorten("Upper East Side") == "Upper East Side"
    assert shorten("a" * 40 + " platform 7") == "a" * 17 + "…platform 7"
