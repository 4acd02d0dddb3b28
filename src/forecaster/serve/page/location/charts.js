// One place over time: a bar per observed step, a line with its band for what is expected.
// Every step has its own slot, so the day of a clock change has 23 or 25 bars.

import { element } from "../dom.js";
import { clockOf, dayOf, hourOf, momentOf, numberText } from "../format.js";
import { lookBack } from "./series.js";
import { range } from "../map/projection.js";
import { roundUp } from "../map/scales.js";

const SVG = "http://www.w3.org/2000/svg";
const [HEIGHT, TOP, BOTTOM, LEFT] = [190, 12, 34, 34];

function shape(tag, className, attributes, text = "") {
  const node = document.createElementNS(SVG, tag);
  node.setAttribute("class", className);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.textContent = text;
  return node;
}

// points: [{ds_local, value, before, expected, low, high}] in order of time
export function drawChart(node, points, stepIndex) {
  const frame = frameOf(node, points);
  const svg = shape("svg", "chart", { width: frame.width, height: HEIGHT, "aria-hidden": "true" });
  svg.append(...axes(frame, points), ...bars(frame, points), ...lines(frame, points));
  const cursor = shape("line", "cursor", { y1: TOP, y2: HEIGHT - BOTTOM });
  const chosen = points.findIndex((point) => point.step === stepIndex);
  if (chosen >= 0) svg.append(...chosenDot(frame, points[chosen], chosen));
  svg.append(cursor);
  const tip = element("div", "tip");
  tip.hidden = true;
  node.replaceChildren(svg, tip);
  follow(svg, tip, cursor, frame, points);
}

function frameOf(node, points) {
  const width = Math.max(node.clientWidth, 200);
  const values = points.flatMap(({ value, before, expected, low, high }) => [
    value,
    before,
    expected,
    low,
    high,
  ]);
  const [least, most] = range(values.filter(Number.isFinite));
  const top = roundUp(Math.max(most, 1e-9));
  const bottom = least < 0 ? -roundUp(-least) : 0;
  const slot = (width - LEFT) / points.length;
  const y = (value) => TOP + ((top - value) / (top - bottom)) * (HEIGHT - TOP - BOTTOM);
  return { width, top, bottom, slot, y, x: (i) => LEFT + (i + 0.5) * slot };
}

function axes(frame, points) {
  const nodes = [];
  for (const value of new Set([frame.bottom, 0, frame.top / 2, frame.top])) {
    const y = frame.y(value);
    nodes.push(shape("line", "rule", { x1: LEFT, x2: frame.width, y1: y, y2: y }));
    nodes.push(shape("text", "label end", { x: LEFT - 6, y: y + 4 }, numberText(value)));
  }
  return [...nodes, ...days(frame, points), ...hours(frame, points)];
}

function days(frame, points) {
  const nodes = [];
  let last = -Infinity;
  points.forEach(({ ds_local: time }, i) => {
    if (hourOf(time) !== 0) return;
    const x = LEFT + i * frame.slot;
    nodes.push(shape("line", "midnight", { x1: x, x2: x, y1: TOP, y2: HEIGHT - 4 }));
    if (x - last < 66 || frame.width - x < 40) return;
    nodes.push(shape("text", "label", { x: x + 4, y: HEIGHT - 5 }, dayOf(time)));
    last = x;
  });
  return nodes;
}

function hours(frame, points) {
  const every = [3, 6, 12].find((hours) => hours * frame.slot > 44);
  if (!every) return [];
  return points.flatMap(({ ds_local: time }, i) =>
    hourOf(time) % every === 0 && frame.x(i) < frame.width - 14
      ? [shape("text", "label middle", { x: frame.x(i), y: HEIGHT - 20 }, clockOf(time))]
      : [],
  );
}

function bars(frame, points) {
  const width = Math.max(frame.slot - (frame.slot > 4 ? 1.5 : 0.3), 0.8);
  return points.flatMap(({ ds, value }, i) => {
    if (value === null || value === undefined) return [];
    const [from, to] = [frame.y(Math.max(value, 0)), frame.y(Math.min(value, 0))];
    const at = { x: frame.x(i) - width / 2, y: from, width, height: Math.max(to - from, 0.8) };
    return [shape("rect", "observed", { ...at, "data-ds": ds })];
  });
}

function lines(frame, points) {
  const at = (key) =>
    points.flatMap((point, i) => (Number.isFinite(point[key]) ? [[frame.x(i), frame.y(point[key])]] : []));
  const path = (pairs) =>
    pairs.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
  const [low, high, expected] = [at("low"), at("high"), at("expected")];
  const nodes = [shape("path", "before", { d: path(at("before")) })];
  if (low.length && low.length === high.length) {
    nodes.push(shape("path", "band", { d: `${path(high)}${path([...low].reverse()).replace("M", "L")}Z` }));
  }
  nodes.push(shape("path", "expected", { d: path(expected) }));
  return nodes;
}

function chosenDot(frame, point, i) {
  if (!Number.isFinite(point.expected)) return [];
  return [shape("circle", "now", { cx: frame.x(i), cy: frame.y(point.expected), r: 4.5 })];
}

function follow(svg, tip, cursor, frame, points) {
  svg.addEventListener("pointermove", (event) => {
    const i = Math.floor((event.offsetX - LEFT) / frame.slot);
    if (!points[i]) return hide(tip, cursor);
    cursor.setAttribute("x1", frame.x(i));
    cursor.setAttribute("x2", frame.x(i));
    cursor.classList.add("shown");
    tip.hidden = false;
    tip.replaceChildren(...describe(points[i]));
    const side = frame.x(i) > frame.width / 2;
    tip.style.left = side ? "" : `${frame.x(i) + 12}px`;
    tip.style.right = side ? `${frame.width - frame.x(i) + 12}px` : "";
    tip.style.top = "8px";
  });
  svg.addEventListener("pointerleave", () => hide(tip, cursor));
}

function hide(tip, cursor) {
  tip.hidden = true;
  cursor.classList.remove("shown");
}

export function describe({ ds_local: time, value, step, expected, low, high, before }) {
  const rows = [element("strong", "", momentOf(time))];
  const add = (label, text) => rows.push(element("span", "", `${label} ${text}`));
  if (value !== null && value !== undefined) add("observed", numberText(value));
  if (step !== undefined) add("expected", numberText(expected));
  if (step !== undefined && Number.isFinite(low)) add("likely", `${numberText(low)} to ${numberText(high)}`);
  if (Number.isFinite(before)) add("a week before", numberText(before));
  return rows;
}

// What a chart shows, for those who would rather read or hear it.

export function tableOf(points) {
  const heads = row("th", ["time", "observed", "expected", "likely range"]);
  return element("table", "", heads, ...points.toReversed().map((point) => row("td", cells(point))));
}

function cells({ ds_local: time, value, step, expected, low, high }) {
  const observed = [momentOf(time), numberText(value)];
  if (step === undefined) return [...observed, "", ""];
  return [...observed, numberText(expected), rangeText(low, high)];
}

export function rangeText(low, high) {
  return Number.isFinite(low) ? `${numberText(low)} to ${numberText(high)}` : "";
}

function row(tag, texts) {
  return element("tr", "", ...texts.map((text) => element(tag, "", text)));
}

// The coming hours beside the same hours of earlier weeks: grey dots, paler the longer ago.

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
  node.setAttribute("aria-label", describeWeek(week));
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

function describeWeek({ time, past, expected }) {
  const before = past.map(numberText).join(", ");
  const now = `${dayOf(time)} ${clockOf(time)}: expected ${numberText(expected)}`;
  return `${now}; 1 to ${past.length} weeks before ${before}`;
}
