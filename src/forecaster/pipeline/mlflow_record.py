"""A record in MLflow of a finished training, update or comparison: `--mlflow URI`."""

import math
import os
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from forecaster.errors import ConfigError, RunError, need_extra, plain_text
from forecaster.recipe import Recipe

EXPERIMENT = "forecaster"  # unless MLFLOW_EXPERIMENT_NAME names another
HASH = "forecaster.hash"  # tag of an entry, by which a repeated command finds it
BATCH = 100  # parameters or metrics of a request
MAX_TEXT = 500  # characters of a parameter
LIMITS = {  # of the client, unless they are set; else a silent server holds it for 20 minutes
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
}
SECRETS = ("MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN")
_ADDRESS = re.compile(r"sqlite:///[^?#]+|https?://[^@?#]+")
_UNUSUAL = re.compile(r"[^\w./ -]")  # in the names of metrics


@dataclass
class MlflowEntry:
    """What is recorded of one training, update or comparison."""

    name: str
    identity: str  # the same for the same content
    recipe: Recipe
    metrics: list[tuple[str, float, int]] = field(default_factory=list)  # name, value, step
    tags: dict[str, str] = field(default_factory=dict)
    files: Sequence[Path] = ()  # those that exist are copied

    def add(self, name: str, value: object, step: int = 0) -> None:
        """Add a finite number; anything else is left out."""
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if is_number and math.isfinite(float(value)):  # type: ignore[arg-type]
            self.metrics.append((_UNUSUAL.sub("_", name), float(value), step))  # type: ignore[arg-type]

    def add_epochs(self, epochs: Sequence[Mapping[str, Any]]) -> None:
        """Add the numbers of each epoch of a training."""
        for record in epochs:
            for name, value in record.items():
                if name != "epoch":
                    self.add(name, value, int(record["epoch"]))

    def add_comparison(self, comparison: Mapping[str, Any]) -> None:
        """Add the errors of each model: step 0 is of all steps, k of those k ahead."""
        self.tags["verdict"] = " ".join(comparison["verdict"])
        for row in comparison["rows"]:
            for weather, errors in row.get("weather", {}).items():
                for metric, means in errors.items():
                    for step, mean in enumerate(means):
                        self.add(f"{row['model']}/{weather}/{metric}", mean["mean"], step)

    def add_verdict(self, verdict: Mapping[str, Any]) -> None:
        """Add the decision about a challenger, and the numbers that it rests on."""
        for name in ("verdict", "reason", "champion", "challenger"):
            self.tags[name] = str(verdict[name])
        for promise in verdict["promises"]:
            for side, value in promise.items():
                self.add(f"{promise['measure']}/{promise['group']}/{side}", value)


class MlflowRecord:
    """The tracking server or store that entries are written to."""

    def __init__(self, uri: str) -> None:
        """Open it before anything is computed, or refuse it: no answer within seconds is none.

        An address with a user, a password or settings is refused: the client logs addresses.
        """
        if not _ADDRESS.fullmatch(uri):
            raise ConfigError(
                "--mlflow takes sqlite:///FILE or https://HOST, without a password, which would "
                "be seen in lists of processes; set MLFLOW_TRACKING_USERNAME and "
                "MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN"
            )
        for name, value in LIMITS.items():
            os.environ.setdefault(name, value)
        self._mlflow = need_extra("mlflow", extra="mlflow")
        if uri.startswith("sqlite"):
            need_extra("alembic", extra="mlflow")
        self._uri = uri
        self._advice = "see that it answers and can be written; nothing was computed"
        self._client = self._call(self._mlflow.MlflowClient, tracking_uri=uri)
        self._experiment = self._find_experiment()
        self._advice = (
            "see that it can be written; what was computed is kept: run the command again"
        )

    def write(self, entry: MlflowEntry) -> bool:
        """Write an entry; return whether it was not there yet."""
        query = f"tags.`{HASH}` = '{entry.identity}' and attributes.status = 'FINISHED'"
        if self._call(self._client.search_runs, [self._experiment], query):
            return False
        tags = {HASH: entry.identity, **entry.tags}
        created = self._call(
            self._client.create_run, self._experiment, run_name=entry.name, tags=tags
        )
        run = created.info.run_id
        self._log(run, entry)
        for path in entry.files:
            if path.is_file():
                self._call(self._client.log_artifact, run, str(path))
        self._call(self._client.log_text, run, entry.recipe.to_toml(), "recipe.toml")
        self._call(self._client.set_terminated, run)
        return True

    def _log(self, run: str, entry: MlflowEntry) -> None:
        entities, now = self._mlflow.entities, int(time.time() * 1000)
        metrics = [entities.Metric(name, value, now, step) for name, value, step in entry.metrics]
        flat = pd.json_normalize(entry.recipe.model_dump(mode="json")).iloc[0].dropna()
        params = [entities.Param(name, str(value)[:MAX_TEXT]) for name, value in flat.items()]
        for first in range(0, max(len(metrics), len(params)), BATCH):
            part = slice(first, first + BATCH)
            self._call(self._client.log_batch, run, metrics[part], params[part])

    def _find_experiment(self) -> str:
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", EXPERIMENT)
        present = self._call(self._client.get_experiment_by_name, name)
        if present is not None:
            return str(present.experiment_id)
        return str(self._call(self._client.create_experiment, name))

    def _call(self, function: Any, *arguments: Any, **named: Any) -> Any:
        """Call the client; its failures are told in one line."""
        try:
            return function(*arguments, **named)
        except Exception as error:  # it has types of requests, SQLAlchemy and its own
            text = plain_text(error, *map(os.environ.get, SECRETS))
            raise RunError(f"--mlflow {self._uri}: {text}; {self._advice}") from None
