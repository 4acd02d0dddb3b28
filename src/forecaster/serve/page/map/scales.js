// Colours that people with any colour vision tell apart: lightness for levels (viridis in the dark),
// blue to orange for changes. The end that means "much" is the one that stands out from the ground.

import { changeOf } from "../list.js";

const DARK_LEVEL = ["#414487", "#2f6b8e", "#21918c", "#35b779", "#7ad151", "#bddf26", "#fde725"];
const DARK_CHANGE = ["#4aa8ff", "#3c74ad", "#46525e", "#b0713a", "#ff9d42"];
const LIGHT_LEVEL = ["#cfe3b4", "#8fd0a0", "#45b5a5", "#2a8fa6", "#2b6799", "#34408a", "#3b1a6b"];
const LIGHT_CHANGE = ["#0a5fb4", "#6fa8d8", "#c3cad1", "#e8a063", "#b84a00"];
const SHADES = 64;

export function palette(colour, dark) {
  const [level, change] = dark ? [DARK_LEVEL, DARK_CHANGE] : [LIGHT_LEVEL, LIGHT_CHANGE];
  const stops = colour === "level" ? level : change;
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

// 1, 2, 4, 6, 8, 10, 20, …: not below a value, and its half and quarter are short to write
export function roundUp(value) {
  const power = 10 ** Math.floor(Math.log10(Math.max(value, 1e-9)));
  return power * [1, 2, 4, 6, 8, 10].find((factor) => factor * power >= value * 0.999);
}

// the value that a share of all stays below: one lonely peak must not grey out the rest
function nearMax(values, share = 0.99) {
  const sorted = Float64Array.from(values.filter((value) => value !== null)).sort();
  return sorted.length ? sorted[Math.min(Math.floor(share * sorted.length), sorted.length - 1)] : 1;
}

// Counts: 0 … max by their root, as areas are read. Measurements: from the least to the most.
export function levelScale(values, kind) {
  if (kind === "count") {
    const max = roundUp(Math.max(nearMax(values), 1));
    return { at: (value) => Math.sqrt(Math.max(value, 0) / max), ticks: [0, max / 4, max], max };
  }
  const max = nearMax(values);
  const min = -nearMax(values.map((value) => (value === null ? null : -value)));
  const span = max - min || 1;
  return { at: (value) => (value - min) / span, ticks: [min, (min + max) / 2, max], max };
}

// −max … 0 … +max by the root of the size
export function changeScale(values) {
  const max = roundUp(nearMax(values.map((value) => (value === null ? null : Math.abs(value)))) || 1);
  const root = (value) => Math.sign(value) * Math.sqrt(Math.abs(value) / max);
  return { at: (value) => 0.5 + 0.5 * root(value), ticks: [-max, 0, max], max };
}

// Numbers as sizes and colours, for all places at once.

// Scales span all steps, so that a dot that grows along the slider has grown.
export function encode({ forecast, city, step, colour, basis }, dark) {
  const rows = city.places.map(({ id }) => forecast.rows.get(id));
  const everyStep = (valueOf) => rows.flatMap((row) => forecast.steps.map((_, k) => valueOf(row, k)));
  const levelOf = (row, k) => row?.expected[k] ?? null;
  const shiftOf = (row, k) => changeOf(row, k, basis);
  const level = levelScale(everyStep(levelOf), city.kind);
  const sizes = rows.map((row) => shareOf(level, levelOf(row, step)));
  const colours = palette(colour, dark);
  if (colour === "level") return { sizes, shades: sizes, colours, scale: level };
  const shift = changeScale(everyStep(shiftOf));
  return { sizes, shades: rows.map((row) => shareOf(shift, shiftOf(row, step))), colours, scale: shift };
}

function shareOf(scale, value) {
  return value === null ? null : scale.at(value);
}
