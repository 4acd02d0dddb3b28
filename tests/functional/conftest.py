"""What the tests of the command share."""

from collections.abc import Callable

import pytest

from forecaster.cli.app import main


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Return a function that runs the command in this process: exit code, output, errors."""

    def call(*words: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as left:
            main([str(word) for word in words])
        printed = capsys.readouterr()
        return int(left.value.code or 0), printed.out, printed.err

    return call
