// The map: ground below, dots above. A dot's size is the level, its colour what is asked for.

import { makeGlow, paintDots, paintGround, paintLinks, paintRing } from "./painting.js";
import { View } from "./viewport.js";

const REACH = 14; // pixels around a dot that count as the dot
const GLIDE_MS = 380;
const DIRECTIONS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

export class PlaceMap {
  // `pointed(place, at)`, `chosen(place)` and `moved(view)` are told what people do.
  constructor({ ground, dots, pointed, chosen, moved }) {
    Object.assign(this, { ground, dots, told: { pointed, chosen, moved } });
    Object.assign(this, { places: [], placed: [], order: [], neighbours: new Map() });
    Object.assign(this, { sizes: [], shades: [], colours: [], glows: [], from: null, begun: 0 });
    Object.assign(this, { pointed: null, chosen: null, frame: null, groundToo: true });
    this.view = new View(dots, {
      changed: () => this.repaint(true),
      pointed: (at) => this.point(at && this.#find(at)),
      clicked: (at) => this.#choose(this.#find(at)),
    });
    new ResizeObserver(() => this.#resize()).observe(dots.parentElement);
    dots.addEventListener("keydown", (event) => this.#key(event));
    dots.addEventListener("blur", () => this.point(null));
  }

  show({ places, neighbours, layout: { placed, spacing } }) {
    Object.assign(this, { places, placed, neighbours, sizes: [], shades: [], order: [] });
    this.point(null);
    this.view.spacing = spacing;
    this.#resize();
    this.view.showAll(places);
  }

  // sizes and shades: shares from 0 to 1 per place, null where there is no number
  update({ sizes, shades, colours }) {
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.from = still || this.sizes.length !== sizes.length ? null : this.#drawn();
    if (colours.join() !== this.colours.join()) this.glows = colours.map(makeGlow);
    const order = sizes.map((_, i) => i).sort((i, j) => (sizes[j] ?? 0) - (sizes[i] ?? 0));
    Object.assign(this, { sizes, shades, colours, order, begun: performance.now() });
    this.repaint(false);
  }

  repaint(groundToo) {
    this.groundToo ||= groundToo;
    this.frame ??= requestAnimationFrame(() => this.#paint());
  }

  point(place) {
    if (place === this.pointed) return;
    this.pointed = place;
    this.dots.classList.toggle("over", place !== null);
    this.repaint(false);
    this.told.pointed(place, place && this.view.toScreen(place));
  }

  mark(place, reveal = false) {
    this.chosen = place;
    if (reveal) this.view.reveal(place);
    this.repaint(false);
  }

  #choose(place) {
    if (place) this.told.chosen(place);
  }

  #find([x, y]) {
    let [best, nearest] = [null, REACH];
    for (const place of this.places) {
      const [px, py] = this.view.toScreen(place);
      const d = Math.hypot(px - x, py - y);
      if (d < nearest) [best, nearest] = [place, d];
    }
    return best;
  }

  #key(event) {
    const here = this.pointed ?? this.chosen;
    const actions = {
      Enter: () => this.#choose(here),
      "+": () => this.view.zoom(1.4),
      "-": () => this.view.zoom(1 / 1.4),
      0: () => this.view.showAll(this.places),
    };
    const direction = DIRECTIONS[event.key];
    if (!direction && !actions[event.key]) return;
    event.preventDefault();
    if (direction) this.#step(here, direction);
    else actions[event.key]();
  }

  // To the nearest place in a direction; what lies aside counts double.
  #step(here, [dx, dy]) {
    const [x, y] = here ? this.view.toScreen(here) : [this.view.width / 2, this.view.height / 2];
    let [best, least] = [null, Infinity];
    for (const place of this.places) {
      const [px, py] = this.view.toScreen(place);
      const along = (px - x) * dx + (py - y) * dy;
      const aside = Math.abs((px - x) * dy) + Math.abs((py - y) * dx);
      const cost = Math.abs(along) + 2 * aside;
      if (cost < least && (along > 0.5 || !here)) [best, least] = [place, cost];
    }
    if (!best) return;
    this.view.reveal(best);
    this.point(best);
  }

  #resize() {
    const { clientWidth: width, clientHeight: height } = this.dots.parentElement;
    for (const canvas of [this.ground, this.dots]) {
      canvas.width = width * devicePixelRatio;
      canvas.height = height * devicePixelRatio;
    }
    this.view.resize(width, height, this.places);
  }

  #progress() {
    if (!this.from) return 1;
    const share = Math.min((performance.now() - this.begun) / GLIDE_MS, 1);
    return 1 - (1 - share) ** 3;
  }

  // What is on the screen now, on its way from the step before.
  #drawn() {
    const p = this.#progress();
    if (p === 1) return { sizes: this.sizes, shades: this.shades };
    const mix = (from, to) => (from === null || to === null ? to : from + (to - from) * p);
    return {
      sizes: this.sizes.map((to, i) => mix(this.from.sizes[i], to)),
      shades: this.shades.map((to, i) => mix(this.from.shades[i], to)),
    };
  }

  #links() {
    const from = this.pointed ?? this.chosen;
    const found = this.neighbours.get(from?.id) ?? [];
    const most = Math.abs(found[0]?.strength) || 1;
    return found.map(({ place, strength }) => ({ from, to: place, share: Math.abs(strength) / most }));
  }

  #paint() {
    this.frame = null;
    if (this.groundToo) {
      paintGround(this.ground, this.view, this.placed);
      this.told.moved(this.view);
      this.groundToo = false;
    }
    this.#paintPlaces(this.dots.getContext("2d"), getComputedStyle(this.dots));
    if (this.#progress() < 1) this.repaint(false);
    else this.from = null;
  }

  #paintPlaces(context, style) {
    const { view, sizes, colours, glows } = this;
    const [rim, edge, ink] = ["--rim", "--edge", "--ink"].map((name) => style.getPropertyValue(name));
    const links = this.#links();
    context.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
    context.clearRect(0, 0, view.width, view.height);
    paintLinks(context, view, links, edge);
    paintDots(context, view, this.places, this.order, { ...this.#drawn(), colours, glows, rim });
    for (const { to } of links) paintRing(context, view, to, sizes[to.index], { width: 1.4, colour: edge });
    for (const place of [this.chosen, this.pointed].filter(Boolean)) {
      paintRing(context, view, place, sizes[place.index], { width: 2.6, colour: ink });
    }
  }
}
