"""Forecasts over HTTP, from a saved run and live observations, and a page that shows them.

`service` puts the engine together, `http.app` is the web application, `http.server` runs it.
How `GET /v1/forecast` is answered (with other packages: `docs/understand/architecture.md`):

1. `http.connection` receives the bytes; too many requests for past origins are refused here.
2. `http.limits` checks sizes and headers, and gives the request an id.
3. `http.app` finds the route; `http.routes` refuses unknown and repeated parameters.
4. `http.read` finds the column of the location and the step of the origin.
5. `forecasting.engine` takes the model and the current `Snapshot`; `data.live` has the newest
   origin. It looks into its cache, which `forecasting.background` fills when a step ends.
6. A new forecast is a job of `forecasting.worker`: one thread, a bounded queue, a deadline.
   If it takes long, a provisional forecast without online quantiles is sent and not cached.
7. `forecasting.predictor` cuts from the snapshot the part of the panel that the origin may see.
8. The estimator forecasts from it; `OnlineCalibration` corrects the quantiles by past outcomes.
9. `forecasting.encode` turns the numbers into JSON in the same thread.
10. The engine caches the forecast, and equal requests that waited get the same one.
11. `http.read` adds model, data version, origin and age (`http.content`), ETag and headers, or
    answers 304.

Writes go through `http.write` and `data.live` into `data.store`; each gives a new `Snapshot`.
"""
