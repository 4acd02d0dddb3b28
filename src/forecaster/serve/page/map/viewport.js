// Which part of the ground is on the screen: pan, zoom, pinch.

import { range, SHORE } from "./projection.js";

const CLOSEST = 60; // times the view that shows all
const MARGIN = 0.96; // of the screen for all places and their shore
const CLICK = 5; // pixels that a pointer may move and still click

export class View {
  // `changed` is called when the ground has moved; `pointed` and `clicked` with a point in pixels.
  constructor(node, { changed, pointed, clicked }) {
    Object.assign(this, { node, changed, pointed, clicked });
    Object.assign(this, { scale: 1, fit: 1, spacing: 1, left: 0, top: 0, width: 1, height: 1 });
    this.pointers = new Map();
    this.moved = 0;
    this.#listen();
  }

  toScreen({ x, y }) {
    return [(x - this.left) * this.scale, (this.top - y) * this.scale];
  }

  sees(x, y, around) {
    return x > -around && y > -around && x < this.width + around && y < this.height + around;
  }

  // All stays all; a part that somebody chose stays in the middle.
  resize(width, height, places) {
    const whole = this.scale === this.fit;
    this.left += (this.width - width) / 2 / this.scale;
    this.top -= (this.height - height) / 2 / this.scale;
    Object.assign(this, { width, height });
    if (whole) this.showAll(places);
    else this.changed();
  }

  showAll(places) {
    if (!places.length) return;
    const [west, east] = range(places.map(({ x }) => x));
    const [south, north] = range(places.map(({ y }) => y));
    const shore = 2 * SHORE * this.spacing;
    const across = this.width / (east - west + shore);
    const along = this.height / (north - south + shore);
    this.fit = this.scale = MARGIN * Math.min(across, along);
    this.left = (west + east) / 2 - this.width / 2 / this.scale;
    this.top = (south + north) / 2 + this.height / 2 / this.scale;
    this.changed();
  }

  zoom(factor, x = this.width / 2, y = this.height / 2) {
    const scale = Math.min(Math.max(this.scale * factor, this.fit * 0.7), this.fit * CLOSEST);
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

  // Bring a place into sight without a jump when it already is.
  reveal(place) {
    const [x, y] = this.toScreen(place);
    const inside = x > 20 && y > 20 && x < this.width - 20 && y < this.height - 20;
    if (!inside) this.pan(this.width / 2 - x, this.height / 2 - y);
  }

  #listen() {
    const { node } = this;
    node.addEventListener("pointerdown", (event) => this.#down(event));
    node.addEventListener("pointermove", (event) => this.#move(event));
    node.addEventListener("pointerup", (event) => this.#up(event, true));
    node.addEventListener("pointercancel", (event) => this.#up(event, false));
    node.addEventListener("pointerleave", () => this.pointed(null));
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
    if (!before) return this.pointed(here);
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

  // Where the page itself scrolls, the wheel is the page's, unless a pinch says otherwise.
  #wheel(event) {
    const scrolls = document.documentElement.scrollHeight > innerHeight + 1;
    if (scrolls && !event.ctrlKey) return;
    event.preventDefault();
    this.zoom(Math.exp(-event.deltaY * 0.0015), event.offsetX, event.offsetY);
  }
}
