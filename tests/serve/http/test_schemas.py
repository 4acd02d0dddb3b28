"""Bad input ends at the border."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecaster.serve.http.schemas import read_json, read_time
from forecaster.serve.problems import Problem


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2015-11-01T05:00:00Z", 1446354000),
        ("2015-11-01T01:00:00-04:00", 1446354000),
        ("2015-11-01T00:00:00-05:00", 1446354000),
        ("2015-11-01T06:00:00 01:00", 1446354000),  # a + that a URL has lost
    ],
)
def test_a_time_is_an_instant(text: str, seconds: int) -> None:
    assert read_time(text) == seconds


@given(st.text(max_size=30).filter(lambda text: "T" not in text))
def test_other_text_is_refused_in_words(text: str) -> None:
    with pytest.raises(ValueError, match=r"^give a "):
        read_time(text)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b'{"a": 1, "a": 1}', "not_json"),
        (b'{"b": {"a": 1, "a": 2}}', "not_json"),
        (b"[NaN]", "not_json"),
        (b"-Infinity", "not_json"),
        (b"9" * 5_000, "not_json"),
        (b"\xff", "not_json"),
        (b"[" * 200_000, "too_deep"),
    ],
)
def test_V4_json_that_others_read_differently_is_refused(body: bytes, code: str) -> None:
    with pytest.raises(Problem) as refusal:
        read_json(body)
    assert (refusal.value.status_code, refusal.value.code) == (422, code)


def test_json_is_read() -> None:
    assert read_json(b'{"a": [1, 2.5, null, "x"]}') == {"a": [1, 2.5, None, "x"]}
