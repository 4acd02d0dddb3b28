// The service's responses, checked before anything is shown: an incomplete response counts as none.

import { isTime } from "../format.js";
import { projectLocations } from "../map/projection.js";
import { InvalidResponse, pause, requestJson } from "./requests.js";

function check(condition, field) {
  if (!condition) throw new InvalidResponse(`the answer has no usable ${field}`);
}

const isNumber = (value) => value === null || Number.isFinite(value);
const isSeries = (values, length) =>
  Array.isArray(values) && values.length === length && values.every(isNumber);
const areTimes = (steps) =>
  Array.isArray(steps) && steps.every((step) => isTime(step?.ds) && isTime(step?.ds_local));

const NEW_LOCATION = "new location"; // the service's word for a location that the run was not trained on

// Of many locations, everything comes in pages: none takes so long to read that the page stands still.
const PAGE = 5_000; // locations
const TRIES = 3; // of pages whose data changed on the way

// The data of a run: its locations with their position on the map, and the neighbours of each. `current` is
// returned if the service has the same locations still. Of more than one page of locations, the neighbours are not
// there before `loadNeighbours`.
export async function loadDataset(current = null) {
  const first = await requestJson(`v1/locations?limit=${PAGE}`, { etag: current?.etag });
  if (first.same) return current;
  const dataset = { ...readMeaning(first.body), etag: first.etag, locations: [], byId: new Map(), isWhole: !first.next };
  for (let page = first; page; page = page.next && (await requestJson(page.next))) addLocations(dataset, page.body);
  const neighbours = dataset.isWhole ? resolveIds(readGraph((await requestJson("v1/graph")).body), dataset.byId) : new Map();
  if (!dataset.isWhole) await pause();
  return { ...dataset, neighbours, layout: projectLocations(dataset.locations) };
}

// Adds the neighbours of a location, unless they are there.
export async function loadNeighbours({ isWhole, neighbours, byId }, { id }) {
  if (isWhole || neighbours.has(id)) return;
  const graph = await requestJson(`v1/graph?location=${encodeURIComponent(id)}`);
  neighbours.set(id, resolveIds(readGraph(graph.body), byId).get(id) ?? []);
}

// A forecast with the rows of all pages, and its dataset, which `datasetOf` returns for the first page.
export async function loadForecast(path, { etag, datasetOf }, tries = TRIES) {
  const first = await requestJson(`${path}${path.includes("?") ? "&" : "?"}limit=${PAGE}`, { etag });
  if (first.same) return first;
  const dataset = await datasetOf(first.body);
  const forecast = readForecast(first.body, dataset);
  try {
    for (let next = first.next; next; ) {
      const page = await requestJson(next);
      addRows(forecast, page.body, dataset);
      next = page.next;
    }
  } catch (error) {
    if (error.status !== 409 || tries <= 1) throw error;
    return loadForecast(path, { etag, datasetOf }, tries - 1); // from newer data
  }
  if (first.next) await pause();
  return { ...first, dataset, forecast };
}

// Ids become locations; edges to unknown ids are left out.
function resolveIds(neighbours, byId) {
  const resolve = (edges) =>
    edges.map((edge) => ({ ...edge, location: byId.get(edge.id) })).filter(({ location }) => location);
  return new Map([...neighbours].map(([id, edges]) => [id, resolve(edges)]));
}

function readMeaning(body) {
  check(Array.isArray(body?.locations) && body.locations.length > 0, "locations");
  check(Number.isFinite(body.step_minutes), "step");
  return { zone: body.zone, kind: body.kind, minutes: body.step_minutes, ...interval(body) };
}

function addLocations({ locations, byId }, body) {
  check(Array.isArray(body?.locations), "locations");
  check(
    body.locations.every((location) => typeof location?.id === "string"),
    "location ids",
  );
  for (const { id, name: given, lat, lon, mean, fallback, new: isNew } of body.locations) {
    const [name, index] = [String(given || id), locations.length];
    const searchText = `${name} ${id}`.toLowerCase();
    const location = { id, name, lat, lon, mean: mean ?? 0, fallback, isNew: isNew === true, index, searchText };
    locations.push(location);
    byId.set(id, location);
  }
}

// The outermost quantiles bound the interval: 0.1 and 0.9 → q10, q90, coverage 0.8
function interval({ quantiles: levels }) {
  if (!Array.isArray(levels) || levels.length < 2) return { low: null, high: null, coverage: null };
  const [first, last] = [levels[0], levels.at(-1)];
  return { low: quantileColumn(first), high: quantileColumn(last), coverage: last - first };
}

// The column of a quantile level with all its digits: 0.1 → q10, 0.1586553 → q15.86553
export function quantileColumn(level) {
  return `q${Number((100 * level).toPrecision(10))}`;
}

export function readForecast(body, dataset) {
  check(areTimes(body?.steps) && body.steps.length > 0, "steps");
  check(isTime(body.origin) && isTime(body.origin_local) && Number.isFinite(body.data_age_seconds), "origin");
  const forecast = { ...body, rows: new Map() };
  addRows(forecast, body, dataset);
  return forecast;
}

function addRows(forecast, body, dataset) {
  check(Array.isArray(body?.forecasts), "forecasts");
  check(body.data_version === forecast.data_version && body.origin === forecast.origin, "page");
  const length = forecast.steps.length;
  for (const row of body.forecasts) {
    check(isSeries(row?.y_hat, length), "forecast");
    forecast.rows.set(row.id, {
      forecast: row.y_hat,
      low: optional(row[dataset.low], length),
      high: optional(row[dataset.high], length),
      weekBefore: optional(row.usual, length),
      days: dayTotals(row.days, forecast.days, dataset),
      last: isNumber(row.last) ? row.last : null,
      degraded: doubts(row.degraded), // implausible, repeated or missing values
    });
  }
}

// The totals of each day with its interval; empty if the horizon is shorter than a day
function dayTotals(totals, days, { low, high }) {
  if (!Array.isArray(days) || !isSeries(totals?.y_hat, days.length)) return [];
  const [lows, highs] = [low, high].map((name) => optional(totals[name], days.length));
  return days.map((day, i) => ({ ...day, forecast: totals.y_hat[i], low: lows?.[i], high: highs?.[i] }));
}

// The reasons without those of every new location, which has a mark of its own: it is new, and has little past.
function doubts(degraded) {
  if (typeof degraded !== "string") return "";
  const reasons = degraded.split("; ");
  if (!reasons.includes(NEW_LOCATION)) return degraded;
  return reasons.filter((reason) => reason !== NEW_LOCATION && !reason.endsWith("past values missing")).join("; ");
}

function optional(values, length) {
  return isSeries(values, length) ? values : null;
}

// Location id → its neighbours, the strongest first. Of a directed graph each is a `source` or a `target`,
// with the delays of its edges and the largest strength of these.
function readGraph(body) {
  check(Array.isArray(body?.edges), "edges");
  const neighbours = new Map();
  const add = (from, id, edge) => {
    if (!neighbours.has(from)) neighbours.set(from, []);
    const edges = neighbours.get(from);
    const same = edge.role && edges.find((other) => other.id === id && other.role === edge.role);
    if (same) same.delays.push(...edge.delays);
    else edges.push({ id, ...edge });
  };
  const edges = body.edges.filter((edge) => Number.isFinite(edge?.strength));
  edges.sort((a, b) => Math.abs(b.strength) - Math.abs(a.strength));
  for (const { a, b, strength, delay } of edges) {
    const directed = Number.isFinite(delay);
    add(a, b, directed ? { strength, role: "target", delays: [delay] } : { strength });
    add(b, a, directed ? { strength, role: "source", delays: [delay] } : { strength });
  }
  return neighbours;
}

export function readHistory(body) {
  check(areTimes(body?.steps) && isSeries(body.values, body.steps.length), "history");
  const implausible = (i) => body.implausible?.[i] === true;
  return body.steps.map((step, i) => ({ ...step, observed: body.values[i], implausible: implausible(i) }));
}

export function readExplanation(body, length) {
  const isPastStep = (step) => isTime(step?.ds_local) && isSeries(step.shares, length);
  const locations = [body?.own, ...(body?.neighbours ?? [])];
  check(Array.isArray(body?.hours) && body.hours.every(isPastStep), "hours");
  check(
    locations.every((location) => isSeries(location?.gradients, length)),
    "neighbours",
  );
  check(body.forecast?.length === length && Number.isFinite(body.city_wide?.share), "explanation");
  check(Array.isArray(body.city_wide.places), "explanation");
  check(typeof body.step === "string" && typeof body.shares_by === "string", "explanation");
  return body;
}
