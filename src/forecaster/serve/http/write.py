"""What may be written: observations and covariates."""

import hashlib
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Request
from fastapi.security import HTTPBearer

from forecaster.serve.data.store import Entry, Receipt, Table, Ticket
from forecaster.serve.forecasting.engine import Engine
from forecaster.serve.http import schemas
from forecaster.serve.http.intake import take_covariates, take_observations
from forecaster.serve.http.routes import WRITTEN, WriteRoute, engine_of, problems

Asked = Annotated[Engine, Depends(engine_of)]
Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        pattern=r"^[A-Za-z0-9._:-]{1,128}$",
        description="the same key, the same answer: a retry writes nothing twice",
    ),
]
bearer = HTTPBearer(auto_error=False)  # for the document; the route checks before it reads a body

router = APIRouter(
    prefix="/v1",
    route_class=WriteRoute,
    responses=problems(WRITTEN),
    dependencies=[Depends(bearer)],
)


@router.post("/observations", response_model=schemas.Receipt)
async def observations(
    request: Request, engine: Asked, batch: schemas.Observations, key: Key = None
) -> Receipt:
    """Write what was observed; answered once it is safe on disk."""
    entries = take_observations(batch.observations, engine.present.overlay, engine.present.now())
    return await _write(request, engine, "observations", entries, key)


@router.post("/covariates", response_model=schemas.Receipt)
async def covariates(
    request: Request, engine: Asked, batch: schemas.CovariateBatch, key: Key = None
) -> Receipt:
    """Write what is known of past and coming steps, such as a weather forecast."""
    entries = take_covariates(batch.covariates, engine.present.overlay, engine.present.now())
    return await _write(request, engine, "covariates", entries, key)


async def _write(
    request: Request, engine: Engine, table: Table, entries: list[Entry], key: str | None
) -> Receipt:
    digest = hashlib.sha256(request.url.path.encode() + b"\n" + await request.body()).hexdigest()
    ticket = Ticket(key, digest) if key is not None else None
    return await engine.present.live.write(table, entries, int(engine.present.now()), ticket)
