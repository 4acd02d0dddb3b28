// The map: a background and a dot for each location. Its size is the forecast, its colour the forecast or
// its change. Of many locations, neighbours are one circle with their number, which opens as one zooms in.

import { paintNames } from "./names.js";
import {
  clusterCentre, clusterRadius, inkOn, makeGlow, paintBackground, paintClusters, paintDots, paintEdges, paintMark, paintRing,
  radiusOf,
} from "./painting.js";
import { Viewport } from "./viewport.js";

const HIT_RADIUS = 14; // pixels around a dot that count as the dot
const TRANSITION_MS = 380;
const SQUARE = 64; // pixels; the locations of larger squares are not one cluster
const DIRECTIONS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

export class LocationMap {
  // Callbacks: `hovered(target, at)` with a location or a cluster, `selected(location)` and
  // `moved(view, whether clusters are drawn)`.
  constructor({ ground, dots, hovered, selected, moved }) {
    Object.assign(this, { ground, dots, callbacks: { hovered, selected, moved } });
    Object.assign(this, { locations: [], located: [], order: [], neighbours: new Map() });
    Object.assign(this, { sizes: [], shades: [], colours: [], glows: [], doubtful: [], added: [], previous: null, startedAt: 0 });
    Object.assign(this, { hovered: null, selected: null, frame: null, backgroundChanged: true });
    Object.assign(this, { tiles: null, world: null, byMean: [], index: null, land: null, inks: [] });
    this.shown = { single: [], clusters: [] };
    this.view = new Viewport(dots, {
      changed: () => this.#move(),
      hovered: (at) => this.hover(at && this.#nearest(at)),
      clicked: (at) => this.#select(this.#nearest(at)),
    });
    new ResizeObserver(() => this.#resize()).observe(dots.parentElement);
    dots.addEventListener("keydown", (event) => this.#key(event));
    dots.addEventListener("blur", () => this.hover(null));
  }

  show({ locations, neighbours, layout: { located, spacing, world, bounds, index, land } }) {
    Object.assign(this, { locations, located, neighbours, world, index, land, sizes: [], shades: [], order: [] });
    const byMean = index ? [] : this.#byMean(locations.map((_, i) => i));
    Object.assign(this, { doubtful: [], added: [], byMean, shown: { single: [], clusters: [] } });
    this.hover(null);
    Object.assign(this.view, { spacing, bounds });
    this.#resize();
    this.view.showAll();
  }

  #byMean(order) {
    return order.sort((i, j) => Math.abs(this.locations[j].mean) - Math.abs(this.locations[i].mean));
  }

  #bySize(order) {
    return order.sort((i, j) => (this.sizes[j] ?? 0) - (this.sizes[i] ?? 0));
  }

  // A cluster may be drawn no more, or elsewhere.
  #move() {
    if (this.hovered?.count) this.hover(null);
    this.repaint(true);
  }

  // sizes and shades: from 0 to 1 per location, null where there is no data; doubtful, added: locations to mark
  // values: those that the shades are of, and `scale`, which gives the shade of a mean.
  update({ sizes, shades, values, scale, colours, doubtful, added }) {
    const still = this.index || matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.previous = still || this.sizes.length !== sizes.length ? null : this.#interpolated();
    if (colours.join() !== this.colours.join()) {
      Object.assign(this, { glows: colours.map(makeGlow), inks: colours.map(inkOn) });
    }
    Object.assign(this, { sizes, shades, scale, colours, doubtful, added, startedAt: performance.now() });
    if (this.index) this.index.measure(values.map((value) => value ?? NaN));
    else this.order = this.#bySize(sizes.map((_, i) => i));
    this.repaint(false);
  }

  repaint(backgroundChanged) {
    this.backgroundChanged ||= backgroundChanged;
    this.frame ??= requestAnimationFrame(() => this.#paint());
  }

  // location: or a cluster
  hover(location) {
    if (location === this.hovered || (location?.count && isSame(location, this.hovered))) return;
    this.hovered = location;
    this.dots.classList.toggle("over", location !== null);
    this.repaint(false);
    this.callbacks.hovered(location, location && this.view.toScreen(location));
  }

  select(location, reveal = false) {
    this.selected = location;
    if (reveal) this.view.reveal(location, this.index?.openingScale(location, SQUARE));
    this.repaint(false);
  }

  #select(target) {
    if (target?.count) this.view.showArea(this.index.extent(target));
    else if (target) this.callbacks.selected(target);
  }

  // The locations and clusters that are drawn, or would be as far as `around` pixels outside.
  #targets(around = 0) {
    if (!this.index) return this.locations;
    const { single, clusters } = around ? this.index.cover(this.view, SQUARE, around) : this.shown;
    return [...clusters, ...Array.from(single, (i) => this.locations[i])];
  }

  #nearest([x, y]) {
    let [best, distance] = [null, HIT_RADIUS];
    for (const target of this.#targets()) {
      const [px, py] = this.view.toScreen(target.count ? clusterCentre(target, this.view) : target);
      const inside = target.count ? Math.max(clusterRadius(target, this.view) - HIT_RADIUS, 0) : 0;
      const d = Math.hypot(px - x, py - y) - inside;
      if (d < distance) [best, distance] = [target, d];
    }
    return best;
  }

  #key(event) {
    const here = this.hovered ?? this.selected;
    const actions = {
      Enter: () => this.#select(here),
      "+": () => this.view.zoom(1.4),
      "-": () => this.view.zoom(1 / 1.4),
      0: () => this.view.showAll(),
    };
    const direction = DIRECTIONS[event.key];
    if (!direction && !actions[event.key]) return;
    event.preventDefault();
    if (direction) this.#moveFrom(here, direction);
    else actions[event.key]();
  }

  // Moves to the nearest location in a direction; distance to the side counts double.
  #moveFrom(here, [dx, dy]) {
    const [x, y] = here ? this.view.toScreen(here) : [this.view.width / 2, this.view.height / 2];
    let [best, least] = [null, Infinity];
    for (const location of this.#targets(Math.max(this.view.width, this.view.height))) {
      const [px, py] = this.view.toScreen(location);
      const along = (px - x) * dx + (py - y) * dy;
      const aside = Math.abs((px - x) * dy) + Math.abs((py - y) * dx);
      const cost = Math.abs(along) + 2 * aside;
      if (cost < least && (along > 0.5 || !here)) [best, least] = [location, cost];
    }
    if (!best) return;
    this.view.reveal(best);
    this.hover(best);
  }

  #resize() {
    const { clientWidth: width, clientHeight: height } = this.dots.parentElement;
    for (const canvas of [this.ground, this.dots]) {
      canvas.width = width * devicePixelRatio;
      canvas.height = height * devicePixelRatio;
    }
    this.view.resize(width, height);
  }

  #progress() {
    if (!this.previous) return 1;
    const share = Math.min((performance.now() - this.startedAt) / TRANSITION_MS, 1);
    return 1 - (1 - share) ** 3;
  }

  // The sizes and shades of the current frame of the transition.
  #interpolated() {
    const p = this.#progress();
    if (p === 1) return { sizes: this.sizes, shades: this.shades };
    const mix = (from, to) => (from === null || to === null ? to : from + (to - from) * p);
    return {
      sizes: this.sizes.map((to, i) => mix(this.previous.sizes[i], to)),
      shades: this.shades.map((to, i) => mix(this.previous.shades[i], to)),
    };
  }

  #edges() {
    const here = this.hovered?.count ? this.selected : (this.hovered ?? this.selected);
    const neighbours = this.neighbours.get(here?.id) ?? [];
    const strongest = Math.abs(neighbours[0]?.strength) || 1;
    return neighbours.map(({ location, strength, role }) => {
      const [from, to] = role === "source" ? [location, here] : [here, location];
      return { from, to, neighbour: location, directed: Boolean(role), share: Math.abs(strength) / strongest };
    });
  }

  #paint() {
    this.frame = null;
    if (this.index) this.shown = this.index.cover(this.view, SQUARE, SQUARE);
    if (this.backgroundChanged) {
      paintBackground(this.ground, this.view, this, this.world && this.tiles);
      this.callbacks.moved(this.view, this.shown.clusters.length > 0);
      this.backgroundChanged = false;
    }
    this.#paintLocations(this.dots.getContext("2d"), getComputedStyle(this.dots));
    if (this.#progress() < 1) this.repaint(false);
    else this.previous = null;
  }

  // Where text and buttons lie over the map.
  #occupied() {
    const over = this.dots.parentElement.querySelectorAll(".caption > *, .zoom, .note, .credit, .ruler");
    const { left: x, top: y } = this.dots.getBoundingClientRect();
    const boxes = [...over].filter((node) => !node.hidden).map((node) => node.getBoundingClientRect());
    return boxes.map(({ left, right, top, bottom }) => ({ left: left - x, right: right - x, top: top - y, bottom: bottom - y }));
  }

  #paintLocations(context, style) {
    const { view, sizes, colours, glows } = this;
    const [rim, edge, ink, warn, card] = ["--rim", "--edge", "--ink", "--warn", "--card"].map((name) =>
      style.getPropertyValue(name),
    );
    const accent = style.getPropertyValue("--accent");
    const edges = this.#edges();
    const { clusters } = this.shown;
    const order = this.index ? this.#bySize([...this.shown.single]) : this.order;
    const names = this.index ? this.#byMean([...order]) : this.byMean;
    const isShown = this.index ? hasAny(order) : () => true;
    context.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
    context.clearRect(0, 0, view.width, view.height);
    paintEdges(context, view, edges, edge);
    paintDots(context, view, this.locations, order, { ...this.#interpolated(), colours, glows, rim });
    paintClusters(context, view, clusters, { scale: this.scale, colours, inks: this.inks, rim, ink, card });
    for (const { neighbour } of edges) {
      paintRing(context, view, neighbour, radiusOf(sizes[neighbour.index], view), { width: 1.4, colour: edge });
    }
    for (const target of [this.selected, this.hovered].filter(Boolean)) {
      const radius = target.count ? clusterRadius(target, view) : radiusOf(sizes[target.index], view);
      paintRing(context, view, target.count ? clusterCentre(target, view) : target, radius, { width: 2.6, colour: ink });
    }
    const occupied = [...this.#occupied(), ...clusters.map((cluster) => clusterBox(cluster, view))];
    paintNames(context, view, this.locations, names, { sizes, ink, halo: card, occupied });
    for (const location of this.doubtful.filter(isShown)) {
      paintMark(context, view, location, sizes[location.index], { text: "!", side: 1, colour: warn, ink: card });
    }
    for (const location of this.added.filter(isShown)) {
      paintMark(context, view, location, sizes[location.index], { text: "+", side: -1, colour: accent, ink: card });
    }
  }
}

function hasAny(order) {
  const indices = new Set(order);
  return ({ index }) => indices.has(index);
}

// Whether two clusters have the same locations.
function isSame(cluster, other) {
  return cluster.first === other?.first && cluster.end === other.end;
}

function clusterBox(cluster, view) {
  const [x, y] = view.toScreen(clusterCentre(cluster, view));
  const radius = clusterRadius(cluster, view);
  return { left: x - radius, right: x + radius, top: y - radius, bottom: y + radius };
}
