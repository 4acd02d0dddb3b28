"""Forecasts over HTTP, from a saved run and live observations, and a page that shows them.

`service` puts the engine together, `http.app` is the web application, `http.server` runs it.
How `GET /v1/forecast` is answered (with other packages: `docs/understand/architecture.md`):

1. `http.connection` receives the bytes; too many requests for past origins are refused here.
2. `http.limits` checks sizes and headers, and gives the request an id.
3. `http.read` checks the parameters and asks the engine for the forecast of an origin.
4. `forecasting.engine` takes the model and the current `Snapshot`, and looks in its cache.
5. A new forecast is a job of `forecasting.worker`: one thread, a bounded queue, a deadline.
6. `forecasting.predictor` cuts from the snapshot the part of the panel that the origin may see.
7. The estimator forecasts from it; `OnlineCalibration` corrects the quantiles by past outcomes.
8. `forecasting.encode` turns the numbers into JSON in the same thread.
9. The engine caches the forecast, and equal requests that waited get the same one.
10. `http.read` adds model, data version and age, the ETag and headers.

Writes go through `http.write` and `data.live` into `data.store`; each gives a new `Snapshot`.
"""
