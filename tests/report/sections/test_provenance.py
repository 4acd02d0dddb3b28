from dataclasses import replace
from pathlib import Path

from forecaster.publish.manifest import read_manifest
from forecaster.report.data import Material
from forecaster.report.sections.provenance import (
    describe_data,
    describe_dependencies,
    list_commands,
    list_runs,
    list_versions,
)


def test_the_data_is_known_by_its_hash(material: Material) -> None:
    facts = describe_data(material)
    assert facts["panel hash"] == material.panel.digest
    assert facts["recipe hash"] == material.recipe.digest()
    assert facts["covariates"] == "temperature, rain"
    assert "5 locations" in facts["size"]


def test_every_run_has_its_folder_and_hash(material: Material) -> None:
    runs = list_runs(material)
    assert len(runs) == 6  # two simple models, two networks with two seeds each
    for run in runs:
        assert read_manifest(material.folder / run.folder).digest == run.digest


def test_the_command_is_the_one_that_was_given(material: Material) -> None:
    plain = list_commands(material)["make the comparison again"]
    assert plain.endswith(f"--panel {material.folder / 'panel'}")
    given = replace(material, command="forecaster evaluate r.toml --graph own")
    assert list_commands(given)["make the comparison again"].endswith("--graph own")
    assert list_commands(material)["forecast with Ridge"].endswith("/panel --at TIME")


def test_a_panel_elsewhere_has_to_be_named(material: Material, tmp_path: Path) -> None:
    commands = list_commands(replace(material, folder=tmp_path))
    assert all(command.count("--panel PANEL") == 1 for command in commands.values())


def test_a_graph_is_known_by_its_hash(material: Material) -> None:
    assert material.graph is not None
    assert describe_dependencies(material.graph)["graph hash"] == material.graph.digest


def test_versions_are_told() -> None:
    assert {"python", "forecaster", "torch", "numpy"} <= list_versions().keys()
