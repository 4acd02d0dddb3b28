// Times and numbers as text. Times arrive as 2014-11-02T01:00:00-04:00 and are shown in that offset: a Date
// would convert them to the browser's zone.

const TIME = /^(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d)(?::\d\d(?:\.\d+)?)?(Z|[+-]\d\d:\d\d)$/;
const DAYS = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
const MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(" ");
const DAY_MS = 86_400_000;
const YEARS = 2; // from which an age is given in years

export function isTime(text) {
  return typeof text === "string" && TIME.test(text);
}

function parts(text) {
  const [, year, month, day, hour, minute, offset] = TIME.exec(text);
  const wall = new Date(Date.UTC(year, month - 1, day, hour, minute)); // only its UTC parts are read
  return { wall, day: Number(day), month: Number(month), hour: Number(hour), minute, offset };
}

export function hourOf(text) {
  const { hour, minute } = parts(text);
  return hour + Number(minute) / 60;
}

export function clockText(text) {
  return text.slice(11, 16);
}

export function dayText(text) {
  const { wall, day, month } = parts(text);
  return `${DAYS[wall.getUTCDay()]} ${day} ${MONTHS[month - 1]}`;
}

// Sun 2
export function shortDayText(text) {
  const { wall, day } = parts(text);
  return `${DAYS[wall.getUTCDay()]} ${day}`;
}

// UTC−4, UTC+5:30
export function offsetText(text) {
  const { offset } = parts(text);
  if (offset === "Z" || offset === "+00:00") return "UTC";
  const sign = offset[0] === "-" ? "−" : "+";
  const [hours, minutes] = offset.slice(1).split(":");
  return `UTC${sign}${Number(hours)}${minutes === "00" ? "" : `:${minutes}`}`;
}

export function dateTimeText(text) {
  return `${dayText(text)} ${clockText(text)} ${offsetText(text)}`;
}

// Mon 31 Aug 2015
export function dateText(text) {
  return `${dayText(text)} ${text.slice(0, 4)}`;
}

// The same local time some days earlier, as 2014-10-26T01:00
export function daysEarlier(text, days) {
  return new Date(parts(text).wall.getTime() - days * DAY_MS).toISOString().slice(0, 16);
}

export function wallTime(text) {
  return text.slice(0, 16);
}

// 300 → 5 min; 7200 → 2 h. No seconds: the text is read aloud when it changes.
export function ageText(seconds) {
  if (seconds < 60) return "under 1 min";
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  if (seconds < 2 * 86_400) return `${Math.round(seconds / 3600)} h`;
  if (seconds < YEARS * 365.25 * 86_400) return `${Math.round(seconds / 86_400)} days`;
  return `${Math.round(seconds / (365.25 * 86_400))} years`;
}

// 3 steps of 60 minutes → 3 h
export function durationText(steps, minutes) {
  const total = steps * minutes;
  if (total % 1440 === 0) return `${total / 1440} d`;
  return total % 60 === 0 ? `${total / 60} h` : `${total} min`;
}

const STEP_NAMES = { 60: "hour", 1440: "day" };

// 60 → per hour
export function perStepText(minutes) {
  return `per ${STEP_NAMES[minutes] ?? `${minutes} minutes`}`;
}

export function stepName(minutes) {
  return STEP_NAMES[minutes] ?? "step";
}

// [3, 1], hour → 1 and 3 hours
export function delaysText(delays, unit) {
  const sorted = [...delays].sort((a, b) => a - b);
  const last = countText(sorted.pop(), unit);
  return sorted.length ? `${sorted.join(", ")} and ${last}` : last;
}

const WHOLE = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 0 });
const ONE_DECIMAL = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 1 });
const TWO_DECIMALS = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 2 });
const TWO_DIGITS = new Intl.NumberFormat("en-GB", { maximumSignificantDigits: 2 });

export const NONE = "–";

export function numberText(value) {
  if (value === null || value === undefined) return NONE;
  return formatFor(Math.abs(value)).format(value).replace("-", "−");
}

function formatFor(size) {
  if (size >= 10 || size === 0) return WHOLE;
  if (size >= 1) return ONE_DECIMAL;
  return size >= 0.01 ? TWO_DECIMALS : TWO_DIGITS;
}

export function signedText(value) {
  if (value === null || value === undefined) return NONE;
  const text = numberText(value);
  return value > 0 && text !== "0" ? `+${text}` : text;
}

export function percentText(share) {
  return share === null || share === undefined ? NONE : `${WHOLE.format(100 * share)} %`;
}

export function countText(count, word) {
  return `${WHOLE.format(count)} ${word}${count === 1 ? "" : "s"}`;
}

// 12 to 30; empty where there is no interval
export function intervalText(low, high) {
  return Number.isFinite(low) ? `${numberText(low)} to ${numberText(high)}` : "";
}

// 0.8 → 80 % interval
export function intervalName(coverage) {
  return `${percentText(coverage)} interval`;
}

// 7, 340, 1.2k, 45k, 1.3M
export function shortCountText(count) {
  const [size, unit] = count < 1_000 ? [1, ""] : count < 999_500 ? [1_000, "k"] : [1_000_000, "M"];
  const short = count / size;
  return `${unit && short < 9.95 ? short.toFixed(1) : Math.round(short)}${unit}`;
}
