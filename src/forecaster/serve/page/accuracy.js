// How good the forecasts of the last days were, measured on what happened since.

import { byId, element, figure } from "./dom.js";
import { countText, numberText, percentText } from "./format.js";

export function showAccuracy(told) {
  if (!Number.isFinite(told?.rmse)) {
    const text = "Not known yet: no forecast of this run has been proved by an observation.";
    byId("scores").replaceChildren(element("p", "quiet", text));
    return;
  }
  const better = 1 - told.rmse / told.naive_rmse;
  const figures = element(
    "dl",
    "figures",
    figure(numberText(told.rmse), "typical error"),
    figure(
      percentText(Math.abs(better)),
      `${better >= 0 ? "better" : "worse"} than last week`,
      better >= 0 ? "" : "bad",
    ),
  );
  if (Number.isFinite(told.coverage)) {
    figures.append(
      figure(percentText(told.coverage), `in range (goal ${percentText(told.expected_coverage)})`),
    );
  }
  const basis = `Root mean square error of ${countText(told.terms, "value")}, last ${told.hours} hours`;
  byId("scores").replaceChildren(figures, element("p", "quiet", basis));
}

export function accuracyAway(error) {
  byId("scores").replaceChildren(element("p", "quiet", `Not known: ${error.message}.`));
}
