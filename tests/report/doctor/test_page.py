from forecaster.report.doctor.checkup import Checkup, Finding
from forecaster.report.doctor.page import render_checkup


def test_what_came_with_the_data_is_escaped() -> None:
    finding = Finding("locations", "warning", "<script>alert(1)</script>", ("<img onerror=x>",))
    checkup = Checkup({"observed": "50.00 %", "span": '"><b>'}, (finding,))
    page = render_checkup("<i>city</i>", checkup, b"png", b"map")
    assert "<script>" not in page
    assert "<img onerror" not in page
    assert "<i>city" not in page
    assert "&lt;script&gt;" in page


def test_the_verdict_counts_the_warnings() -> None:
    facts = {"observed": "100.00 %"}
    calm = render_checkup("city", Checkup(facts, (Finding("gaps", "good", "none"),)), b"", None)
    worried = render_checkup(
        "city", Checkup(facts, (Finding("gaps", "warning", "many"),)), b"", None
    )
    assert "No warnings: the panel is ready to use" in calm
    assert "1 warning: check the data" in worried


def test_the_picture_has_words_for_those_who_cannot_see_it() -> None:
    page = render_checkup("city", Checkup({"observed": "97.00 %"}, ()), b"", None)
    assert 'alt="Heat map of locations over time: 97.00 % of the values are observed' in page


def test_a_map_is_shown_where_there_are_coordinates() -> None:
    checkup = Checkup({"observed": "97.00 %"}, ())
    assert "Map of the locations" in render_checkup("city", checkup, b"", b"map")
    assert "Map of the locations" not in render_checkup("city", checkup, b"", None)
