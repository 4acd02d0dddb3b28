// Why: which past steps and which places moved the forecast, in the words of the service: a step
// may be an hour or a day, and not every network has attention. What came through the whole city
// at once is no place's doing, and stands apart.

import { barRow, element, kindOf } from "../dom.js";
import { clockOf, dayOf, numberText, percentText, signedText } from "../format.js";

const SHOWN = 5;

// told: what v1/explanation answers
export function showWhy(node, told, step) {
  const hours = strongest(merge(told.hours, step), (hour) => hour.share);
  const places = strongest([told.own, ...told.neighbours], (place) => place.gradients[step]);
  node.replaceChildren(
    element("p", "quiet", summary(told.forecast[step], told.step)),
    element("h4", "", pastHeading(told)),
    bars(hours, hourText, percentText),
    element("h4", "", "Places whose past moved it, by gradient"),
    bars(places, (place) => placeText(place, told.own), signedText, kindOf),
    element("p", "apart", cityWide(told.city_wide)),
    element("p", "quiet", told.sentence),
  );
}

function summary({ usual, y_hat: expected }, step) {
  const change = signedText(expected - usual);
  return `With every past ${step} as usual it would be ${numberText(usual)}; what was different makes ${change}.`;
}

function pastHeading({ step, shares_by: method }) {
  const how = method === "attention" ? "it looked at" : "that moved it";
  return `Past ${step}s ${how}, by ${method}`;
}

// A step may be looked at twice, as a recent one and as the same hour some days before.
function merge(hours, step) {
  const merged = new Map();
  for (const { ds, shares, ...hour } of hours) {
    const share = shares[step] + (merged.get(ds)?.share ?? 0);
    merged.set(ds, { ...hour, share });
  }
  return [...merged.values()];
}

function strongest(entries, sizeOf) {
  const found = entries.map((entry) => ({ entry, size: sizeOf(entry) }));
  found.sort((one, other) => Math.abs(other.size) - Math.abs(one.size));
  return found.slice(0, SHOWN);
}

function bars(found, describe, sizeText, kind = () => "") {
  const most = Math.abs(found[0]?.size) || 1;
  const rows = found.map(({ entry, size }) => {
    const share = Math.abs(size) / most;
    return element(
      "li",
      "",
      ...barRow({ name: describe(entry), size: sizeText(size), share, kind: kind(size) }),
    );
  });
  return element("ul", "rows", ...rows);
}

function hourText({ ds_local: time, value }) {
  return `${dayOf(time)} ${clockOf(time)} · ${value === null ? "not observed" : numberText(value)}`;
}

function placeText(place, own) {
  return place === own ? "this place itself" : place.name || place.id;
}

function cityWide({ share, gradient, places }) {
  if (!places.length) return "Nothing of other places came through the whole city at once.";
  return (
    `Apart from these: ${percentText(share)} of what other places do came through the whole city at once, ` +
    `${signedText(gradient)} in all.`
  );
}
