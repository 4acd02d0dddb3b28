// The city of a run: its places, where they stand, what each depends on.

import { ask } from "./api.js";
import { readGraph, readPlaces } from "./answers.js";
import { layOut } from "./layout.js";

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
