"""The report of a comparison, section by section."""

from collections.abc import Callable

from forecaster.report.error_pictures import error_pictures
from forecaster.report.forecast_pictures import forecast_pictures
from forecaster.report.interval_pictures import sure_section
from forecaster.report.learning_pictures import (
    describe_trainings,
    learning_pictures,
    read_trainings,
)
from forecaster.report.material import Material
from forecaster.report.picture import Section
from forecaster.report.place_pictures import graph_pictures, place_pictures
from forecaster.report.provenance import describe_dependencies
from forecaster.report.what_if_pictures import what_if_section
from forecaster.report.why_pictures import why_section

Say = Callable[[str], None]


def make_sections(material: Material, say: Say) -> list[Section]:
    """Return all pictures that the material allows, by section."""
    sections = []
    if material.best is not None:
        say(f"forecasting with {material.best.name}")
        sections = [
            _forecasts(material),
            _errors(material),
            sure_section(material),
            why_section(material),
            what_if_section(material),
        ]
    say("drawing")
    sections += [_places(material), _learning(material)]
    return [section for section in sections if section.pictures]


def _forecasts(material: Material) -> Section:
    name = material.best.name if material.best is not None else ""
    text = f"Forecasts of {name}, made as if at that time, with what was known then."
    pictures = list(forecast_pictures(material))
    return Section("forecasts", "Forecasts against what came", text, pictures)


def _errors(material: Material) -> Section:
    text = "RMSE on the test windows, on the same values for all models."
    return Section("errors", "When and where it errs", text, list(error_pictures(material)))


def _places(material: Material) -> Section:
    graph = material.graph
    text = "Which locations are forecast."
    pictures = list(place_pictures(material.panel))
    if graph is None:
        return Section("places", "Places", text, pictures)
    text = "Which locations are forecast, and which of them help to forecast each other."
    facts = {"How the graph was chosen": describe_dependencies(graph)}
    pictures += graph_pictures(graph)
    return Section("places", "Places and what they depend on", text, pictures, facts)


def _learning(material: Material) -> Section:
    trainings = read_trainings(material)
    text = "The loss is η·RMSE² + MAPE; the epoch with the lowest validation loss is kept."
    facts = {"How each training ended": describe_trainings(trainings)}
    pictures = list(learning_pictures(trainings))
    return Section("learning", "How the networks learned", text, pictures, facts)
