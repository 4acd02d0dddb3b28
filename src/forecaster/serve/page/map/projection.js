// Positions of locations in kilometres east and north, in the projection of web maps (Mercator): kilometres
// are true at the middle latitude. Those without coordinates are arranged in a grid below the others.

import { ClusterIndex } from "./clusters.js";

export const LAND_MARGIN = 1.9; // land around a location, in multiples of the spacing
const KM_PER_DEGREE = 111.2;
const NORTHMOST = 85; // degrees; the poles lie at infinity

const hasCoordinates = ({ lat, lon }) => Number.isFinite(lat) && Number.isFinite(lon);

const MANY = 8_000; // locations, from which neighbours are drawn as clusters
const SAMPLED = 300; // locations whose nearest neighbour is looked for

// Sets x and y of every location; returns those with coordinates, the number of others, the typical distance
// between neighbours, the kilometres around the world (null without coordinates), the extent of all locations and,
// of many, the index of their clusters and that of the land.
export function projectLocations(locations) {
  const located = locations.filter(hasCoordinates);
  const unlocated = locations.filter((location) => !hasCoordinates(location));
  const world = located.length ? project(located) : null;
  arrangeInGrid(unlocated, located);
  const bounds = [extent(locations.map(({ x }) => x)), extent(locations.map(({ y }) => y))];
  const index = locations.length > MANY ? new ClusterIndex(locations) : null;
  const land = index && unlocated.length ? new ClusterIndex(located) : index;
  const spacing = median(index ? index.nearestDistances(SAMPLED) : nearestDistances(locations));
  return { located, unlocated: unlocated.length, spacing, world, bounds, index, land };
}

function project(locations) {
  const east = unwrapLongitudes(locations.map(({ lon }) => lon));
  const middle = extent(locations.map(({ lat }) => lat)).reduce((a, b) => a + b) / 2;
  const perDegree = KM_PER_DEGREE * Math.max(Math.cos((middle * Math.PI) / 180), 0.05);
  locations.forEach((location, i) => {
    location.x = east[i] * perDegree;
    location.y = mercatorDegrees(location.lat) * perDegree;
  });
  return 360 * perDegree;
}

function mercatorDegrees(lat) {
  const radians = (Math.max(Math.min(lat, NORTHMOST), -NORTHMOST) * Math.PI) / 180;
  return (Math.asinh(Math.tan(radians)) * 180) / Math.PI;
}

// Makes longitudes continuous for a region that crosses the date line.
function unwrapLongitudes(longitudes) {
  const [west, east] = extent(longitudes);
  return east - west <= 180 ? longitudes : longitudes.map((lon) => (lon < 0 ? lon + 360 : lon));
}

function arrangeInGrid(locations, located) {
  if (!locations.length) return;
  const [west, east] = located.length ? extent(located.map(({ x }) => x)) : [0, Math.sqrt(locations.length * 1.6)];
  const south = located.length ? extent(located.map(({ y }) => y))[0] : 0;
  const columns = Math.max(Math.ceil(Math.sqrt(locations.length * 1.6)), 2);
  const gap = (east - west || 1) / (columns - 1);
  locations.forEach((location, i) => {
    location.x = west + gap * (i % columns);
    location.y = south - gap * (1.5 + Math.floor(i / columns));
  });
}

export function extent(values) {
  return values.reduce(([min, max], v) => [Math.min(min, v), Math.max(max, v)], [Infinity, -Infinity]);
}

function median(distances) {
  const finite = distances.filter((d) => Number.isFinite(d) && d > 0).sort((a, b) => a - b);
  return finite.length ? finite[Math.floor(finite.length / 2)] : 1;
}

// The distances to the nearest other location in kilometres, from a sample of a few hundred.
function nearestDistances(locations) {
  const every = Math.ceil(locations.length / SAMPLED);
  return locations.filter((_, i) => i % every === 0).map((location) => nearestDistance(location, locations));
}

function nearestDistance(location, locations) {
  let best = Infinity;
  for (const other of locations) {
    const d = Math.hypot(other.x - location.x, other.y - location.y);
    if (d < best && d > 0) best = d;
  }
  return best;
}
