// The charts of a location: its series over time (also as a table), and the same hours of earlier weeks.

import { element } from "../dom.js";
import { clockText, countText, dateTimeText, dayText, hourOf, intervalText, numberText } from "../format.js";
import { valueDaysBefore } from "./series.js";
import { extent } from "../map/projection.js";
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

// A bar per observed step, a line with its interval for the forecast. Every step has its own slot, so a
// day on which the clock changes has 23 or 25 bars.
// Implausible values do not set the scale: they end at its edge, with a mark.
// points: [{ ds_local, observed, implausible, weekBefore, forecast, low, high }] in order of time
export function drawChart(node, points, stepIndex) {
  const frame = frameOf(node, points);
  const svg = shape("svg", "chart", { width: frame.width, height: HEIGHT, "aria-hidden": "true" });
  svg.append(...axes(frame, points), ...bars(frame, points), ...lines(frame, points), ...beyond(frame, points));
  const cursor = shape("line", "cursor", { y1: TOP, y2: HEIGHT - BOTTOM });
  const selected = points.findIndex((point) => point.step === stepIndex);
  if (selected >= 0) svg.append(...selectedDot(frame, points[selected], selected));
  svg.append(cursor);
  const tip = element("div", "tip");
  tip.hidden = true;
  node.replaceChildren(svg, tip);
  follow(svg, tip, cursor, frame, points);
}

function frameOf(node, points) {
  const width = Math.max(node.clientWidth, 200);
  const values = points.flatMap(({ observed, implausible, weekBefore, forecast, low, high }) => [
    ...(implausible ? [] : [observed, forecast, low, high]), // the forecast begins at the last observation
    weekBefore,
  ]);
  const [least, most] = extent(values.filter(Number.isFinite));
  const top = roundUp(Math.max(most, 1e-9));
  const bottom = least < 0 ? -roundUp(-least) : 0;
  const slot = (width - LEFT) / points.length;
  const within = (value) => Math.min(Math.max(value, bottom), top);
  const y = (value) => TOP + ((top - within(value)) / (top - bottom)) * (HEIGHT - TOP - BOTTOM);
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
    nodes.push(shape("text", "label", { x: x + 4, y: HEIGHT - 5 }, dayText(time)));
    last = x;
  });
  return nodes;
}

function hours(frame, points) {
  const every = [3, 6, 12].find((hours) => hours * frame.slot > 44);
  if (!every) return [];
  return points.flatMap(({ ds_local: time }, i) =>
    hourOf(time) % every === 0 && frame.x(i) < frame.width - 14
      ? [shape("text", "label middle", { x: frame.x(i), y: HEIGHT - 20 }, clockText(time))]
      : [],
  );
}

function bars(frame, points) {
  const width = Math.max(frame.slot - (frame.slot > 4 ? 1.5 : 0.3), 0.8);
  return points.flatMap(({ ds, observed }, i) => {
    if (observed === null || observed === undefined) return [];
    const [from, to] = [frame.y(Math.max(observed, 0)), frame.y(Math.min(observed, 0))];
    const at = { x: frame.x(i) - width / 2, y: from, width, height: Math.max(to - from, 0.8) };
    return [shape("rect", "observed", { ...at, "data-ds": ds })];
  });
}

function beyond(frame, points) {
  const outside = ({ observed }) => Number.isFinite(observed) && (observed > frame.top || observed < frame.bottom);
  return points.flatMap((point, i) => {
    if (!outside(point)) return [];
    const y = point.observed > frame.top ? TOP - 2 : HEIGHT - BOTTOM + 10;
    return [shape("text", "label middle beyond", { x: frame.x(i), y }, `! ${numberText(point.observed)}`)];
  });
}

function lines(frame, points) {
  const at = (key) =>
    points.flatMap((point, i) => (Number.isFinite(point[key]) ? [[frame.x(i), frame.y(point[key])]] : []));
  const path = (pairs) =>
    pairs.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
  const [low, high, forecast] = [at("low"), at("high"), at("forecast")];
  const nodes = [shape("path", "week-before", { d: path(at("weekBefore")) })];
  if (low.length && low.length === high.length) {
    nodes.push(shape("path", "band", { d: `${path(high)}${path([...low].reverse()).replace("M", "L")}Z` }));
  }
  nodes.push(shape("path", "forecast", { d: path(forecast) }));
  return nodes;
}

function selectedDot(frame, point, i) {
  if (!Number.isFinite(point.forecast)) return [];
  return [shape("circle", "now", { cx: frame.x(i), cy: frame.y(point.forecast), r: 4.5 })];
}

function follow(svg, tip, cursor, frame, points) {
  svg.addEventListener("pointermove", (event) => {
    const i = Math.floor((event.offsetX - LEFT) / frame.slot);
    if (!points[i]) return hide(tip, cursor);
    cursor.setAttribute("x1", frame.x(i));
    cursor.setAttribute("x2", frame.x(i));
    cursor.classList.add("shown");
    tip.hidden = false;
    tip.replaceChildren(...tooltipRows(points[i]));
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

function tooltipRows({ ds_local: time, observed, step, forecast, low, high, weekBefore }) {
  const rows = [element("strong", "", dateTimeText(time))];
  const add = (label, text) => rows.push(element("span", "", `${label} ${text}`));
  if (observed !== null && observed !== undefined) add("observed", numberText(observed));
  if (step !== undefined) add("forecast", numberText(forecast));
  if (step !== undefined && Number.isFinite(low)) add("interval", intervalText(low, high));
  if (Number.isFinite(weekBefore)) add("a week before", numberText(weekBefore));
  return rows;
}

// The points of the chart as a table, the latest first.

export function seriesTable(points) {
  const heads = row("th", ["time", "observed", "forecast", "interval"]);
  return element("table", "", heads, ...points.toReversed().map((point) => row("td", cells(point))));
}

function cells({ ds_local: time, observed, step, forecast, low, high }) {
  const measured = [dateTimeText(time), numberText(observed)];
  if (step === undefined) return [...measured, "", ""];
  return [...measured, numberText(forecast), intervalText(low, high)];
}

function row(tag, texts) {
  return element("tr", "", ...texts.map((text) => element(tag, "", text)));
}

// The forecast steps beside the same hours of earlier weeks: grey dots, paler the longer ago. The value a
// week before is the service's; older ones come from the history.

export const WEEKS = 4;
const WEEK_ROWS = 12; // at most, around the selected step
const HORIZON = "horizon"; // the service's name of the total of all steps

export function drawWeeks(node, history, { steps }, row, selected) {
  const before = valueDaysBefore(history);
  const first = Math.max(Math.min(selected - 2, steps.length - WEEK_ROWS), 0); // of a long horizon a part
  const weeks = steps.map(({ ds_local: time }, k) => ({
    time,
    past: Array.from({ length: WEEKS }, (_, i) =>
      before(time, 7 * (i + 1), i === 0 ? row?.weekBefore?.[k] : undefined),
    ),
    forecast: row?.forecast[k],
    low: row?.low?.[k],
    high: row?.high?.[k],
  }));
  const rows = weeks.slice(first, first + WEEK_ROWS);
  const scale = scaleOf(rows.flatMap(({ past, forecast, low, high }) => [...past, forecast, low, high]));
  node.replaceChildren(...rows.map((week, i) => weekRow(week, scale, first + i === selected)));
}

// The totals of the days ahead, each with its interval.
// days: [{ day, ds_local, steps, forecast, low, high }]
export function drawDays(node, days) {
  const perDay = days.filter(({ day }) => day !== HORIZON);
  const scale = scaleOf(perDay.flatMap(({ forecast, low, high }) => [forecast, low, high]));
  node.replaceChildren(...days.map((day) => dayRow(day, scale)));
}

function dayRow({ day, ds_local: time, steps, forecast, low, high }, scale) {
  const whole = day === HORIZON;
  const name = whole ? `all ${countText(steps, "step")}` : dayText(time);
  const interval = intervalText(low, high);
  const total = element("b", "", numberText(forecast), element("small", "", interval && ` (${interval})`));
  const track = whole ? element("div", "") : trackOf({ past: [], forecast, low, high }, scale);
  const node = element("div", "week day", element("span", "", name), track, total);
  node.setAttribute("role", "img");
  node.setAttribute("aria-label", `${name}: ${numberText(forecast)}${interval && `, interval ${interval}`}`);
  return node;
}

function scaleOf(values) {
  const finite = values.filter(Number.isFinite);
  const top = Math.max(...finite, 1e-9);
  const bottom = Math.min(...finite, 0);
  return (value) => (100 * (value - bottom)) / (top - bottom);
}

function weekRow(week, scale, selected) {
  const clock = element("span", "", clockText(week.time));
  const forecast = element("b", "", numberText(week.forecast));
  const node = element("div", selected ? "week selected" : "week", clock, trackOf(week, scale), forecast);
  node.setAttribute("role", "img");
  node.setAttribute("aria-label", weekText(week));
  return node;
}

function trackOf({ past, forecast, low, high }, scale) {
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
  add("forecast", forecast);
  return track;
}

function weekText({ time, past, forecast }) {
  const earlier = past.map(numberText).join(", ");
  const now = `${dayText(time)} ${clockText(time)}: forecast ${numberText(forecast)}`;
  return `${now}; 1 to ${past.length} weeks before ${earlier}`;
}
