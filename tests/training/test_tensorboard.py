import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from forecaster.errors import ConfigError
from forecaster.training.progress import Moment
from forecaster.training.tensorboard import TensorBoard

MODULE = "torch.utils.tensorboard"


class Writer:
    """Stands in for torch's SummaryWriter, which needs a package that is not installed here."""

    def __init__(self, folder: str, purge_step: int) -> None:
        self.calls: list[Any] = [("open", folder, purge_step)]
        MADE.append(self)

    def add_scalar(self, name: str, value: float, step: int) -> None:
        self.calls.append((name, value, step))

    def close(self) -> None:
        self.calls.append("close")


MADE: list[Writer] = []


def moment(step: int, loss: float | None, rmse: float | None = None) -> Moment:
    return Moment(1, 3, step, 48, loss, rmse, None, None, None)


def test_what_is_known_of_a_moment_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = ModuleType(MODULE)
    module.SummaryWriter = Writer  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, MODULE, module)
    watch = TensorBoard(tmp_path)
    for each in (moment(14, None), moment(15, 0.5), moment(24, 0.25, 3.0)):
        watch(each)
    watch.close()
    assert MADE[-1].calls == [
        ("open", str(tmp_path), 14),  # events of a killed run after step 14 are purged
        ("loss", 0.5, 15),
        ("loss", 0.25, 24),
        ("rmse", 3.0, 24),
        "close",
    ]


def test_without_the_package_it_is_said_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, MODULE, None)
    with pytest.raises(ConfigError, match="pip install tensorboard"):
        TensorBoard(tmp_path)
