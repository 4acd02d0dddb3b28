from dataclasses import replace
from pathlib import Path

from forecaster.publish.manifest import read_manifest
from forecaster.report.data import ReportData
from forecaster.report.sections.provenance import (
    describe_data,
    list_commands,
    list_runs,
    list_versions,
)


def test_the_data_is_known_by_its_hash(data: ReportData) -> None:
    facts = describe_data(data)
    assert facts["panel hash"] == data.panel.digest
    assert facts["recipe hash"] == data.recipe.digest()
    assert facts["covariates"] == "temperature, rain"
    assert "5 locations" in facts["size"]


def test_every_run_has_its_folder_and_hash(data: ReportData) -> None:
    runs = list_runs(data)
    assert len(runs) == 6  # two simple models, two networks with two seeds each
    for run in runs:
        assert read_manifest(data.folder / run.folder).digest == run.digest


def test_the_command_is_the_one_that_was_given(data: ReportData) -> None:
    plain = list_commands(data)["repeat the comparison"]
    assert plain.endswith(f"--panel {data.folder / 'panel'}")
    given = replace(data, command="forecaster evaluate r.toml --graph own")
    assert list_commands(given)["repeat the comparison"].endswith("--graph own")
    assert list_commands(data)["forecast with Ridge"].endswith("/panel --at TIME")


def test_a_panel_elsewhere_has_to_be_named(data: ReportData, tmp_path: Path) -> None:
    commands = list_commands(replace(data, folder=tmp_path))
    assert all(command.count("--panel PANEL") == 1 for command in commands.values())


def test_versions_are_told() -> None:
    assert {"python", "forecaster", "torch", "numpy"} <= list_versions().keys()
