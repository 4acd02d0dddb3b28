// The accuracy of recent forecasts, compared with the observations that followed.

import { byId, element, figure } from "./dom.js";
import { countText, numberText, percentText } from "./format.js";

export function showAccuracy(scores) {
  if (!Number.isFinite(scores?.rmse)) {
    const text = "No data yet: no forecast of this run has been followed by an observation.";
    byId("scores").replaceChildren(element("p", "quiet", text));
    return;
  }
  const gain = 1 - scores.rmse / scores.naive_rmse;
  const figures = element(
    "dl",
    "figures",
    figure(numberText(scores.rmse), "RMSE"),
    figure(
      percentText(Math.abs(gain)),
      `${gain >= 0 ? "better" : "worse"} than last week’s value`,
      gain >= 0 ? "" : "bad",
    ),
  );
  if (Number.isFinite(scores.coverage)) {
    figures.append(
      figure(percentText(scores.coverage), `in the interval (target ${percentText(scores.expected_coverage)})`),
    );
  }
  const basis = `Root mean square error over ${countText(scores.terms, "value")} of the last ${scores.hours} hours`;
  byId("scores").replaceChildren(figures, element("p", "quiet", basis));
}

export function showAccuracyError(error) {
  byId("scores").replaceChildren(element("p", "quiet", `Not available: ${error.message}.`));
}
