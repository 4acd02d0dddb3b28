// Where places are on the ground: kilometres east and north. Those without coordinates stand in
// a grid, below the others or alone.

export const SHORE = 1.9; // spacings of land around a place
const KM_PER_DEGREE = 111.2;

const isPlaced = ({ lat, lon }) => Number.isFinite(lat) && Number.isFinite(lon);

// Sets x and y of every place; returns those on the map, how many others, and how far apart they are.
export function layOut(places) {
  const placed = places.filter(isPlaced);
  const others = places.filter((place) => !isPlaced(place));
  project(placed);
  standInGrid(others, placed);
  return { placed, others: others.length, spacing: typicalSpacing(places) };
}

function project(places) {
  if (!places.length) return;
  const east = unwrap(places.map(({ lon }) => lon));
  const middle = range(places.map(({ lat }) => lat)).reduce((a, b) => a + b) / 2;
  const narrow = Math.max(Math.cos((middle * Math.PI) / 180), 0.05);
  places.forEach((place, i) => {
    place.x = east[i] * KM_PER_DEGREE * narrow;
    place.y = place.lat * KM_PER_DEGREE;
  });
}

// A region on both sides of the date line is one region.
function unwrap(longitudes) {
  const [west, east] = range(longitudes);
  return east - west <= 180 ? longitudes : longitudes.map((lon) => (lon < 0 ? lon + 360 : lon));
}

function standInGrid(places, placed) {
  if (!places.length) return;
  const [west, east] = placed.length ? range(placed.map(({ x }) => x)) : [0, Math.sqrt(places.length * 1.6)];
  const south = placed.length ? range(placed.map(({ y }) => y))[0] : 0;
  const columns = Math.max(Math.ceil(Math.sqrt(places.length * 1.6)), 2);
  const gap = (east - west || 1) / (columns - 1);
  places.forEach((place, i) => {
    place.x = west + gap * (i % columns);
    place.y = south - gap * (1.5 + Math.floor(i / columns));
  });
}

export function range(values) {
  return values.reduce(([min, max], v) => [Math.min(min, v), Math.max(max, v)], [Infinity, -Infinity]);
}

// Median distance to the nearest other place, in kilometres; a few hundred tell it well enough.
function typicalSpacing(places) {
  const every = Math.ceil(places.length / 300);
  const nearest = places.filter((_, i) => i % every === 0).map((place) => nearestDistance(place, places));
  const known = nearest.filter((d) => Number.isFinite(d) && d > 0).sort((a, b) => a - b);
  return known.length ? known[Math.floor(known.length / 2)] : 1;
}

function nearestDistance(place, places) {
  let best = Infinity;
  for (const other of places) {
    const d = Math.hypot(other.x - place.x, other.y - place.y);
    if (d < best && d > 0) best = d;
  }
  return best;
}
