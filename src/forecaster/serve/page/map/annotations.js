// What stands around the map: when, how much in all, what the colours mean, how far a kilometre is.

import { byId, element, figure } from "../dom.js";
import {
  clockOf,
  countText,
  dayOf,
  momentOf,
  NONE,
  numberText,
  offsetOf,
  percentText,
  perStep,
  signedText,
  spanOf,
} from "../format.js";
import { changeOf } from "../list.js";
import { gridKm } from "./painting.js";

const STOPS = 8; // labels under the slider

export function showCity({ places, layout: { placed, others } }) {
  byId("title").textContent = `Forecast for ${countText(places.length, "place")}`;
  byId("dots").setAttribute("aria-label", `Map of ${countText(places.length, "place")}`);
  byId("layout").hidden = others === 0;
  byId("layout").textContent = placed.length
    ? `${countText(others, "place")} without coordinates: in the grid below`
    : "No coordinates: places stand in a grid, in the order of the data";
}

export function showSteps({ steps }, { minutes }) {
  byId("step").max = steps.length;
  const every = Math.ceil(steps.length / STOPS);
  const stops = steps.map((_, k) => element("span", "", k % every ? "" : `+${spanOf(k + 1, minutes)}`));
  byId("stops").replaceChildren(...stops);
}

// The file holds what the page shows, not what is newest by the time of the click.
export function showLink({ origin }) {
  byId("csv").href = `v1/forecast?format=csv&at=${encodeURIComponent(origin)}`;
}

export function showWhen({ steps }, { minutes }, step) {
  const time = steps[step].ds_local;
  const ahead = `${spanOf(step + 1, minutes)} ahead`;
  byId("when").textContent = `${clockOf(time)} ${offsetOf(time)}`;
  byId("lead").textContent = `${dayOf(time)} · ${ahead}`;
  byId("step").value = step + 1;
  byId("step").setAttribute("aria-valuetext", `${momentOf(time)}, ${ahead}`);
  [...byId("stops").children].forEach((stop, k) => stop.classList.toggle("chosen", k === step));
}

export function showTotals({ rows, steps }, { kind }, step) {
  const all = [...rows.values()];
  const known = all.filter((row) => row.expected[step] !== null);
  const expected = sum(known.map((row) => row.expected[step]));
  const counts = kind === "count";
  const [value, words] = counts ? [expected, "in all"] : [expected / known.length, "on average"];
  const from = counts ? growthText : meanText;
  byId("totals").replaceChildren(
    figure(numberText(value), `${words} at ${clockOf(steps[step].ds_local)}`),
    figure(from(all, step, "last"), "from now"),
    figure(from(all, step, "usual"), "from last week"),
  );
}

function sum(values) {
  return values.reduce((total, value) => total + value, 0);
}

// Of the places whose change is known: their change, as a share of where they come from.
function growthText(rows, step, basis) {
  const known = rows.filter((row) => changeOf(row, step, basis) !== null);
  const change = sum(known.map((row) => changeOf(row, step, basis)));
  const base = sum(known.map((row) => row.expected[step])) - change;
  if (!base) return NONE;
  return `${change > 0 ? "+" : "−"}${percentText(Math.abs(change / base))}`;
}

// A share of degrees or of net load means nothing: their mean change.
function meanText(rows, step, basis) {
  const changes = rows.map((row) => changeOf(row, step, basis)).filter(Number.isFinite);
  return changes.length ? signedText(sum(changes) / changes.length) : NONE;
}

export function showLegend({ scale, colours }, { colour, basis, city }) {
  const what = city.kind === "count" ? `expected ${perStep(city.minutes)}` : "expected value";
  const from = basis === "last" ? "now" : "last week";
  byId("meaning").textContent =
    colour === "level" ? `Size and colour: ${what}` : `Colour: change from ${from}`;
  byId("ramp").style.background =
    `linear-gradient(90deg, ${colours.filter((_, i) => i % 7 === 0).join(", ")})`;
  const text = colour === "level" ? numberText : signedText;
  byId("ticks").replaceChildren(
    ...scale.ticks.map((value) => {
      const mark = element("span", "", text(value));
      mark.style.left = `${100 * scale.at(value)}%`;
      return mark;
    }),
  );
}

export function showRuler(view, placed) {
  const km = gridKm(view);
  byId("distance").textContent = km < 1 ? `${numberText(1000 * km)} m` : `${numberText(km)} km`;
  byId("length").style.width = `${km * view.scale}px`;
  byId("length").parentElement.hidden = placed.length === 0;
}

export function showTip(place, at, { forecast, step }, { width, height }) {
  const tip = byId("tip");
  tip.hidden = !place;
  if (!place) return;
  const row = forecast?.rows.get(place.id);
  const likely = row?.low ? ` (${numberText(row.low[step])} to ${numberText(row.high[step])})` : "";
  tip.replaceChildren(
    element("strong", "", place.name),
    element("span", "", `expected ${numberText(row?.expected[step])}${likely}`),
    element("span", "", `now ${numberText(row?.last)} · last week ${numberText(row?.usual?.[step])}`),
  );
  const left = at[0] > width / 2;
  tip.style.left = left ? "" : `${at[0] + 18}px`;
  tip.style.right = left ? `${width - at[0] + 18}px` : "";
  tip.style.top = `${Math.min(Math.max(at[1] - 20, 6), height - 80)}px`;
}
