"""The files of the page."""

from forecaster.serve.http.assets import load_assets


def test_the_page_has_no_program_of_python_in_it() -> None:
    assets = load_assets()
    assert "index.html" in assets
    assert not [name for name in assets if name.endswith(".py") or ".." in name]
    assert assets["index.html"].media_type == "text/html"
