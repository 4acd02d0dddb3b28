from forecaster.report.doctor.checkup import Checkup, Finding
from forecaster.report.doctor.page import render_checkup
from forecaster.report.draw import canvas

EMPTY = canvas.new_figure(1.0, 1.0)


def test_what_came_with_the_data_is_escaped() -> None:
    finding = Finding("locations", "warning", "<script>alert(1)</script>", ("<img onerror=x>",))
    checkup = Checkup({"observed": "50.00 %", "span": '"><b>'}, (finding,))
    page = render_checkup("<i>city</i>", checkup, EMPTY, EMPTY)
    assert "<script>" not in page
    assert "<img onerror" not in page
    assert "<i>city" not in page
    assert "&lt;script&gt;" in page


def test_the_verdict_counts_the_warnings() -> None:
    facts = {"observed": "100.00 %"}
    calm = render_checkup("city", Checkup(facts, (Finding("gaps", "good", "none"),)), EMPTY, None)
    worried = render_checkup(
        "city",
        Checkup(facts, (Finding("gaps", "warning", "many"),)),
        EMPTY,
        None,
    )
    assert "No warnings: the panel is ready to use" in calm
    assert "1 warning: check the data" in worried


def test_the_picture_has_words_for_those_who_cannot_see_it() -> None:
    page = render_checkup("city", Checkup({"observed": "97.00 %"}, ()), EMPTY, None)
    assert (
        'aria-label="Heat map of locations over time: 97.00 % of the values are observed' in page
    )


def test_a_map_is_shown_where_there_are_coordinates() -> None:
    checkup = Checkup({"observed": "97.00 %"}, ())
    assert "Map of the locations" in render_checkup("city", checkup, EMPTY, EMPTY)
    assert "Map of the locations" not in render_checkup("city", checkup, EMPTY, None)


def test_warnings_stand_first_on_the_page_and_in_the_data() -> None:
    levels = ("good", "note", "warning", "note", "warning")
    found = tuple(Finding(f"check {n}", level, "text") for n, level in enumerate(levels))
    checkup = Checkup({"observed": "97.00 %"}, found)
    order = ["check 2", "check 4", "check 1", "check 3", "check 0"]
    assert [one["topic"] for one in checkup.to_json()["findings"]] == order
    page = render_checkup("city", checkup, EMPTY, None)
    places = [page.index(f"<h2>{topic}</h2>") for topic in order]
    assert places == sorted(places)
    assert page.index("<svg") > places[-1]


def test_pictures_take_the_colours_of_a_dark_page() -> None:
    figure = canvas.new_figure(2.0, 1.0)
    canvas.style(figure.subplots(), "time")
    page = render_checkup("city", Checkup({"observed": "97.00 %"}, ()), figure, None)
    assert "var(--ink)" in page
    assert "<img" not in page
