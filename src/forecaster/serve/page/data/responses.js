// What the service answered, checked before anything is shown: half an answer is none.

import { ask } from "./requests.js";
import { isTime } from "../format.js";
import { layOut } from "../map/projection.js";

export class Malformed extends Error {}

function need(condition, what) {
  if (!condition) throw new Malformed(`the answer has no usable ${what}`);
}

const isNumber = (value) => value === null || Number.isFinite(value);
const isSeries = (values, length) =>
  Array.isArray(values) && values.length === length && values.every(isNumber);
const areTimes = (steps) =>
  Array.isArray(steps) && steps.every((step) => isTime(step?.ds) && isTime(step?.ds_local));

export function readPlaces(body) {
  need(Array.isArray(body?.locations) && body.locations.length > 0, "locations");
  need(
    body.locations.every((place) => typeof place?.id === "string"),
    "location ids",
  );
  need(Number.isFinite(body.step_minutes), "step");
  const places = body.locations.map(({ id, name, lat, lon }) => ({ id, name: String(name || id), lat, lon }));
  return { places, zone: body.zone, kind: body.kind, minutes: body.step_minutes, ...interval(body) };
}

// The outermost quantiles are the interval: 0.1 and 0.9 → q10, q90, share 0.8
function interval({ quantiles: levels }) {
  if (!Array.isArray(levels) || levels.length < 2) return { low: null, high: null, share: null };
  const [first, last] = [levels[0], levels.at(-1)];
  return { low: columnOf(first), high: columnOf(last), share: last - first };
}

function columnOf(level) {
  return `q${Number((100 * level).toFixed(6))}`;
}

export function readForecast(body, city) {
  need(areTimes(body?.steps) && body.steps.length > 0, "steps");
  need(isTime(body.origin) && isTime(body.origin_local) && Number.isFinite(body.data_age_seconds), "origin");
  need(Array.isArray(body.forecasts), "forecasts");
  const length = body.steps.length;
  const rows = new Map();
  for (const row of body.forecasts) {
    need(isSeries(row?.y_hat, length), "forecast");
    rows.set(row.id, {
      expected: row.y_hat,
      low: optional(row[city.low], length),
      high: optional(row[city.high], length),
      usual: optional(row.usual, length),
      last: isNumber(row.last) ? row.last : null,
    });
  }
  return { ...body, rows };
}

function optional(values, length) {
  return isSeries(values, length) ? values : null;
}

// place id → its neighbours, the strongest first
export function readGraph(body) {
  need(Array.isArray(body?.edges), "edges");
  const neighbours = new Map();
  const join = (from, to, strength) => {
    if (!neighbours.has(from)) neighbours.set(from, []);
    neighbours.get(from).push({ id: to, strength });
  };
  for (const { a, b, strength } of body.edges.filter((edge) => Number.isFinite(edge?.strength))) {
    join(a, b, strength);
    join(b, a, strength);
  }
  for (const list of neighbours.values()) {
    list.sort((one, other) => Math.abs(other.strength) - Math.abs(one.strength));
  }
  return neighbours;
}

export function readHistory(body) {
  need(areTimes(body?.steps) && isSeries(body.values, body.steps.length), "history");
  return body.steps.map((step, i) => ({ ...step, value: body.values[i] }));
}

export function readExplanation(body, length) {
  const isHour = (hour) => isTime(hour?.ds_local) && isSeries(hour.shares, length);
  const places = [body?.own, ...(body?.neighbours ?? [])];
  need(Array.isArray(body?.hours) && body.hours.every(isHour), "hours");
  need(
    places.every((place) => isSeries(place?.gradients, length)),
    "neighbours",
  );
  need(body.forecast?.length === length && Number.isFinite(body.city_wide?.share), "reasons");
  need(Array.isArray(body.city_wide.places), "reasons");
  need(typeof body.step === "string" && typeof body.shares_by === "string", "words for its reasons");
  return body;
}

// The city of a run: its places, where they stand, what each depends on.

export async function loadCity() {
  const [places, graph] = await Promise.all([ask("v1/locations"), ask("v1/graph")]);
  const city = readPlaces(places.body);
  city.places.forEach((place, index) => {
    Object.assign(place, { index, sought: `${place.name} ${place.id}`.toLowerCase() });
  });
  const byId = new Map(city.places.map((place) => [place.id, place]));
  const neighbours = resolve(readGraph(graph.body), byId);
  return { ...city, byId, neighbours, layout: layOut(city.places) };
}

// Ids become places; an edge to a place that nobody knows is left out.
function resolve(neighbours, byId) {
  const known = (edges) =>
    edges.map((edge) => ({ ...edge, place: byId.get(edge.id) })).filter(({ place }) => place);
  return new Map([...neighbours].map(([id, edges]) => [id, known(edges)]));
}
