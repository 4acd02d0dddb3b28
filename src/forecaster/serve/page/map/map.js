// The map: a background and a dot for each location. Its size is the forecast, its colour the forecast or
// its change.

import { paintNames } from "./names.js";
import { makeGlow, paintBackground, paintDots, paintEdges, paintMark, paintRing } from "./painting.js";
import { Viewport } from "./viewport.js";

const HIT_RADIUS = 14; // pixels around a dot that count as the dot
const TRANSITION_MS = 380;
const DIRECTIONS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

export class LocationMap {
  // Callbacks: `hovered(location, at)`, `selected(location)` and `moved(view)`.
  constructor({ ground, dots, hovered, selected, moved }) {
    Object.assign(this, { ground, dots, callbacks: { hovered, selected, moved } });
    Object.assign(this, { locations: [], located: [], order: [], neighbours: new Map() });
    Object.assign(this, { sizes: [], shades: [], colours: [], glows: [], doubtful: [], added: [], previous: null, startedAt: 0 });
    Object.assign(this, { hovered: null, selected: null, frame: null, backgroundChanged: true });
    Object.assign(this, { tiles: null, world: null, byMean: [] });
    this.view = new Viewport(dots, {
      changed: () => this.repaint(true),
      hovered: (at) => this.hover(at && this.#nearest(at)),
      clicked: (at) => this.#select(this.#nearest(at)),
    });
    new ResizeObserver(() => this.#resize()).observe(dots.parentElement);
    dots.addEventListener("keydown", (event) => this.#key(event));
    dots.addEventListener("blur", () => this.hover(null));
  }

  show({ locations, neighbours, layout: { located, spacing, world } }) {
    Object.assign(this, { locations, located, neighbours, world, sizes: [], shades: [], order: [] });
    const byMean = locations.map((_, i) => i).sort((i, j) => Math.abs(locations[j].mean) - Math.abs(locations[i].mean));
    Object.assign(this, { doubtful: [], added: [], byMean });
    this.hover(null);
    this.view.spacing = spacing;
    this.#resize();
    this.view.showAll(locations);
  }

  // sizes and shades: from 0 to 1 per location, null where there is no data; doubtful, added: locations to mark
  update({ sizes, shades, colours, doubtful, added }) {
    const reducedMotion = matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.previous = reducedMotion || this.sizes.length !== sizes.length ? null : this.#interpolated();
    if (colours.join() !== this.colours.join()) this.glows = colours.map(makeGlow);
    const order = sizes.map((_, i) => i).sort((i, j) => (sizes[j] ?? 0) - (sizes[i] ?? 0));
    Object.assign(this, { sizes, shades, colours, doubtful, added, order, startedAt: performance.now() });
    this.repaint(false);
  }

  repaint(backgroundChanged) {
    this.backgroundChanged ||= backgroundChanged;
    this.frame ??= requestAnimationFrame(() => this.#paint());
  }

  hover(location) {
    if (location === this.hovered) return;
    this.hovered = location;
    this.dots.classList.toggle("over", location !== null);
    this.repaint(false);
    this.callbacks.hovered(location, location && this.view.toScreen(location));
  }

  select(location, reveal = false) {
    this.selected = location;
    if (reveal) this.view.reveal(location);
    this.repaint(false);
  }

  #select(location) {
    if (location) this.callbacks.selected(location);
  }

  #nearest([x, y]) {
    let [best, distance] = [null, HIT_RADIUS];
    for (const location of this.locations) {
      const [px, py] = this.view.toScreen(location);
      const d = Math.hypot(px - x, py - y);
      if (d < distance) [best, distance] = [location, d];
    }
    return best;
  }

  #key(event) {
    const here = this.hovered ?? this.selected;
    const actions = {
      Enter: () => this.#select(here),
      "+": () => this.view.zoom(1.4),
      "-": () => this.view.zoom(1 / 1.4),
      0: () => this.view.showAll(this.locations),
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
    for (const location of this.locations) {
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
    this.view.resize(width, height, this.locations);
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
    const here = this.hovered ?? this.selected;
    const neighbours = this.neighbours.get(here?.id) ?? [];
    const strongest = Math.abs(neighbours[0]?.strength) || 1;
    return neighbours.map(({ location, strength, role }) => {
      const [from, to] = role === "source" ? [location, here] : [here, location];
      return { from, to, neighbour: location, directed: Boolean(role), share: Math.abs(strength) / strongest };
    });
  }

  #paint() {
    this.frame = null;
    if (this.backgroundChanged) {
      paintBackground(this.ground, this.view, this.located, this.world && this.tiles, this.world);
      this.callbacks.moved(this.view);
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
    context.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
    context.clearRect(0, 0, view.width, view.height);
    paintEdges(context, view, edges, edge);
    paintDots(context, view, this.locations, this.order, { ...this.#interpolated(), colours, glows, rim });
    for (const { neighbour } of edges) {
      paintRing(context, view, neighbour, sizes[neighbour.index], { width: 1.4, colour: edge });
    }
    for (const location of [this.selected, this.hovered].filter(Boolean)) {
      paintRing(context, view, location, sizes[location.index], { width: 2.6, colour: ink });
    }
    paintNames(context, view, this.locations, this.byMean, { sizes, ink, halo: card, occupied: this.#occupied() });
    for (const location of this.doubtful) {
      paintMark(context, view, location, sizes[location.index], { text: "!", side: 1, colour: warn, ink: card });
    }
    for (const location of this.added) {
      paintMark(context, view, location, sizes[location.index], { text: "+", side: -1, colour: accent, ink: card });
    }
  }
}
