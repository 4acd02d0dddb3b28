// Names of locations beside their dots: the largest first, as many as have room. Zooming in brings more.

import { radiusOf } from "./painting.js";

const AT_FIRST = 14; // names while all locations are shown
const MOST = 150;
const TRIED = 900; // locations, so that thousands are fast
const LONGEST = 24; // letters
const [FONT, HEIGHT, GAP] = ["12px system-ui, sans-serif", 15, 4];
const CELL = 48; // pixels of the grid in which boxes are looked up

// order: indices of locations, the most important first
export function paintNames(context, view, locations, order, { sizes, ink, halo, occupied }) {
  const visible = order.filter((i) => view.isVisible(...view.toScreen(locations[i]), 0));
  const taken = new Boxes(occupied);
  for (const i of visible) {
    const [x, y] = view.toScreen(locations[i]);
    const radius = radiusOf(sizes[i], view);
    taken.add({ left: x - radius, right: x + radius, top: y - radius, bottom: y + radius });
  }
  context.font = FONT;
  context.textBaseline = "middle";
  context.lineJoin = "round";
  Object.assign(context, { lineWidth: 3, strokeStyle: halo, fillStyle: ink });
  let room = Math.min(AT_FIRST * (view.scale / view.fit) ** 1.5, MOST);
  for (const i of visible.slice(0, TRIED)) {
    if (room < 1) break;
    const place = findPlace(context, view, locations[i], radiusOf(sizes[i], view), taken);
    if (!place) continue;
    taken.add(place);
    context.textAlign = "left";
    context.strokeText(place.text, place.left, (place.top + place.bottom) / 2);
    context.fillText(place.text, place.left, (place.top + place.bottom) / 2);
    room -= 1;
  }
}

// The free box right of a dot, left of it, below or above it; null if there is none.
function findPlace(context, view, location, radius, taken) {
  const { name } = location;
  const text = name.length > LONGEST ? `${name.slice(0, LONGEST - 1)}…` : name;
  const width = context.measureText(text).width;
  const [x, y] = view.toScreen(location);
  const away = radius + GAP;
  for (const [left, top] of [
    [x + away, y - HEIGHT / 2],
    [x - away - width, y - HEIGHT / 2],
    [x - width / 2, y + away],
    [x - width / 2, y - away - HEIGHT],
  ]) {
    const box = { left, right: left + width, top, bottom: top + HEIGHT, text };
    const inside = left > 2 && box.right < view.width - 2 && top > 2 && box.bottom < view.height - 2;
    if (inside && !taken.overlaps(box)) return box;
  }
  return null;
}

// Boxes on the screen, found by the cells of a grid.
class Boxes {
  constructor(boxes) {
    this.cells = new Map();
    for (const box of boxes) this.add(box);
  }

  add(box) {
    for (const cell of cellsOf(box)) {
      if (!this.cells.has(cell)) this.cells.set(cell, []);
      this.cells.get(cell).push(box);
    }
  }

  overlaps(box) {
    return cellsOf(box).some((cell) =>
      this.cells.get(cell)?.some(
        (other) =>
          box.left < other.right && other.left < box.right && box.top < other.bottom && other.top < box.bottom,
      ),
    );
  }
}

function cellsOf({ left, right, top, bottom }) {
  const cells = [];
  for (let column = Math.floor(left / CELL); column <= Math.floor(right / CELL); column++) {
    for (let row = Math.floor(top / CELL); row <= Math.floor(bottom / CELL); row++) cells.push(`${column} ${row}`);
  }
  return cells;
}
