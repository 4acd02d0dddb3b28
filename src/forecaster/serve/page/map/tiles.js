// A base map of tiles, from a server that whoever started the service has named; without one there is none.

import { requestJson } from "../data/requests.js";

const TILE = 256; // pixels
const DEEPEST = 19; // zoom level
const MOST_TILES = 64; // in one picture
const KEPT = 400; // tiles in memory

// Returns the tiles, or null; `onLoad` is called after each tile has arrived.
export async function loadTiles(onLoad) {
  const settings = await requestJson("page/settings.json").catch(() => null);
  const tiles = settings?.body?.tiles;
  if (typeof tiles?.url !== "string") return null;
  return new Tiles(tiles.url, tiles.credit || `Map: ${new URL(tiles.url).host}`, onLoad);
}

class Tiles {
  constructor(url, credit, onLoad) {
    Object.assign(this, { url, credit, onLoad, images: new Map() });
  }

  // Paints the tiles of a view; `world` is its width around the equator in kilometres.
  paint(context, view, world, dark) {
    const size = world * view.scale; // pixels around the world
    const level = Math.min(Math.max(Math.round(Math.log2(size / TILE)), 0), DEEPEST);
    const count = 2 ** level;
    const edge = size / count; // pixels of a tile on the screen
    const [west, north] = view.toScreen({ x: -world / 2, y: world / 2 });
    const columns = range(-west / edge, (view.width - west) / edge);
    const rows = range(Math.max(-north / edge, 0), Math.min((view.height - north) / edge, count));
    if (columns.length * rows.length > MOST_TILES) return;
    context.save();
    context.filter = dark ? "invert(1) hue-rotate(180deg) brightness(.75)" : "none";
    context.globalAlpha = 0.75;
    for (const row of rows) {
      for (const column of columns) {
        const image = this.#image(level, ((column % count) + count) % count, row);
        if (!image.complete || !image.naturalWidth) continue; // on its way, or not there
        context.drawImage(image, west + column * edge, north + row * edge, edge + 0.5, edge + 0.5);
      }
    }
    context.restore();
  }

  #image(level, column, row) {
    const address = this.url.replace("{z}", level).replace("{x}", column).replace("{y}", row);
    let image = this.images.get(address);
    if (!image) {
      image = new Image();
      image.onload = this.onLoad;
      image.src = address;
    }
    this.images.delete(address); // the last used one comes last
    this.images.set(address, image);
    if (this.images.size > KEPT) this.images.delete(this.images.keys().next().value);
    return image;
  }
}

function range(from, to) {
  const [first, end] = [Math.floor(from), Math.ceil(to)];
  return Array.from({ length: Math.max(end - first, 0) }, (_, i) => first + i);
}
