// Whether the forecast on the page is current. An outdated one is never shown as current.

import { ageText, clockText, dayText } from "../format.js";

const SILENT_INTERVALS = 3; // without a response, after which nothing is current (a laptop that slept)

// { kind: "none" | "outdated" | "degraded" | "current", text }
export function statusOf({ forecast, problem, receivedAt, interval }, now) {
  if (!forecast) return { kind: "none", text: problem ? `No forecast: ${problem}.` : "" };
  const reason = problem ?? staleReason(forecast) ?? silenceReason(receivedAt, interval, now);
  const last = originText(forecast, receivedAt, now);
  if (reason) return { kind: "outdated", text: `No current forecast, last from ${last}: ${reason}.` };
  if (!forecast.degraded) return { kind: "current", text: "" };
  return { kind: "degraded", text: `This forecast is degraded: ${forecast.degraded}.` };
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
  const day = seconds > 86_400 ? `${dayText(forecast.origin_local)} ` : "";
  return `${day}${clockText(forecast.origin_local)} (${ageText(seconds)} old)`;
}

// The age that the service gave plus the time since: the browser's clock may be wrong, but it runs.
export function ageSeconds(forecast, receivedAt, now) {
  return forecast.data_age_seconds + (now - receivedAt) / 1000;
}
