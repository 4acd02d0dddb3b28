"""A city to look at within a minute."""

import os
from pathlib import Path

import pytest

from forecaster.errors import RunError
from forecaster.serve import demo


def test_the_demo_keeps_its_model_in_a_folder_of_the_users_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo.tempfile, "gettempdir", lambda: str(tmp_path))
    folder = demo.private_folder("demo")
    assert folder.stat().st_mode & 0o777 == 0o700
    assert demo.private_folder("demo") == folder
    folder.chmod(0o777)
    with pytest.raises(RunError, match="others may write"):
        demo.private_folder("demo")
    (tmp_path / f"link-{os.getuid()}").symlink_to(tmp_path)
    with pytest.raises(RunError, match="others may write"):
        demo.private_folder("link")


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread")
def test_the_demo_learns_a_small_city_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo.tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(demo, "LOCATIONS", 3)
    monkeypatch.setattr(demo, "DAYS", 60)
    monkeypatch.setattr(demo, "TRAINING_DAYS", 35)
    monkeypatch.setattr(demo, "TRAINING", demo.TRAINING.model_copy(update={"epochs": 1}))
    said: list[str] = []
    folder, panel, shown = demo.prepare_demo(said.append)
    assert (len(said), len(panel.locations), shown) == (2, 3, 49 * 24)
    said.clear()
    assert demo.prepare_demo(said.append)[0] == folder
    assert len(said) == 1
