from forecaster.report.breakdown import by_hour, place_errors
from forecaster.report.error_pictures import error_pictures
from forecaster.report.material import Material


def test_each_picture_says_the_extremes_that_it_shows(material: Material) -> None:
    pictures = {picture.name: picture for picture in error_pictures(material)}
    assert list(pictures) == [
        "04-hours", "05-weekdays", "06-steps", "07-weather", "08-error-by-location",
    ]  # fmt: skip
    assert material.best is not None
    hours = by_hour([material.best], material.panel)
    assert hours is not None
    worst = hours.labels[int(hours.first.argmax())]
    assert f"are largest at {worst} (RMSE {hours.first.max():.3g})" in pictures["04-hours"].text
    assert " largest on " in pictures["05-weekdays"].text
    assert "From the first step to step 2 RMSE" in pictures["06-steps"].text
    assert "not its effect alone" in pictures["07-weather"].text


def test_the_hardest_place_is_named(material: Material) -> None:
    assert material.best is not None
    _, errors = place_errors(material.best, material.panel)
    picture = list(error_pictures(material))[-1]
    name = material.panel.locations.names[int(errors.argmax())]
    assert f"to {100 * errors.max():.0f} % at {name}" in picture.text


def test_alternatives_name_the_models(material: Material) -> None:
    for picture in list(error_pictures(material))[:4]:
        assert "Ridge, Forecaster and SeasonalNaive" in picture.words
