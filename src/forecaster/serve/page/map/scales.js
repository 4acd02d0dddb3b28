// Scales from values to sizes and colours. The palettes suit every colour vision: lightness for values
// (viridis in dark mode), blue to orange for changes. High values contrast with the background.

import { changeOf } from "../list.js";

const DARK_VALUES = ["#414487", "#2f6b8e", "#21918c", "#35b779", "#7ad151", "#bddf26", "#fde725"];
const DARK_CHANGES = ["#4aa8ff", "#3c74ad", "#46525e", "#b0713a", "#ff9d42"];
const LIGHT_VALUES = ["#cfe3b4", "#8fd0a0", "#45b5a5", "#2a8fa6", "#2b6799", "#34408a", "#3b1a6b"];
const LIGHT_CHANGES = ["#0a5fb4", "#6fa8d8", "#c3cad1", "#e8a063", "#b84a00"];
const SHADES = 64;

export function palette(colour, dark) {
  const [values, changes] = dark ? [DARK_VALUES, DARK_CHANGES] : [LIGHT_VALUES, LIGHT_CHANGES];
  const stops = colour === "value" ? values : changes;
  return Array.from({ length: SHADES }, (_, i) => blend(stops, i / (SHADES - 1)));
}

function blend(stops, share) {
  const at = share * (stops.length - 1);
  const i = Math.min(Math.floor(at), stops.length - 2);
  const [from, to] = [channels(stops[i]), channels(stops[i + 1])];
  return `rgb(${from.map((value, c) => Math.round(value + (to[c] - value) * (at - i))).join(" ")})`;
}

function channels(hex) {
  return [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
}

export function shade(colours, share) {
  return colours[Math.round(Math.min(Math.max(share, 0), 1) * (colours.length - 1))];
}

// The next of 1, 2, 4, 6, 8, 10, 20, …: their halves and quarters are short to write
export function roundUp(value) {
  const power = 10 ** Math.floor(Math.log10(Math.max(value, 1e-9)));
  return power * [1, 2, 4, 6, 8, 10].find((factor) => factor * power >= value * 0.999);
}

// The 99 % quantile: a single peak must not take the contrast from all others
function nearMax(values, share = 0.99) {
  const sorted = Float64Array.from(values.filter((value) => value !== null)).sort();
  return sorted.length ? sorted[Math.min(Math.floor(share * sorted.length), sorted.length - 1)] : 1;
}

// Counts: 0 … max by the square root, since areas are compared. Measurements: linear from min to max.
export function valueScale(values, kind) {
  if (kind === "count") {
    const max = roundUp(Math.max(nearMax(values), 1));
    return { at: (value) => Math.sqrt(Math.max(value, 0) / max), ticks: [0, max / 4, max], max };
  }
  const max = nearMax(values);
  const min = -nearMax(values.map((value) => (value === null ? null : -value)));
  const span = max - min || 1;
  return { at: (value) => (value - min) / span, ticks: [min, (min + max) / 2, max], max };
}

// −max … 0 … +max by the square root of the size
export function changeScale(values) {
  const max = roundUp(nearMax(values.map((value) => (value === null ? null : Math.abs(value)))) || 1);
  const root = (value) => Math.sign(value) * Math.sqrt(Math.abs(value) / max);
  return { at: (value) => 0.5 + 0.5 * root(value), ticks: [-max, 0, max], max };
}

const SAMPLED = 10_000; // locations by which scales are chosen, evenly spaced in the order of the data
const madeOf = new WeakMap(); // forecast → what is made of it once, by name

// Sizes and shades of all locations at a step, and the values that the shades are of. The scales span all steps, so
// that steps can be compared.
export function encode({ forecast, dataset, step, colour, basis }, dark) {
  const rows = once(forecast, "rows", () => dataset.locations.map(({ id }) => forecast.rows.get(id)));
  const valueAt = (row, k) => row?.forecast[k] ?? null;
  const sizeScale = scaleOf(forecast, "value", rows, (values) => valueScale(values, dataset.kind), valueAt);
  const values = rows.map((row) => valueAt(row, step));
  const sizes = values.map((value) => shareOf(sizeScale, value));
  const colours = palette(colour, dark);
  if (colour === "value") return { sizes, shades: sizes, values, colours, scale: sizeScale };
  const changeAt = (row, k) => changeOf(row, k, basis);
  // A change from an implausible value must not set the scale.
  const trusted = (row, k) => (row?.degraded ? null : changeAt(row, k));
  const scale = scaleOf(forecast, basis, rows, changeScale, trusted);
  const changes = rows.map((row) => changeAt(row, step));
  return { sizes, shades: changes.map((change) => shareOf(scale, change)), values: changes, colours, scale };
}

// The locations with doubtful values, and the new ones.
export function marksOf({ forecast, dataset: { locations } }) {
  return once(forecast, "marks", () => ({
    doubtful: locations.filter(({ id }) => forecast.rows.get(id)?.degraded),
    added: locations.filter(({ isNew }) => isNew),
  }));
}

// The scale of a forecast: it is the same at every step.
function scaleOf(forecast, name, rows, choose, valueOf) {
  return once(forecast, name, () => {
    const every = Math.ceil(rows.length / SAMPLED);
    const sample = rows.filter((_, i) => i % every === 0);
    return choose(sample.flatMap((row) => forecast.steps.map((_, k) => valueOf(row, k))));
  });
}

// What is made once of a forecast.
function once(forecast, name, make) {
  if (!madeOf.has(forecast)) madeOf.set(forecast, new Map());
  const made = madeOf.get(forecast);
  if (!made.has(name)) made.set(name, make());
  return made.get(name);
}

function shareOf(scale, value) {
  return value === null ? null : scale.at(value);
}
