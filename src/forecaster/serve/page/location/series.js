// The history of a place and its forecast as one row of time.

import { earlier, offsetOf, wallOf } from "../format.js";

// A function from a time and days back to what was observed at that reading of the clock. An hour
// that the clock shows twice is found by its offset first.
export function lookBack(history) {
  const exact = new Map();
  const first = new Map();
  for (const { ds_local: time, value } of history) {
    exact.set(wallOf(time) + offsetOf(time), value);
    if (!first.has(wallOf(time))) first.set(wallOf(time), value);
  }
  return (time, days) => {
    const wall = earlier(time, days);
    return exact.get(wall + offsetOf(time)) ?? first.get(wall) ?? null;
  };
}

// [{ ds, ds_local, value, before }, …, { …, step, expected, low, high }]: what has been observed
// since is no longer expected.
export function joinSeries(history, steps, row) {
  const before = lookBack(history);
  const past = history.map((point) => ({ ...point, before: before(point.ds_local, 7) }));
  const last = past.at(-1);
  const coming = steps
    .map((time, k) => ({ ...time, ...expectedAt(row, k), before: before(time.ds_local, 7) }))
    .filter(({ ds }) => !last || ds > last.ds);
  if (last && last.value !== null && coming.length) Object.assign(last, startOf(row, last.value));
  return [...past, ...coming];
}

function expectedAt(row, step) {
  return { step, value: null, expected: row?.expected[step], low: row?.low?.[step], high: row?.high?.[step] };
}

// The line and its band begin where the observations end.
function startOf(row, value) {
  return row ? { expected: value, ...(row.low && { low: value, high: value }) } : {};
}
