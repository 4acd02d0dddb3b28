"""Forecasts over HTTP, from a saved run and live observations, and a page that shows them.

The path of a request `GET /v1/forecast`:

1. `http.connection` receives the bytes; when too many forecasts wait, it refuses them at once.
2. `http.limits` checks sizes and headers, and gives the request an id.
3. `http.read` checks the parameters and asks the engine for the forecast of an origin.
4. `forecasting.engine` takes the current `Snapshot` and model, and looks in its cache.
5. A new forecast is a job of `forecasting.worker`: one thread, a bounded queue, a deadline.
6. `forecasting.predictor` takes the part of the panel that the origin may see from the snapshot.
7. The estimator forecasts from it; `OnlineCalibration` corrects its quantiles by past outcomes.
8. `forecasting.encode` turns the numbers into JSON in the same thread.
9. The engine caches the forecast, and equal requests that waited get the same one.
10. `http.read` adds the basis of the forecast, the ETag and the headers.

Writes go through `http.write` and `data.live` into `data.store`; each gives a new `Snapshot`.
"""
