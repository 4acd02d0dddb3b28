// Times come as texts such as 2014-11-02T01:00:00-04:00. They are taken apart as they stand:
// a Date in the browser's zone would move them.

const TIME = /^(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d)(?::\d\d(?:\.\d+)?)?(Z|[+-]\d\d:\d\d)$/;
const DAYS = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
const MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(" ");
const DAY_MS = 86_400_000;

export function isTime(text) {
  return typeof text === "string" && TIME.test(text);
}

function parts(text) {
  const [, year, month, day, hour, minute, offset] = TIME.exec(text);
  const wall = new Date(Date.UTC(year, month - 1, day, hour, minute)); // read back as UTC only
  return { wall, day: Number(day), month: Number(month), hour: Number(hour), minute, offset };
}

export function hourOf(text) {
  const { hour, minute } = parts(text);
  return hour + Number(minute) / 60;
}

export function clockOf(text) {
  return text.slice(11, 16);
}

export function dateOf(text) {
  return text.slice(0, 10);
}

export function dayOf(text) {
  const { wall, day, month } = parts(text);
  return `${DAYS[wall.getUTCDay()]} ${day} ${MONTHS[month - 1]}`;
}

// UTC−4, UTC+5:30
export function offsetOf(text) {
  const { offset } = parts(text);
  if (offset === "Z" || offset === "+00:00") return "UTC";
  const sign = offset[0] === "-" ? "−" : "+";
  const [hours, minutes] = offset.slice(1).split(":");
  return `UTC${sign}${Number(hours)}${minutes === "00" ? "" : `:${minutes}`}`;
}

export function momentOf(text) {
  return `${dayOf(text)} ${clockOf(text)} ${offsetOf(text)}`;
}

// The same reading of the clock some days earlier, as 2014-10-26T01:00
export function earlier(text, days) {
  return new Date(parts(text).wall.getTime() - days * DAY_MS).toISOString().slice(0, 16);
}

export function wallOf(text) {
  return text.slice(0, 16);
}

// 300 → 5 min; 7200 → 2 h. No seconds: what is read aloud when it changes must change rarely.
export function ageOf(seconds) {
  if (seconds < 60) return "under 1 min";
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  if (seconds < 2 * 86_400) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86_400)} days`;
}

// 3 steps of 60 minutes → 3 h
export function spanOf(steps, minutes) {
  const total = steps * minutes;
  if (total % 1440 === 0) return `${total / 1440} d`;
  return total % 60 === 0 ? `${total / 60} h` : `${total} min`;
}

// 60 → per hour
export function perStep(minutes) {
  const names = { 60: "hour", 1440: "day" };
  return `per ${names[minutes] ?? `${minutes} minutes`}`;
}

// Numbers and elements as people read them. Text from data only ever becomes a text node.

const PLAIN = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 0 });
const FINE = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 1 });
const SMALL = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 2 });
const TINY = new Intl.NumberFormat("en-GB", { maximumSignificantDigits: 2 });

export const NONE = "–";

export function numberText(value) {
  if (value === null || value === undefined) return NONE;
  return formatFor(Math.abs(value)).format(value).replace("-", "−");
}

function formatFor(size) {
  if (size >= 10 || size === 0) return PLAIN;
  if (size >= 1) return FINE;
  return size >= 0.01 ? SMALL : TINY;
}

export function signedText(value) {
  if (value === null || value === undefined) return NONE;
  const text = numberText(value);
  return value > 0 && text !== "0" ? `+${text}` : text;
}

export function percentText(share) {
  return share === null || share === undefined ? NONE : `${PLAIN.format(100 * share)} %`;
}

export function countText(count, word) {
  return `${PLAIN.format(count)} ${word}${count === 1 ? "" : "s"}`;
}
