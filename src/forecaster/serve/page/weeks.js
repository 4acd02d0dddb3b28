// The coming hours beside the same hours of earlier weeks: grey dots, paler the longer ago.

import { lookBack } from "./series.js";
import { clockOf, dayOf } from "./time.js";
import { element, numberText } from "./words.js";

export const WEEKS = 4;

export function showWeeks(node, history, { steps }, row, chosen) {
  const before = lookBack(history);
  const rows = steps.map(({ ds_local: time }, k) => ({
    time,
    past: Array.from({ length: WEEKS }, (_, i) => before(time, 7 * (i + 1))),
    expected: row?.expected[k],
    low: row?.low?.[k],
    high: row?.high?.[k],
  }));
  const scale = scaleOf(rows.flatMap(({ past, expected, low, high }) => [...past, expected, low, high]));
  node.replaceChildren(...rows.map((week, k) => weekRow(week, scale, k === chosen)));
}

function scaleOf(values) {
  const known = values.filter(Number.isFinite);
  const top = Math.max(...known, 1e-9);
  const bottom = Math.min(...known, 0);
  return (value) => (100 * (value - bottom)) / (top - bottom);
}

function weekRow(week, scale, chosen) {
  const clock = element("span", "", clockOf(week.time));
  const expected = element("b", "", numberText(week.expected));
  const node = element("div", chosen ? "week chosen" : "week", clock, trackOf(week, scale), expected);
  node.setAttribute("role", "img");
  node.setAttribute("aria-label", describe(week));
  return node;
}

function trackOf({ past, expected, low, high }, scale) {
  const track = element("div", "track");
  const add = (className, value, width) => {
    if (!Number.isFinite(value)) return;
    const mark = element("i", className);
    mark.style.left = `${scale(value)}%`;
    if (width !== undefined) mark.style.width = `${width}%`;
    track.append(mark);
  };
  add("band", low, scale(high) - scale(low));
  past.forEach((value, i) => add(`past w${i + 1}`, value));
  add("expected", expected);
  return track;
}

function describe({ time, past, expected }) {
  const before = past.map(numberText).join(", ");
  const now = `${dayOf(time)} ${clockOf(time)}: expected ${numberText(expected)}`;
  return `${now}; 1 to ${past.length} weeks before ${before}`;
}
