from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forecaster.errors import ArtifactError
from forecaster.panel.folder import read_parts
from forecaster.panel.panel import Panel
from forecaster.publish.manifest import Manifest, read_manifest


def saved(panel: Panel, folder: Path, **about: Any) -> Manifest:
    """Save a panel and return its manifest, with other words about it."""
    panel.save(folder)
    manifest = read_manifest(folder)
    return replace(manifest, about={**manifest.about, **about})


def test_the_parts_read_are_those_of_the_panel(panel: Panel, tmp_path: Path) -> None:
    parts = read_parts(tmp_path, saved(panel, tmp_path))
    assert (parts.start, parts.clock, parts.kind) == (panel.start, panel.clock, panel.kind)
    assert (parts.locations.ids, parts.counts) == (panel.locations.ids, panel.counts)
    for mine, its in (
        (parts.values, panel.values),
        (parts.covariates.values, panel.covariates.values),
        (parts.local_covariates.values, panel.local_covariates.values),
    ):
        np.testing.assert_array_equal(mine, its)


@pytest.mark.parametrize(
    ("about", "told"),
    [
        ({"kind": "mood"}, "kind 'mood'.*upgrade"),
        ({"lag_clock": "utc"}, "lag rule 'utc'.*upgrade"),
    ],
)
def test_what_this_program_does_not_know_is_named(
    panel: Panel, tmp_path: Path, about: dict[str, str], told: str
) -> None:
    with pytest.raises(ArtifactError, match=told):
        read_parts(tmp_path, saved(panel, tmp_path, **about))
