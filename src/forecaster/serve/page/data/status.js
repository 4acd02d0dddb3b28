// Whether what is on the screen may be called current. Old numbers are never shown as new.

import { ageOf, clockOf, dayOf } from "../format.js";

const SILENCE = 3; // intervals without a word after which nothing is sure (a laptop that slept)

// { kind: "none" | "old" | "noted" | "current", text }
export function judge({ forecast, trouble, heardAt, interval }, now) {
  if (!forecast) return { kind: "none", text: trouble ? `No forecast: ${trouble}.` : "" };
  const reason = trouble ?? staleness(forecast) ?? silence(heardAt, interval, now);
  const last = lastFrom(forecast, heardAt, now);
  if (reason) return { kind: "old", text: `No current forecast, last from ${last}: ${reason}.` };
  if (!forecast.degraded) return { kind: "current", text: "" };
  return { kind: "noted", text: `This forecast is not the best possible: ${forecast.degraded}.` };
}

function staleness({ stale, degraded }) {
  if (!stale) return null;
  return `no newer observations have come in${degraded ? ` (${degraded})` : ""}`;
}

function silence(heardAt, interval, now) {
  return now - heardAt > SILENCE * interval * 1000 ? "nothing was heard from the service since" : null;
}

// 14:00 (2 h old)
export function lastFrom(forecast, heardAt, now) {
  const seconds = ageSeconds(forecast, heardAt, now);
  const day = seconds > 86_400 ? `${dayOf(forecast.origin_local)} ` : "";
  return `${day}${clockOf(forecast.origin_local)} (${ageOf(seconds)} old)`;
}

// What the service said its age was, and the time since: the browser's clock may be wrong, but runs.
export function ageSeconds(forecast, heardAt, now) {
  return forecast.data_age_seconds + (now - heardAt) / 1000;
}
