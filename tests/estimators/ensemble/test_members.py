"""The members that a recipe asks for."""

from typing import get_args

import pytest

from forecaster.choices import MemberName
from forecaster.errors import ConfigError
from forecaster.estimators.ensemble.members import make_members
from forecaster.recipe import Recipe

ENSEMBLE = {"members": ["Forecaster", "STID-lags", "Ridge"], "seeds": 3}


def test_members_can_be_of_any_kind_with_their_own_or_all_lags() -> None:
    made = make_members(Recipe.of({"ensemble": {"members": list(get_args(MemberName))}}))
    assert [member.name for member in made] == list(get_args(MemberName))
    recipes = {member.name: member.estimator.recipe for member in made}
    assert recipes["DCRNN"].dcrnn.inputs == recipes["STID"].stid.inputs == "recent"
    assert recipes["DCRNN-lags"].dcrnn.inputs == "lags"
    assert recipes["GraphWaveNet-lags"].graph_wavenet.inputs == "lags"
    assert recipes["STAEformer-lags"].staeformer.inputs == "lags"
    assert type(made[1].estimator).__name__ == "STID"


def test_ensembles_with_different_seeds_have_no_training_in_common() -> None:
    seeds = []
    for seed in range(3):
        made = make_members(Recipe.of({"training": {"seed": seed}, "ensemble": ENSEMBLE}))
        seeds += [m.estimator.recipe.training.seed for m in made if m.name.startswith("STID")]
    assert seeds == list(range(9))
    single = Recipe.of({"training": {"seed": 7}, "ensemble": {**ENSEMBLE, "seeds": 1}})
    assert {member.estimator.recipe.training.seed for member in make_members(single)} == {7}
    largest = Recipe.of({"training": {"seed": 2**63 - 1}, "ensemble": ENSEMBLE})
    assert all(m.estimator.recipe.training.seed < 2**63 for m in make_members(largest))


@pytest.mark.parametrize(
    ("members", "fault"), [(["VAR"], "VAR"), ([], "name one member or more"), (["Rige"], "Rige")]
)
def test_a_wrong_list_of_members_is_one_fault(members: list[str], fault: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Recipe.of({"ensemble": {"members": members}})
    assert str(refused.value).count("\n") <= 1
    if members:
        assert "ensemble.members.0" in str(refused.value)
    else:
        assert fault in str(refused.value)
