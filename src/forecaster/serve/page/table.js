// What a chart shows, for those who would rather read or hear it.

import { momentOf } from "./time.js";
import { element, numberText } from "./words.js";

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
