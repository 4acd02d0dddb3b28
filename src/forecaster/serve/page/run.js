// The run that answers: whether its data is still as on validation, its challenger, and a run that was refused.

import { byId, element, figure } from "./dom.js";
import { countText, numberText, percentText } from "./format.js";

const ADVICE = { nothing: "No drift", look: "Look at some places", update: "Out of date", unknown: "Not judged yet" };

let shown = ""; // unchanged content stays as it is: details stay open, and nothing is read aloud again

export function showRun(run, ledger) {
  const content = JSON.stringify([run, ledger]);
  if (content === shown) return;
  shown = content;
  const parts = [...refusedParts(run), ...driftParts(run?.drift), ...challengerParts(run?.shadow, ledger)];
  byId("run").hidden = !parts.length;
  byId("run-state").replaceChildren(...parts);
}

// The version that should answer and does not: its trial has failed.
function refusedParts(run) {
  if (!run?.refused) return [];
  const { version, reason } = run.refused;
  const name = version ? `Version ${version}` : "The new run";
  return [element("p", "apart doubt", `${name} failed its trial; ${run.version ?? "the old one"} goes on: ${reason}`)];
}

function driftParts(drift) {
  if (!drift) return [];
  const kind = drift.advice === "update" || drift.advice === "look" ? "apart doubt" : "quiet";
  const parts = [element("h3", "", ADVICE[drift.advice] ?? drift.advice), element("p", kind, sentence(drift.text))];
  if (drift.watches.length) parts.push(watchTable(drift));
  if (drift.silent_locations) {
    const others = drift.silent_locations - drift.silent.length;
    const more = others ? ` and ${countText(others, "other")}` : "";
    parts.push(element("p", "quiet", `Silent: ${drift.silent.join(", ")}${more}.`));
  }
  return parts;
}

// How far each score is on its way to an alarm.
function watchTable({ watches, weeks }) {
  const rows = watches.map(({ name, alarm_share }) =>
    element("tr", "", element("th", "", name), element("td", "", percentText(alarm_share))),
  );
  const head = element("tr", "", element("th", "", "Score"), element("th", "", "of an alarm"));
  const summary = element("summary", "", `Judged by ${countText(weeks, "week")} of the ledger`);
  return element("details", "quiet", summary, element("table", "", element("thead", "", head), element("tbody", "", ...rows)));
}

function challengerParts(shadow, ledger) {
  if (!shadow) return [];
  const title = element("h3", "", shadow.version ? `Challenger ${shadow.version} in the shadow` : "Challenger");
  if (shadow.refused) {
    return [title, element("p", "apart doubt", `${shadow.refused.version} cannot be used: ${shadow.refused.reason}`)];
  }
  if (!shadow.version) return [title, element("p", "quiet", "There is no version but the current one.")];
  const compared = ledger?.model === shadow.model ? ledger.compared : null;
  if (!compared) return [title, element("p", "quiet", "Not compared yet: no day of both is over.")];
  return [title, comparedFigures(compared), element("p", "quiet", basisText(compared))];
}

function comparedFigures({ served, challenger }) {
  const gain = 1 - challenger.rmse / served.rmse;
  const kind = gain >= 0 ? "" : "bad";
  return element(
    "dl",
    "figures",
    figure(numberText(challenger.rmse), "RMSE"),
    figure(percentText(Math.abs(gain)), `${gain >= 0 ? "better" : "worse"} than the served run`, kind),
    ...(Number.isFinite(challenger.coverage) ? [figure(percentText(challenger.coverage), "in the interval")] : []),
  );
}

function basisText({ days, served }) {
  return `Served run: RMSE ${numberText(served.rmse)}. Both over ${countText(days, "day")} of the ledger, all steps ahead.`;
}

function sentence(text) {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
}
