// The time series of a location: its history followed by its forecast.

import { daysEarlier, offsetText, wallTime } from "../format.js";

// A function from a time and a number of days to the point observed so many days before at the same
// local time. An hour that occurs twice in a day is told apart by its UTC offset.
function pointDaysBefore(history) {
  const byOffset = new Map();
  const byTime = new Map();
  for (const point of history.filter(({ observed }) => observed !== null)) {
    const time = point.ds_local;
    byOffset.set(wallTime(time) + offsetText(time), point);
    if (!byTime.has(wallTime(time))) byTime.set(wallTime(time), point);
  }
  return (time, days) => {
    const earlier = daysEarlier(time, days);
    return byOffset.get(earlier + offsetText(time)) ?? byTime.get(earlier);
  };
}

// A function from a time, a number of days and the service's value, if it gave one, to the value so many days
// before; null where that value is implausible, since it says nothing about what is usual.
export function valueDaysBefore(history) {
  const before = pointDaysBefore(history);
  return (time, days, value) => {
    const point = before(time, days);
    return point?.implausible ? null : (value ?? point?.observed ?? null);
  };
}

// [{ ds, ds_local, observed, weekBefore }, …, { …, step, forecast, low, high }]. Steps that have been
// observed since the origin are left out of the forecast. For the forecast steps the value a week before
// is the service's.
export function joinSeries(history, steps, row) {
  const before = valueDaysBefore(history);
  const past = history.map((point) => ({ ...point, weekBefore: before(point.ds_local, 7) }));
  const last = past.at(-1);
  const ahead = steps
    .map((time, k) => ({ ...time, ...forecastPoint(row, k) }))
    .map((point) => ({ ...point, weekBefore: before(point.ds_local, 7, point.weekBefore) }))
    .filter(({ ds }) => !last || ds > last.ds);
  if (last && last.observed !== null && ahead.length) Object.assign(last, forecastStart(row, last.observed));
  return [...past, ...ahead];
}

function forecastPoint(row, step) {
  const at = (name) => row?.[name]?.[step];
  const values = { forecast: at("forecast"), low: at("low"), high: at("high"), weekBefore: at("weekBefore") };
  return { step, observed: null, ...values };
}

// The line and its band begin at the last observation.
function forecastStart(row, observed) {
  return row ? { forecast: observed, ...(row.low && { low: observed, high: observed }) } : {};
}
