// The text around the map: title, time, totals, legend, scale bar and tooltip.

import { byId, element, figure } from "../dom.js";
import {
  clockText,
  countText,
  dateTimeText,
  dayText,
  durationText,
  hourOf,
  intervalText,
  NONE,
  numberText,
  offsetText,
  percentText,
  perStepText,
  shortDayText,
  signedText,
} from "../format.js";
import { changeOf, newText, WAITING } from "../list.js";
import { gridKm } from "./painting.js";

const STEP_LABELS = 8; // under the slider, at most
const DAY_MINUTES = 1440;

export function showTitle({ locations, layout: { located, unlocated } }) {
  byId("title").textContent = `Forecast for ${countText(locations.length, "location")}`;
  byId("dots").setAttribute("aria-label", `Map of ${countText(locations.length, "location")}`);
  byId("layout").hidden = unlocated === 0;
  byId("layout").textContent = located.length
    ? `${countText(unlocated, "location")} without coordinates: shown in the grid below`
    : "No coordinates: locations are shown in a grid, in the order of the data";
}

export function showSteps({ steps }, { minutes }) {
  byId("step").max = steps.length;
  const few = steps.length <= STEP_LABELS;
  const labels = stepMarks(steps, minutes).map(({ k, text }) => {
    const label = element("span", "", text);
    label.dataset.step = k;
    const share = (100 * k) / (steps.length - 1);
    if (!few) Object.assign(label.style, { left: `${share}%`, transform: `translateX(-${share}%)` });
    return label;
  });
  byId("step-labels").classList.toggle("spread", !few);
  byId("step-labels").replaceChildren(...labels);
}

// Every step, if there are few; the days of a long horizon; otherwise some steps.
function stepMarks(steps, minutes) {
  const marks = steps.map((_, k) => ({ k, text: `+${durationText(k + 1, minutes)}` }));
  const days = steps.flatMap(({ ds_local: time }, k) => (hourOf(time) === 0 ? [{ k, text: shortDayText(time) }] : []));
  const shown = days.length > 2 && minutes < DAY_MINUTES ? days : marks;
  const every = Math.ceil(shown.length / STEP_LABELS);
  return shown.filter((_, i) => i % every === 0);
}

// The link names the origin, so that the file holds the forecast on the page, not a newer one.
export function showDownloadLink({ origin }) {
  byId("csv").href = `v1/forecast?format=csv&at=${encodeURIComponent(origin)}`;
}

export function showTime({ steps }, { minutes }, step) {
  const time = steps[step].ds_local;
  const ahead = `${durationText(step + 1, minutes)} ahead`;
  byId("time").textContent = `${clockText(time)} ${offsetText(time)}`;
  byId("lead").textContent = `${dayText(time)} · ${ahead}`;
  byId("step").value = step + 1;
  byId("step").setAttribute("aria-valuetext", `${dateTimeText(time)}, ${ahead}`);
  const labels = [...byId("step-labels").children];
  const selected = labels.findLast((label) => Number(label.dataset.step) <= step);
  for (const label of labels) label.classList.toggle("selected", label === selected);
}

export function showTotals({ rows, steps }, { kind }, step) {
  const all = [...rows.values()];
  const values = all.map((row) => row.forecast[step]).filter((value) => value !== null);
  const isCount = kind === "count";
  const [value, label] = isCount ? [sum(values), "in total"] : [sum(values) / values.length, "on average"];
  const changeText = isCount ? relativeChangeText : meanChangeText;
  const trusted = all.filter((row) => !row.degraded); // an implausible value is no base of a change
  byId("totals").replaceChildren(
    figure(numberText(value), `${label} at ${clockText(steps[step].ds_local)}`),
    figure(changeText(trusted, step, "last"), "from now"),
    figure(changeText(all, step, "week"), "from last week"),
  );
}

function sum(values) {
  return values.reduce((total, value) => total + value, 0);
}

// The change of all locations for which it is known, relative to their base.
function relativeChangeText(rows, step, basis) {
  const comparable = rows.filter((row) => changeOf(row, step, basis) !== null);
  const change = sum(comparable.map((row) => changeOf(row, step, basis)));
  const base = sum(comparable.map((row) => row.forecast[step])) - change;
  if (!base) return NONE;
  return `${change > 0 ? "+" : "−"}${percentText(Math.abs(change / base))}`;
}

// The mean change: a relative change has no meaning for degrees or net load.
function meanChangeText(rows, step, basis) {
  const changes = rows.map((row) => changeOf(row, step, basis)).filter(Number.isFinite);
  return changes.length ? signedText(sum(changes) / changes.length) : NONE;
}

export function showLegend({ scale, colours }, { colour, basis, dataset }) {
  const quantity = dataset.kind === "count" ? `forecast ${perStepText(dataset.minutes)}` : "forecast value";
  const base = basis === "last" ? "now" : "last week";
  byId("legend-title").textContent =
    colour === "value" ? `Size and colour: ${quantity}` : `Colour: change from ${base}`;
  byId("ramp").style.background =
    `linear-gradient(90deg, ${colours.filter((_, i) => i % 7 === 0).join(", ")})`;
  const text = colour === "value" ? numberText : signedText;
  byId("ticks").replaceChildren(
    ...scale.ticks.map((value) => {
      const mark = element("span", "", text(value));
      mark.style.left = `${100 * scale.at(value)}%`;
      return mark;
    }),
  );
}

export function showDoubtful(locations) {
  byId("doubtful").hidden = locations.length === 0;
  byId("doubtful").textContent = `! marks ${countText(locations.length, "location")} with missing or doubtful values`;
}

export function showAdded(locations, { rows }) {
  const waiting = locations.filter(({ id }) => !rows.has(id)).length;
  byId("added").hidden = locations.length === 0;
  byId("added").textContent =
    `+ marks ${countText(locations.length, "new location")}` + (waiting ? `, ${waiting} ${WAITING}` : "");
}

export function showClusters(areDrawn) {
  byId("clusters").hidden = !areDrawn;
}

export function showScaleBar(view, located) {
  const km = gridKm(view);
  byId("distance").textContent = km < 1 ? `${numberText(1000 * km)} m` : `${numberText(km)} km`;
  byId("length").style.width = `${km * view.scale}px`;
  byId("length").parentElement.hidden = located.length === 0;
}

// location: or a cluster
export function showTooltip(location, at, { forecast, step, colour }, { width, height }) {
  const tip = byId("tip");
  tip.hidden = !location;
  if (!location) return;
  const lines = location.count ? clusterLines(location, colour) : locationLines(location, forecast?.rows.get(location.id), step);
  tip.replaceChildren(...lines);
  const left = at[0] > width / 2;
  tip.style.left = left ? "" : `${at[0] + 18}px`;
  tip.style.right = left ? `${width - at[0] + 18}px` : "";
  tip.style.top = `${Math.min(Math.max(at[1] - 20, 6), height - 80)}px`;
}

function locationLines(location, row, step) {
  const interval = intervalText(row?.low?.[step], row?.high?.[step]);
  return [
    element("strong", "", location.name),
    element("span", "", `forecast ${numberText(row?.forecast[step])}${interval && ` (${interval})`}`),
    ...(location.isNew ? [element("span", "new", `+ ${newText(row)}`)] : []),
    element("span", "", `now ${numberText(row?.last)} · a week before ${numberText(row?.weekBefore?.[step])}`),
    ...(row?.degraded ? [element("span", "doubt", `! ${row.degraded}`)] : []),
  ];
}

function clusterLines({ count, known, mean }, colour) {
  const [text, what] = colour === "value" ? [numberText, "forecast"] : [signedText, "change"];
  const unknown = count - known;
  return [
    element("strong", "", countText(count, "location")),
    element("span", "", `mean ${what} ${text(mean)}${unknown ? `, unknown of ${countText(unknown, "location")}` : ""}`),
    element("span", "", "select to open"),
  ];
}
