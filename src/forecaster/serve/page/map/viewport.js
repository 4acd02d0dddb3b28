// The visible part of the map: pan, zoom and pinch.

import { LAND_MARGIN } from "./projection.js";

const MAX_ZOOM = 60; // times the scale that shows all locations
const APART = 60; // pixels between neighbours that can be reached, too
const MARGIN = 0.96; // share of the screen for all locations and the land around them
const CLICK = 5; // pixels that a pointer may move during a click

export class Viewport {
  // `changed` is called after pan and zoom; `hovered` and `clicked` with a point in pixels.
  constructor(node, { changed, hovered, clicked }) {
    Object.assign(this, { node, changed, hovered, clicked });
    Object.assign(this, { scale: 1, fit: 1, spacing: 1, bounds: null, left: 0, top: 0, width: 1, height: 1 });
    this.pointers = new Map();
    this.moved = 0;
    this.#listen();
  }

  toScreen({ x, y }) {
    return [(x - this.left) * this.scale, (this.top - y) * this.scale];
  }

  isVisible(x, y, around) {
    return x > -around && y > -around && x < this.width + around && y < this.height + around;
  }

  // A view of all locations keeps showing all; otherwise the centre stays.
  resize(width, height) {
    const whole = this.scale === this.fit;
    this.left += (this.width - width) / 2 / this.scale;
    this.top -= (this.height - height) / 2 / this.scale;
    Object.assign(this, { width, height });
    if (whole) this.showAll();
    else this.changed();
  }

  showAll() {
    if (!this.bounds) return;
    this.fit = this.#fitting(this.bounds);
    this.#show(this.bounds, this.fit);
  }

  // Shows an area: [west, east], [south, north] in kilometres.
  showArea(bounds) {
    this.#show(bounds, Math.min(this.#fitting(bounds), this.#deepest()));
  }

  #fitting([[west, east], [south, north]]) {
    const margin = 2 * LAND_MARGIN * this.spacing;
    return MARGIN * Math.min(this.width / (east - west + margin), this.height / (north - south + margin));
  }

  #show([[west, east], [south, north]], scale) {
    this.scale = scale;
    this.left = (west + east) / 2 - this.width / 2 / scale;
    this.top = (south + north) / 2 + this.height / 2 / scale;
    this.changed();
  }

  #deepest() {
    return Math.max(this.fit * MAX_ZOOM, APART / this.spacing);
  }

  zoom(factor, x = this.width / 2, y = this.height / 2) {
    const scale = Math.min(Math.max(this.scale * factor, this.fit * 0.7), this.#deepest());
    this.left += x / this.scale - x / scale;
    this.top -= y / this.scale - y / scale;
    this.scale = scale;
    this.changed();
  }

  pan(dx, dy) {
    this.left -= dx / this.scale;
    this.top += dy / this.scale;
    this.changed();
  }

  // Centres a location unless it is visible already; at a smaller scale than `least` it is zoomed to.
  reveal(location, least = 0) {
    if (this.scale < least) this.zoom(least / this.scale);
    const [x, y] = this.toScreen(location);
    const inside = x > 20 && y > 20 && x < this.width - 20 && y < this.height - 20;
    if (!inside) this.pan(this.width / 2 - x, this.height / 2 - y);
  }

  #listen() {
    const { node } = this;
    node.addEventListener("pointerdown", (event) => this.#down(event));
    node.addEventListener("pointermove", (event) => this.#move(event));
    node.addEventListener("pointerup", (event) => this.#up(event, true));
    node.addEventListener("pointercancel", (event) => this.#up(event, false));
    node.addEventListener("pointerleave", () => this.hovered(null));
    node.addEventListener("wheel", (event) => this.#wheel(event), { passive: false });
  }

  #down(event) {
    this.node.setPointerCapture(event.pointerId);
    this.pointers.set(event.pointerId, [event.offsetX, event.offsetY]);
    if (this.pointers.size === 1) this.moved = 0;
  }

  #move(event) {
    const here = [event.offsetX, event.offsetY];
    const before = this.pointers.get(event.pointerId);
    if (!before) return this.hovered(here);
    const other = [...this.pointers].find(([id]) => id !== event.pointerId)?.[1];
    if (other) this.#pinch(before, here, other);
    else this.#drag(before, here);
    this.pointers.set(event.pointerId, here);
  }

  #drag(before, here) {
    const [dx, dy] = [here[0] - before[0], here[1] - before[1]];
    this.moved += Math.hypot(dx, dy);
    if (this.moved > CLICK) this.pan(dx, dy);
  }

  #pinch(before, here, other) {
    const span = ([x, y]) => Math.max(Math.hypot(x - other[0], y - other[1]), 1);
    this.moved = Infinity;
    this.zoom(span(here) / span(before), (here[0] + other[0]) / 2, (here[1] + other[1]) / 2);
  }

  #up(event, click) {
    this.pointers.delete(event.pointerId);
    if (click && this.moved <= CLICK) this.clicked([event.offsetX, event.offsetY]);
  }

  // On a page that scrolls, the wheel scrolls it; a pinch (with ctrlKey) still zooms.
  #wheel(event) {
    const scrolls = document.documentElement.scrollHeight > innerHeight + 1;
    if (scrolls && !event.ctrlKey) return;
    event.preventDefault();
    this.zoom(Math.exp(-event.deltaY * 0.0015), event.offsetX, event.offsetY);
  }
}
