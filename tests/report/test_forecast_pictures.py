from forecaster.report.forecast_pictures import forecast_pictures
from forecaster.report.forecasts import worst_span
from forecaster.report.material import Material
from forecaster.report.words import number


def test_a_normal_week_and_the_worst_day_are_shown(material: Material) -> None:
    normal, worst = forecast_pictures(material)
    assert (normal.name, normal.title) == ("02-normal-week", "A normal week")
    assert (worst.name, worst.title) == ("03-worst-day", "The worst day")
    assert material.best is not None
    span = worst_span(material.best.first, material.panel)
    assert worst.text.startswith(f"{span}: RMSE {number(span.rmse)}, ")
    assert "One step ahead these are off by" in worst.text
    assert " of what came lay within the 80 % interval." in worst.text
    assert material.panel.locations.names[4] in worst.words  # the busiest
