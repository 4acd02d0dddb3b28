"""The endpoints that write: observations, covariates and new locations."""

import hashlib
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Request, Response
from fastapi.security import HTTPBearer

from forecaster.errors import DataError, name_some, printable
from forecaster.serve.data.database import Entry, IdempotencyKey, Receipt, Table
from forecaster.serve.data.live import AHEAD_SECONDS
from forecaster.serve.data.registration import Registration, to_locations
from forecaster.serve.data.snapshot import Snapshot
from forecaster.serve.forecasting.engine import Engine
from forecaster.serve.forecasting.new_locations import cannot_forecast
from forecaster.serve.http.content import registered_location
from forecaster.serve.http.routes import (
    WRITE_ERRORS,
    AdminRoute,
    EngineParameter,
    WriteRoute,
    problem_responses,
)
from forecaster.serve.http.schemas import (
    Covariate,
    CovariateBatch,
    NewLocation,
    Observation,
    Observations,
    RegisteredLocation,
    read_time,
)
from forecaster.serve.problems import Problem

NOT_REGISTERED = "no such location; register it with POST /v1/locations, then send it again"
COVARIATES_AHEAD_SECONDS = 31 * 24 * 3600  # no weather forecast reaches further
KeyHeader = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        pattern=r"^[A-Za-z0-9._:-]{1,128}$",
        description="the same key, the same answer: a retry writes nothing twice",
    ),
]
bearer = HTTPBearer(auto_error=False)  # for the OpenAPI document; WriteRoute checks the token

router = APIRouter(
    prefix="/v1",
    route_class=WriteRoute,
    responses=problem_responses(WRITE_ERRORS),
    dependencies=[Depends(bearer)],
)
administration = APIRouter(
    prefix="/v1",
    route_class=AdminRoute,
    responses=problem_responses(WRITE_ERRORS),
    dependencies=[Depends(bearer)],
)


@router.post("/observations")
async def observations(
    request: Request, engine: EngineParameter, batch: Observations, key: KeyHeader = None
) -> Receipt:
    """Write observations; answered once they are on disk."""
    data = engine.data
    entries = observation_entries(batch.observations, data.snapshot, data.now())
    return await _write(request, engine, "observations", entries, key)


@router.post("/covariates")
async def covariates(
    request: Request, engine: EngineParameter, batch: CovariateBatch, key: KeyHeader = None
) -> Receipt:
    """Write covariates of past and coming steps, such as a weather forecast."""
    data = engine.data
    entries = covariate_entries(batch.covariates, data.snapshot, data.now())
    return await _write(request, engine, "covariates", entries, key)


@administration.post(
    "/locations",
    status_code=201,
    response_model=RegisteredLocation,
    responses={
        200: {"description": "It is there already", "model": RegisteredLocation},
        **problem_responses((409,)),
    },
)
async def locations(
    request: Request, engine: EngineParameter, location: NewLocation, response: Response
) -> dict[str, Any]:
    """Register a location; answered once it is on disk.

    The same location again changes nothing (200); its id with other data is refused (409). It is
    forecast after its first day of observations, if the run accepts new locations.
    """
    data = engine.data
    registration = read_registration(location, data.snapshot, data.now())
    model, present = engine.model, (*engine.model.ids, *data.snapshot.locations.ids)
    if registration.id not in present and not model.accepts_new_locations:
        raise cannot_forecast()
    stored, is_new = await data.register(registration)
    request.state.written = {"location": stored.id, "data_version": data.snapshot.version}
    if not is_new:
        response.status_code = 200
    return registered_location(stored, data.snapshot.version)


async def _write(
    request: Request, engine: Engine, table: Table, entries: list[Entry], key: str | None
) -> Receipt:
    digest = hashlib.sha256(request.url.path.encode() + b"\n" + await request.body()).hexdigest()
    idempotency = IdempotencyKey(key, digest) if key is not None else None
    receipt = await engine.data.write(table, entries, int(engine.data.now()), idempotency)
    request.state.written = {**asdict(receipt), "sha256": digest}
    return receipt


def observation_entries(
    batch: Sequence[Observation], snapshot: Snapshot, now: float
) -> list[Entry]:
    """Return the entries of a batch; one Problem lists all faults."""
    ids, counts = set(snapshot.locations.ids), snapshot.base.kind == "count"
    opens = {one.id: one.opens for one in snapshot.registered if one.opens is not None}
    entries: list[Entry] = []
    faults = _BatchFaults()
    for number, row in enumerate(batch):
        seconds = read_time(row.ds)
        if row.location not in ids:
            faults.add("unknown_location", f"observations.{number}: {NOT_REGISTERED}")
        if counts and row.value is not None and row.value < 0:
            faults.add("negative", f"observations.{number}: a count is never below 0")
        if fault := _time_fault(snapshot, seconds, now + AHEAD_SECONDS):
            faults.add(fault[0], f"observations.{number}: {fault[1]}")
        if seconds < opens.get(row.location, seconds):
            faults.add("too_old", f"observations.{number}: before the location opens")
        entries.append((row.location, seconds, row.value))
    faults.add_repeated(entries, "observations")
    faults.raise_any()
    return entries


def covariate_entries(batch: Sequence[Covariate], snapshot: Snapshot, now: float) -> list[Entry]:
    """Return the entries of a batch; one Problem lists all faults."""
    names = set(snapshot.base.covariates.names)
    entries: list[Entry] = []
    faults = _BatchFaults()
    for number, row in enumerate(batch):
        seconds = read_time(row.ds)
        if not names.issuperset(row.values):
            listed = name_some(sorted(names)) or "none"
            faults.add("unknown_covariate", f"covariates.{number}: the panel has {listed}")
        if fault := _time_fault(snapshot, seconds, now + COVARIATES_AHEAD_SECONDS):
            faults.add(fault[0], f"covariates.{number}: {fault[1]}")
        entries += [(name, seconds, value) for name, value in row.values.items()]
    faults.add_repeated(entries, "covariates")
    faults.raise_any()
    return entries


def read_registration(location: NewLocation, snapshot: Snapshot, now: float) -> Registration:
    """Return the registration of a location; unusable names or covariates are a Problem."""
    local = snapshot.base.local_covariates
    names = [name for name in local.names if name not in local.past_only]
    if set(location.covariates) != set(names):
        listed = name_some(names) or "none"
        detail = f"give a value of each local covariate known ahead, and no other: {listed}"
        raise Problem(422, "wrong_covariates", detail)
    registration = Registration(
        id=location.id,
        name=location.name or location.id,
        lat=location.lat,
        lon=location.lon,
        covariates=dict(sorted(location.covariates.items())),
        opens=None if location.opens is None else read_time(location.opens),
        since=int(now),
    )
    try:
        to_locations([registration])
    except DataError as error:
        raise Problem(422, "unusable_location", printable(error)) from error
    return registration


class _BatchFaults:
    """The faults of a batch; the first one gives the code."""

    def __init__(self) -> None:
        self._code: str | None = None
        self._texts: list[str] = []

    def add(self, code: str, text: str) -> None:
        self._code = self._code or code
        self._texts.append(text)

    def add_repeated(self, entries: list[Entry], table: Table) -> None:
        if len({entry[:2] for entry in entries}) < len(entries):
            self.add("doubled", f"{table}: the same step is given twice")

    def raise_any(self) -> None:
        if self._code is not None:
            raise Problem(422, self._code, name_some(self._texts))


def _time_fault(snapshot: Snapshot, seconds: int, latest: float) -> tuple[str, str] | None:
    """Return the code and the text for a time that cannot be written to."""
    step = snapshot.step_at(seconds)
    if step is None:
        return "off_step", f"not the start of a step of {snapshot.base.clock.step_text}"
    if step < 0:
        return "too_old", f"the data begins at {snapshot.time_of(0)}Z"
    if seconds > latest:
        return "in_future", "that step has not begun"
    return None
