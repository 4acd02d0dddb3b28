// Numbers as sizes and colours, for all places at once.

import { changeOf } from "./list.js";
import { changeScale, levelScale, palette } from "./scale.js";

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
