from pathlib import Path

import numpy as np
import pytest

from forecaster.errors import DataError
from forecaster.panel.panel import Panel
from forecaster.panel.storage.blocks import StoredMatrix
from forecaster.panel.storage.deferred import stored_of


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The spans that are read from matrices with a column per location."""
    spans: list[tuple[int, int]] = []
    read = StoredMatrix.read

    def record(self: StoredMatrix, first: int, end: int) -> np.ndarray:
        if self.blocks.layer != "covariates":
            spans.append((first, end))
        return read(self, first, end)

    monkeypatch.setattr(StoredMatrix, "read", record)
    return spans


def test_an_unverified_panel_reads_its_values_when_they_are_needed(
    panel: Panel, tmp_path: Path, reads: list[tuple[int, int]]
) -> None:
    panel.save(tmp_path)
    opened = Panel.open(tmp_path, verify=False)
    assert (opened.shape, repr(opened), len(opened.times)) == (panel.shape, repr(panel), 29)
    assert reads == []
    assert opened.values.tobytes() == panel.values.tobytes()
    assert opened.local_covariates.values.tobytes() == panel.local_covariates.values.tobytes()
    assert reads == [(0, 29), (0, 37)]
    assert not opened.values.flags.writeable
    assert stored_of(opened) is None


def test_a_part_of_an_unverified_panel_is_read_alone(
    panel: Panel, tmp_path: Path, reads: list[tuple[int, int]]
) -> None:
    panel.save(tmp_path)
    opened = Panel.open(tmp_path, verify=False)
    for first, end, known_end in ((3, 7, None), (0, 29, 30), (5, 40, None), (28, 29, 29)):
        part, expected = (p.steps(first, end, known_end) for p in (opened, panel))
        assert part.values.tobytes() == expected.values.tobytes()
        np.testing.assert_array_equal(
            part.local_covariates.values, expected.local_covariates.values, strict=True
        )
        assert part.start == expected.start
    assert reads[:2] == [(3, 7), (3, 37)]
    assert stored_of(opened) is not None


def test_a_verified_panel_is_read_at_once(
    panel: Panel, tmp_path: Path, reads: list[tuple[int, int]]
) -> None:
    panel.save(tmp_path)
    assert stored_of(Panel.open(tmp_path)) is None
    assert reads == [(0, 29), (0, 37)]


def test_values_that_are_read_late_are_checked_as_all_are(panel: Panel, tmp_path: Path) -> None:
    measured = Panel(**{**vars(panel), "values": panel.values - 5, "kind": "measurement"})
    measured.save(tmp_path)
    opened = Panel.open(tmp_path, verify=False)
    object.__setattr__(opened, "kind", "count")
    for _ in range(2):  # it stays unread
        with pytest.raises(DataError, match="7 negative counts"):
            _ = opened.values
