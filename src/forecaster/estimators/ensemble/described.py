"""The members of an ensemble in words: their weights, and what each of them adds."""

from collections.abc import Mapping
from typing import Any

NAMES = {"rmse": "RMSE", "mape": "MAPE"}


def describe_errors(about: Mapping[str, Any]) -> str:
    """The errors of an ensemble on validation days that its weights were not chosen by."""
    errors = [f"RMSE {about['rmse']['error']:.4g}"]
    if "mape" in about:
        errors.append(f"MAPE {100 * about['mape']['error']:.2f} %")
    return f"{', '.join(errors)} on days that the weights were not chosen by"


def describe_members(about: Mapping[str, Any]) -> list[str]:
    """Each member with its weights, and how much higher errors are without it; heaviest first.

    Args:
        about: by measure, errors and members, as an ensemble's run describes them.
    """
    members = about["rmse"]["members"]
    by_weight = sorted(members, key=lambda name: (-members[name]["weight"], name))
    return [_describe_member(name, about) for name in by_weight]


def _describe_member(name: str, about: Mapping[str, Any]) -> str:
    weights, added = [], []
    for measure, title in NAMES.items():
        if measure not in about:
            continue
        judged = about[measure]
        member = judged["members"][name]
        weights.append(f"{100 * member['weight']:.0f} %")
        if member["without"] is not None and judged["error"]:
            change = 100 * (member["without"] / judged["error"] - 1)
            added.append(f"{title} {change:+.1f} %".replace("-", "−"))
    text = f"{name} (weight {' and '.join(weights)}"
    return f"{text}; without it {', '.join(added)})" if added else f"{text})"
