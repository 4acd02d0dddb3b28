// The explanation of a forecast: the past steps and the locations with the largest influence. The service
// names the unit of a step and the method, since a step may be an hour or a day and not every network
// has attention. An influence common to the whole city belongs to no single location and stands apart.

import { barRow, changeKind, element } from "../dom.js";
import { clockText, dayText, delaysText, numberText, percentText, signedText } from "../format.js";

const ROWS = 5;

// explanation: the body of v1/explanation
// Bars of shares are grey; orange raises the forecast and blue lowers it, as everywhere on the page.
export function showExplanation(node, explanation, step) {
  const { own, neighbours } = explanation;
  const pastSteps = largest(sumByTime(explanation.hours, step), ({ share }) => share);
  const locations = largest([own, ...neighbours], ({ gradients }) => gradients[step]);
  node.replaceChildren(
    element("p", "subject", subject(explanation, step)),
    element("p", "quiet", summary(explanation.forecast[step], explanation.step)),
    element("h4", "", pastStepsTitle(explanation)),
    barList(pastSteps, pastStepText, percentText, () => "share"),
    element("h4", "", "Locations with the largest influence, by gradient"),
    barList(locations, (location) => locationText(location, own, explanation.step), signedText, changeKind),
    element("p", "quiet", "orange: raises the forecast; blue: lowers it"),
    element("p", "apart", cityWideText(explanation.city_wide)),
    element("p", "quiet", explanation.sentence),
  );
}

function subject({ name, location, forecast, origin_local: origin }, step) {
  const { ds_local: time } = forecast[step];
  const made = `${dayText(origin)} ${clockText(origin)}`;
  return `${name || location}, ${dayText(time)} ${clockText(time)}, as forecast ${made}`;
}

function summary({ usual: baseline, y_hat: forecast }, unit) {
  const change = signedText(forecast - baseline);
  return (
    `With the usual value in every past ${unit} the forecast would be ${numberText(baseline)}; ` +
    `the observed deviations change it by ${change}.`
  );
}

function pastStepsTitle({ step: unit, shares_by: method }) {
  return `Past ${unit}s with the largest influence, by ${method}`;
}

// A time can be an input twice, as a recent step and as the same hour some days before.
function sumByTime(hours, step) {
  const sums = new Map();
  for (const { ds, shares, ...hour } of hours) {
    sums.set(ds, { ...hour, share: shares[step] + (sums.get(ds)?.share ?? 0) });
  }
  return [...sums.values()];
}

function largest(entries, sizeOf) {
  const sized = entries.map((entry) => ({ entry, size: sizeOf(entry) }));
  sized.sort((a, b) => Math.abs(b.size) - Math.abs(a.size));
  return sized.slice(0, ROWS);
}

function barList(sized, nameOf, sizeText, kindOf) {
  const longest = Math.abs(sized[0]?.size) || 1;
  const rows = sized.map(({ entry, size }) => {
    const share = Math.abs(size) / longest;
    const bar = barRow({ name: nameOf(entry), size: sizeText(size), share, kind: kindOf(size) });
    return element("li", "", ...bar);
  });
  return element("ul", "rows", ...rows);
}

function pastStepText({ ds_local: time, value }) {
  return `${dayText(time)} ${clockText(time)} · ${value === null ? "no data" : numberText(value)}`;
}

function locationText(location, own, unit) {
  if (location === own) return "this location";
  const name = location.name || location.id;
  return location.delays?.length ? `${name}, ${delaysText(location.delays, unit)} earlier` : name;
}

function cityWideText({ share, gradient, places }) {
  if (!places.length) return "No influence of other locations is common to the whole city.";
  return (
    `Not included: ${percentText(share)} of the influence of other locations is common to the whole city, ` +
    `${signedText(gradient)} in total.`
  );
}
