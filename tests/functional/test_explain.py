import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from forecaster.estimators.baselines.naive import SeasonalNaive
from forecaster.estimators.checks.sample import RECIPE, small_city
from forecaster.estimators.networks.dcrnn import DCRNN
from forecaster.estimators.networks.forecaster import Forecaster
from forecaster.graph.dependency import DependencyGraph
from forecaster.splits import Splits

Run = Callable[..., tuple[int, str, str]]
AT = "2021-04-07T10:00+02:00"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a panel and the runs of three models."""
    place = tmp_path_factory.mktemp("explain")
    panel = small_city().save(place / "panel")
    splits = Splits.by_share(panel, validation=0.15, test=0.2)
    graph = DependencyGraph.from_edges([("place 0", "place 3"), ("place 3", "place 1")], panel)
    Forecaster(graph, RECIPE).fit(panel, splits).save(place / "run")
    SeasonalNaive(RECIPE).fit(panel, splits).save(place / "naive")
    DCRNN(RECIPE).fit(panel, splits).save(place / "dcrnn")
    directed = replace(
        graph,
        pairs=np.array([[0, 3], [0, 3], [3, 1]]),
        strengths=np.ones(3),
        delays=np.array([1, 2, 1]),
    )
    Forecaster(directed, RECIPE).fit(panel, splits).save(place / "directed")
    return place


def ask(run: Run, folder: Path, *words: object, model: str = "run") -> tuple[int, str, str]:
    return run("explain", folder / model, "--panel", folder / "panel", *words)


def test_a_page_says_why(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    code, text, errors = ask(run, folder, "--at", AT, "--location", "place 3")
    assert code == 0, errors
    words = " ".join(text.split())
    assert "Why this forecast? place 3 (place 3) Forecaster, made 2021-04-07 10:00 for" in words
    assert max(map(len, text.splitlines())) <= 100
    for part in ("Attention goes to recent steps", "Past hours with the largest share", "itself",
                 "City-wide:", "Hours: attention and ablation"):  # fmt: skip
        assert part in words
    assert "place 0 (place 0)" in words
    assert "place 4 (place 4)" not in words.split("City-wide:")[0]  # no edge leads there


def test_a_page_names_the_sources_of_a_directed_graph_with_their_delays(
    run: Run, folder: Path
) -> None:
    code, text, errors = ask(run, folder, "--at", AT, "--location", "place 3", model="directed")
    assert code == 0, errors
    words = " ".join(text.split())
    assert "others are place 0, 1 and 2 hours earlier (" in words
    assert "location edges delay share %" in words
    assert " 1 1, 2 100.0 " in words  # edges, delays, share
    assert "place 1 (" not in words.split("City-wide:")[0]  # it is a target


def test_without_a_time_the_panels_last_step_is_explained(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    city = small_city()
    replace(city, values=np.nan_to_num(city.values)).save(tmp_path)
    words = ("--panel", tmp_path, "--location", "place 3", "--json")
    code, text, errors = run("explain", folder / "run", *words)
    assert code == 0, errors
    assert json.loads(text)["origin"] == f"{city.times[-1]}Z"
    last = json.loads(text)["origin_local"]
    assert errors == f"forecast origin: {last}, the panel's last step; --at sets another\n"


def test_a_page_of_a_network_without_attention_shows_none(run: Run, folder: Path) -> None:
    code, text, errors = ask(run, folder, "--at", AT, "--location", "place 3", model="dcrnn")
    assert code == 0, errors
    words = " ".join(text.split())
    assert "By ablation the forecast depends on recent steps" in words
    assert "Past hours with the largest share of ablation" in words
    assert not {"traced", "city-wide"} & set(words.split("City-wide:")[0].split())
    assert "City-wide: Other locations have no influence through city-wide layers" in words


def test_data_is_printed_if_asked_for(run: Run, folder: Path) -> None:
    code, text, errors = ask(run, folder, "--at", AT, "--location", "place 3", "--json")
    assert code == 0, errors
    known = json.loads(text)
    assert [place["id"] for place in known["neighbours"]] != []
    assert known["reach"] == 16


@pytest.mark.parametrize(
    ("name", "begin"), [("why.png", b"\x89PNG"), ("why.svg", b"<?xml"), ("why.json", b"{")]
)
def test_a_file_is_written_by_its_suffix(
    run: Run, folder: Path, tmp_path: Path, name: str, begin: bytes
) -> None:
    words = ("--at", AT, "--location", "place 3", "--out", tmp_path / name)
    code, text, errors = ask(run, folder, *words)
    assert (code, text) == (0, ""), errors
    assert (tmp_path / name).read_bytes().startswith(begin)


def test_an_unknown_form_is_refused_before_anything_is_done(run: Run, tmp_path: Path) -> None:
    words = ("--at", AT, "--location", "a", "--out", "why.pdf", "--panel", tmp_path / "none")
    code, _, errors = run("explain", tmp_path / "none", *words)
    assert code == 2
    assert "why.pdf: an explanation is written as .json, .png, .svg" in errors


def test_wrong_questions_are_refused_with_what_is_right(run: Run, folder: Path) -> None:
    for words, model, part in (
        (("--at", AT, "--location", "place 33"), "run", "similar: place 3 (place 3)"),
        (("--at", "2021-04-07T10:00", "--location", "place 3"), "run", "has no offset"),
        (("--at", AT, "--location", "place 3"), "naive", "Forecaster, Transformer, DCRNN"),
    ):
        code, text, errors = ask(run, folder, *words, model=model)
        assert (code, text) == (2, "")
        assert part in errors
