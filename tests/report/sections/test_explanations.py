from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_hex

from forecaster.explain.explanation import (
    Agreement,
    CityWideEffect,
    CityWideLocation,
    Explanation,
    LocationEffect,
    StepEffect,
    StepForecast,
)
from forecaster.report.data import ReportData, read_report_data
from forecaster.report.draw.canvas import to_png, to_svg
from forecaster.report.sections.explanations import (
    city_wide_sentence,
    draw_explanation,
    explanation_section,
    explanation_sentences,
)
from forecaster.report.sections.section import Section
from tests.report.comparisons import bare_panel, compare, daily_cycle
from tests.report.labels import colliding, cut_off


def place(identity: str, gradient: float) -> LocationEffect:
    gradients = gradient - 1, gradient + 1
    return LocationEffect(
        identity, f"$at_{identity}", 1, 0.2, gradient, gradients, 0.5, 2.0, 3.0, -1.0
    )


@pytest.fixture
def given() -> Explanation:
    """Return an explanation whose numbers are easily told apart."""
    hours = [
        StepEffect("", "", f"t−{n}", "recent" if n < 3 else "days", 0 if n < 3 else 1, 7.0, share,
             (share, share), share, 0.5, -1.5 if n == 4 else -0.25)
        for n, share in zip(range(5), (0.5, 0.2, 0.1, 0.15, 0.05), strict=True)
    ][::-1]  # fmt: skip
    return Explanation(
        estimator="Forecaster",
        origin="2021-04-07T08:00:00Z",
        origin_local="2021-04-07T10:00:00+02:00",
        location="a",
        name="$at_a",
        forecast=(StepForecast("", "", 123.4, 99.6), StepForecast("", "", 5.25, 4.0)),
        step="hour",
        shares_by="attention",
        hours=tuple(hours),
        groups={"recent": 0.8, "days": 0.2},
        own=place("a", 11.0),
        neighbours=(place("b", -7.0), place("c", 3.0)),
        reach=16,
        reached=3,
        city_wide=CityWideEffect(0.25, 1.0, -2.5, (CityWideLocation("d", "Delta", -0.5),)),
        agreement=(Agreement("hours", ("a", "b"), 0.5, "a and b agree in part"),),
        notes=(),
    )


def test_it_is_said_in_words(given: Explanation) -> None:
    assert explanation_sentences(given) == [
        "Forecast: 123 → 5.25; with usual past values: 99.6 → 4.",
        "Attention goes to recent steps (80 %) and days before (20 %), most to t−0 (50 %); "
        "by ablation t−4 has the largest effect (60 %).",
        "The location's own past contributes +11; the largest contributions of others are "
        "$at_b (−7) and $at_c (+3).",
    ]


def test_sources_of_a_directed_graph_have_their_delays(given: Explanation) -> None:
    one, two, none = ((2,), (1, 3), ())
    b, c = given.neighbours
    sources = replace(b, delays=one), replace(c, delays=two), replace(place("e", 1.0), delays=none)
    delayed = replace(given, own=replace(given.own, delays=none), neighbours=sources)
    assert explanation_sentences(delayed)[2] == (
        "The location's own past contributes +11; the largest contributions of others are "
        "$at_b, 2 hours earlier (−7), $at_c, 1 and 3 hours earlier (+3) and $at_e (+1)."
    )
    names = [text.get_text() for text in draw_explanation(delayed).axes[1].get_yticklabels()]
    assert names == [
        "$at_a (itself)", "$at_b\n2 hours earlier", "$at_c\n1 and 3 hours earlier", "$at_e",
    ]  # fmt: skip


def test_of_many_steps_the_first_and_the_last_are_written(given: Explanation) -> None:
    steps = tuple(StepForecast("", "", float(n), float(-n)) for n in range(1, 169))
    assert explanation_sentences(replace(given, forecast=steps))[0] == (
        "Forecast: 1 → 2 → 3 → … → 168; with usual past values: −1 → −2 → −3 → … → −168."
    )


def test_a_closed_step_has_no_number(given: Explanation) -> None:
    first, second = given.forecast
    closed = replace(given, forecast=(replace(first, is_open=False), second))
    assert explanation_sentences(closed)[0] == (
        "Forecast: closed → 5.25; with usual past values: closed → 4."
    )


def test_a_large_contribution_has_no_exponent(given: Explanation) -> None:
    large = replace(given, own=replace(given.own, gradient=-1153.4))
    assert "own past contributes −1,153;" in explanation_sentences(large)[2]


def test_weeks_and_years_that_skip_closed_steps_have_one_label_each(given: Explanation) -> None:
    groups = [("years", 366), ("years", 364), ("weeks", 15), ("weeks", 14), ("weeks", 7)]
    hours = [
        replace(hour, group=group, days=days)
        for hour, (group, days) in zip(given.hours, groups, strict=True)
    ]
    labels = draw_explanation(replace(given, hours=tuple(hours))).axes[0].get_xticklabels()
    assert [text.get_text() for text in labels] == ["1 y", "2 w", "1 w"]


def test_what_sees_all_locations_is_said_apart(given: Explanation) -> None:
    said = city_wide_sentence(given)
    assert said.startswith("25 % of the influence of other locations passes through layers")
    assert "mostly of Delta (−0.5); in total −2.5, by ablation" in said


def test_a_network_without_attention_says_what_it_rests_on(given: Explanation) -> None:
    nothing = CityWideEffect(0.0, 0.0, 0.0, ())
    plain = replace(given, shares_by="ablation", city_wide=nothing)
    assert explanation_sentences(plain)[1] == (
        "By ablation the forecast depends on recent steps (80 %) and days before (20 %), "
        "most on t−0 (50 %)."
    )
    assert city_wide_sentence(plain) == (
        "Other locations have no influence through city-wide layers."
    )
    assert legends(draw_explanation(plain)) == [["ablation", "gradient"], ["gradient", "ablation"]]


def legends(figure: Any) -> list[list[str]]:
    """Return the methods that the legends of both charts name."""
    return [[t.get_text() for t in part.legends[0].get_texts()] for part in figure.subfigs]


@pytest.mark.parametrize("shares_by", ["attention", "ablation"])
def test_a_method_has_one_colour_in_both_charts(given: Explanation, shares_by: str) -> None:
    figure = draw_explanation(replace(given, shares_by=shares_by))
    colours: dict[str, set[str]] = {}
    for axes in figure.axes:
        handles, methods = axes.get_legend_handles_labels()
        for handle, method in zip(handles, methods, strict=True):
            patches = getattr(handle, "patches", None)
            colour = patches[0].get_facecolor() if patches else handle.get_color()
            colours.setdefault(method.split()[0], set()).add(to_hex(colour))
    assert all(len(found) == 1 for found in colours.values()), colours
    assert len({*map(str, colours.values())}) == len(colours) >= 2


def test_the_picture_names_its_place_and_time(given: Explanation) -> None:
    title = draw_explanation(given).get_suptitle()
    assert title.splitlines() == [
        "Why this forecast? $at_a",
        "Forecaster, made 2021-04-07 10:00 for the next 2 hours",
    ]


LONG = "A station with a long name in the centre, platform "


@pytest.mark.parametrize("seasons", [(), (1, 2, 3, 4, 5, 6, 7, 14, 21, 28)])
@pytest.mark.parametrize("recent", [1, 12, 30])
def test_labels_do_not_collide(given: Explanation, seasons: tuple[int, ...], recent: int) -> None:
    pattern = given.hours[0]
    hours = [replace(pattern, group="days", days=day, lag="") for day in sorted(2 * seasons)[::-1]]
    hours += [
        replace(pattern, group="recent", days=0, lag=f"t−{n}") for n in range(recent - 1, -1, -1)
    ]
    others = [replace(place(str(n), -1e4 + n), name=f"{LONG}{n}", delays=(1, 3)) for n in range(9)]
    own = replace(given.own, name=LONG, delays=(1, 2), gradient=123_456.0)
    figure = draw_explanation(
        replace(given, hours=tuple(hours), own=own, neighbours=tuple(others), name=LONG)
    )
    assert not colliding(figure)
    assert not cut_off(figure)
    names = [text.get_text() for text in figure.axes[1].get_yticklabels()]
    assert len(set(names)) == len(names)  # shortened, they are still told apart


def test_a_location_that_no_other_reaches_is_said_to_be_alone(given: Explanation) -> None:
    alone = replace(given, neighbours=())
    assert explanation_sentences(alone)[2] == (
        "The location's own past contributes +11; no other location contributes."
    )


def test_the_figure_has_a_bar_for_each_hour_and_each_location(given: Explanation) -> None:
    above, below = draw_explanation(given).axes
    assert [bar.get_height() for bar in above.patches] == pytest.approx([5, 15, 10, 20, 50])
    assert [text.get_text() for text in above.get_xticklabels()] == ["1 d", "now"]
    assert [bar.get_width() for bar in below.patches] == pytest.approx([11, -7, 3])
    names = [text.get_text() for text in below.get_yticklabels()]
    assert names == ["$at_a (itself)", "$at_b", "$at_c"]
    labels = legends(draw_explanation(given))[1]
    assert labels == ["gradient", "ablation", "ablation incl. city-wide"]


def test_recent_steps_alone_are_named_one_by_one(given: Explanation) -> None:
    recent = replace(given, hours=given.hours[-3:])
    labels = [text.get_text() for text in draw_explanation(recent).axes[0].get_xticklabels()]
    assert labels == ["t−2", "t−1", "t−0"]


def test_the_figure_can_be_written(given: Explanation) -> None:
    assert to_png(draw_explanation(given)).startswith(b"\x89PNG")
    assert to_svg(draw_explanation(given), "why") == to_svg(draw_explanation(given), "why")


def test_only_the_largest_neighbours_are_drawn(given: Explanation) -> None:
    many = replace(given, neighbours=tuple(place(str(n), float(n)) for n in range(19)))
    assert len(draw_explanation(many).axes[1].patches) == 9


def test_hours_without_any_effect_can_be_drawn(given: Explanation) -> None:
    calm = replace(given, hours=tuple(replace(hour, ablation=0.0) for hour in given.hours))
    heights = draw_explanation(calm).axes[0].get_lines()[0].get_ydata()
    assert np.array_equal(heights, np.zeros(5))


@pytest.fixture(scope="module")
def section(sections: list[Section]) -> Section:
    return next(s for s in sections if s.name == "explanations")


def test_a_few_forecasts_are_explained(section: Section) -> None:
    names = [picture.name for picture in section.pictures]
    assert names[0] == "31-why-busiest"
    assert set(names) <= {"31-why-busiest", "32-why-worst", "33-why-hub"}
    assert len({(picture.title, picture.text) for picture in section.pictures}) == len(names)
    assert section.title == "Explanations of Forecaster"


def test_every_picture_says_what_is_in_it(section: Section) -> None:
    for picture in section.pictures:
        assert picture.text.startswith("Forecast origin 2021-04-")
        assert "Attention goes to recent steps" in picture.text
        assert picture.alternative.startswith("Bar charts of the shares of past hours")


def test_agreement_and_the_city_wide_part_are_said_of_each(section: Section) -> None:
    titles = [picture.title for picture in section.pictures]
    assert list(section.facts) == ["City-wide part", "Agreement of the methods"]
    assert list(section.facts["City-wide part"]) == titles
    explained, *pairs = section.facts["Agreement of the methods"].items()
    assert explained[0] == "rank correlation"
    assert "hours: attention and ablation" in dict(pairs)
    for _, values in pairs:
        assert len(values.split(" · ")) == len(titles)


def test_the_busiest_location_is_the_busiest(section: Section, data: ReportData) -> None:
    busiest = data.panel.locations.names[4]  # 53 on average
    assert section.pictures[0].title == f"{busiest}, busiest location"


def test_without_a_model_that_can_be_explained_there_is_nothing(tmp_path: Path) -> None:
    compare(tmp_path, bare_panel(daily_cycle()), ["Ridge", "SeasonalNaive"])
    assert not explanation_section(read_report_data(tmp_path)).pictures
