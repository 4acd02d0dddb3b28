"""A comparison that many tests look at."""

from pathlib import Path

import pytest
import torch

from forecaster.evaluation.model_specs import Ablations
from forecaster.report.comparison import make_sections
from forecaster.report.data import ReportData, read_report_data
from forecaster.report.sections.section import Section
from tests.report.comparisons import compare, placed_city


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a comparison of simple models and networks, with ablations of which one failed."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    place = tmp_path_factory.mktemp("comparison")
    models = ("SeasonalNaive", "Ridge", "Forecaster")
    ablations = Ablations(graph=["own", "distance"])
    compare(place, placed_city(), models, ablations, training={"epochs": 2})
    torch.set_num_threads(threads)
    return place


@pytest.fixture(scope="session")
def data(folder: Path) -> ReportData:
    """Return the same, read."""
    return read_report_data(folder)


@pytest.fixture(scope="session")
def sections(data: ReportData) -> list[Section]:
    """Return all sections of its report."""
    return make_sections(data, lambda _: None)
