"""How requests are let in."""

import pytest

from forecaster.serve.http.routes import check_token
from forecaster.serve.problems import Problem
from tests.serve.client import TOKEN


def test_V10_tokens_are_compared_whole() -> None:
    check_token(TOKEN, f"Bearer {TOKEN}")
    check_token(TOKEN, f"bearer  {TOKEN} ")
    for wrong in ("", "Bearer", f"Bearer {TOKEN}x", f"Token {TOKEN}", TOKEN, "Bearer \udcff"):
        with pytest.raises(Problem):
            check_token(TOKEN, wrong)
