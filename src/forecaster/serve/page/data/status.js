// Whether the forecast on the page is current. An outdated one is never shown as current.

import { ageText, clockText, dateText, dayText } from "../format.js";

const SILENT_INTERVALS = 3; // without a response, after which nothing is current (a laptop that slept)

// { kind: "none" | "outdated" | "degraded" | "current", text }
export function statusOf({ forecast, isOld, problem, receivedAt, interval }, now) {
  if (!forecast) return { kind: "none", text: problem ? `No forecast: ${problem}.` : "" };
  if (isOld && !problem) return { kind: "outdated", text: oldText(forecast, receivedAt, now) };
  const reason = problem ?? staleReason(forecast) ?? silenceReason(receivedAt, interval, now);
  const last = originText(forecast, receivedAt, now);
  if (reason) return { kind: "outdated", text: `No current forecast, last from ${last}: ${reason}.` };
  if (!forecast.degraded) return { kind: "current", text: "" };
  return { kind: "degraded", text: `This forecast is degraded: ${forecast.degraded}.` };
}

// A service without recent data: what is shown, and what brings a current forecast.
function oldText(forecast, receivedAt, now) {
  return (
    `No forecast of now: the data ends at ${originText(forecast, receivedAt, now)}. ` +
    "The forecast made from there is shown; newer observations bring a current one."
  );
}

function staleReason({ stale, degraded }) {
  if (!stale) return null;
  return `no newer observations have arrived${degraded ? ` (${degraded})` : ""}`;
}

function silenceReason(receivedAt, interval, now) {
  return now - receivedAt > SILENT_INTERVALS * interval * 1000 ? "no response from the service since" : null;
}

// The forecast origin with its age: 14:00 (2 h old)
export function originText(forecast, receivedAt, now) {
  const seconds = ageSeconds(forecast, receivedAt, now);
  const [date, months] = [forecast.origin_local, seconds > 90 * 86_400];
  const day = seconds > 86_400 ? `${months ? dateText(date) : dayText(date)} ` : "";
  return `${day}${clockText(forecast.origin_local)} (${ageText(seconds)} old)`;
}

// The age that the service gave plus the time since: the browser's clock may be wrong, but it runs.
export function ageSeconds(forecast, receivedAt, now) {
  return forecast.data_age_seconds + (now - receivedAt) / 1000;
}
