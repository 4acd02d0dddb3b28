"""A page shows texts of the data as text, whatever they are."""

from collections import defaultdict

from forecaster.report.html import render_template


def test_A2_a_page_has_no_hidden_characters() -> None:
    page = render_template(
        "forecaster.report.doctor", "doctor.html", title="\u202egpj.exe\x1b[2J <b>",
        subject="a panel", figures=(), checkup=Nothing(),
    )  # fmt: skip
    assert "\\u202egpj.exe\\x1b[2J &lt;b&gt;" in page
    assert "\u202e" not in page


class Nothing:
    """A checkup without a fact or a finding."""

    facts = defaultdict(str)  # noqa: RUF012 (never changed)
    findings = by_level = ()
    verdict_level = verdict = ""
