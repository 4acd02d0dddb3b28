// The accuracy of recent forecasts, compared with the observations that followed.

import { byId, element, figure } from "./dom.js";
import { countText, numberText, percentText } from "./format.js";

export function showAccuracy(scores) {
  if (!Number.isFinite(scores?.rmse)) {
    const text = "No data yet: no forecast of this run has been followed by an observation.";
    byId("scores").replaceChildren(element("p", "quiet", text));
    return;
  }
  const rival = strongestSimple(scores);
  const gain = 1 - scores.rmse / rival.rmse;
  const figures = element(
    "dl",
    "figures",
    figure(numberText(scores.rmse), "RMSE"),
    figure(
      percentText(Math.abs(gain)),
      `${gain >= 0 ? "better" : "worse"} than ${rival.name}`,
      gain >= 0 ? "" : "bad",
    ),
  );
  if (Number.isFinite(scores.coverage)) {
    figures.append(
      figure(percentText(scores.coverage), `in the interval (target ${percentText(scores.expected_coverage)})`),
    );
  }
  const basis = `Root mean square error over ${countText(scores.terms, "value")} of the last ${scores.hours} hours`;
  byId("scores").replaceChildren(figures, element("p", "quiet", `${basis}${biasText(scores.bias)}`));
}

// The simple forecast with the lower error: repeating the last value, or last week’s.
function strongestSimple(scores) {
  const week = { name: "last week’s value", rmse: scores.naive_rmse };
  const last = { name: "the last value", rmse: scores.last_value_rmse };
  return last.rmse < week.rmse ? last : week;
}

function biasText(bias) {
  if (!Number.isFinite(bias)) return "";
  const size = Math.round(Math.abs(1000 * bias)) / 10;
  if (size === 0) return "; forecasts were neither too high nor too low on average";
  return `; forecasts were ${numberText(size)} % too ${bias > 0 ? "high" : "low"} on average`;
}

export function showNoAccuracy() {
  const text = "No accuracy of the last week: the data ends before it.";
  byId("scores").replaceChildren(element("p", "quiet", text));
}

export function showAccuracyError(error) {
  byId("scores").replaceChildren(element("p", "quiet", `Not available: ${error.message}.`));
}
