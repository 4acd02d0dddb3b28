// Paints the map: dots, clusters, edges and rings on one canvas, the background on another.

import { shortCountText } from "../format.js";
import { LAND_MARGIN } from "./projection.js";
import { roundUp, shade } from "./scales.js";

const [SMALLEST, LARGEST] = [1.8, 24]; // pixels of a dot's radius
const GLOW_REACH = 2.8; // times the radius
const PLAIN_RADIUS = 2.4; // pixels; smaller dots have neither glow nor rim, so that thousands are fast
const MARK_RADIUS = 7; // pixels
const BEND = 0.12; // of an edge, times its length
const ARROW = 4; // pixels from the middle of an arrow to its tip, at least
const FULL_CIRCLE = 2 * Math.PI;
const CLUSTER_RADIUS = [9, 3]; // pixels of the circle of one location, and for every tenfold more

export function radiusOf(share, view) {
  const available = Math.min(Math.max(0.75 * view.spacing * view.scale, 3.2), LARGEST);
  return Math.max(available * Math.min(share ?? 0, 1.25), SMALLEST);
}

function traceCircle(context, x, y, radius) {
  context.beginPath();
  context.arc(x, y, radius, 0, FULL_CIRCLE);
}

// order: indices of locations, the largest first, so that small dots lie on top
export function paintDots(context, view, locations, order, { sizes, shades, colours, glows, rim }) {
  context.strokeStyle = rim;
  context.lineWidth = 0.7;
  for (const i of order) {
    const [x, y] = view.toScreen(locations[i]);
    const radius = radiusOf(sizes[i], view);
    const reach = GLOW_REACH * radius;
    if (!view.isVisible(x, y, reach)) continue;
    const [hasValue, detailed] = [shades[i] !== null, radius > PLAIN_RADIUS];
    if (hasValue && detailed) context.drawImage(shade(glows, shades[i]), x - reach, y - reach, 2 * reach, 2 * reach);
    traceCircle(context, x, y, radius);
    context.fillStyle = hasValue ? shade(colours, shades[i]) : "transparent"; // no data: an empty ring
    context.fill();
    if (detailed || !hasValue) context.stroke();
  }
}

export function clusterRadius({ count, square }, view) {
  const [least, more] = CLUSTER_RADIUS;
  return Math.min(least + more * Math.log10(count), 0.46 * square.size * view.scale);
}

// The mean position of a cluster's locations, so far inside its square that circles do not overlap.
export function clusterCentre(cluster, view) {
  const { square } = cluster;
  const room = square.size / 2 - clusterRadius(cluster, view) / view.scale;
  const within = (value, middle) => Math.min(Math.max(value, middle - room), middle + room);
  return { x: within(cluster.x, square.x), y: within(cluster.y, square.y) };
}

// Circles with the number of their locations, in the colour of their mean; without values: empty rings
export function paintClusters(context, view, clusters, { scale, colours, inks, rim, ink, card }) {
  Object.assign(context, { textAlign: "center", textBaseline: "middle", strokeStyle: rim, lineWidth: 1 });
  for (const cluster of clusters) {
    const radius = clusterRadius(cluster, view);
    const [x, y] = view.toScreen(clusterCentre(cluster, view));
    const share = cluster.mean === null ? null : scale.at(cluster.mean);
    traceCircle(context, x, y, radius);
    context.fillStyle = share === null ? card : shade(colours, share);
    context.fill();
    context.stroke();
    context.fillStyle = share === null ? ink : shade(inks, share);
    context.font = `600 ${Math.min(12, Math.max(0.78 * radius, 8))}px system-ui, sans-serif`;
    context.fillText(shortCountText(cluster.count), x, y + 0.5);
  }
}

// Black or white, whichever contrasts more: at least 4.5 to 1 on any colour.
export function inkOn(colour) {
  const [red, green, blue] = colour.match(/\d+/g).map((part) => {
    const value = part / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.179 ? "#000" : "#fff";
}

// edges: [{ from, to, share, directed }] with the strength relative to the strongest
export function paintEdges(context, view, edges, colour) {
  context.strokeStyle = context.fillStyle = colour;
  context.lineCap = "round";
  for (const { from, to, share, directed } of edges) {
    const [x, y] = view.toScreen(from);
    const [ex, ey] = view.toScreen(to);
    context.globalAlpha = 0.35 + 0.6 * share;
    context.lineWidth = 1 + 3 * share;
    context.beginPath();
    context.moveTo(x, y);
    context.quadraticCurveTo((x + ex) / 2 - (ey - y) * BEND, (y + ey) / 2 + (ex - x) * BEND, ex, ey);
    context.stroke();
    if (directed) paintArrow(context, [x, y], [ex, ey], ARROW + 3 * share);
  }
  context.globalAlpha = 1;
}

// An arrow head in the middle of an edge, where no dot hides it; the curve there is parallel to its chord.
function paintArrow(context, [x, y], [ex, ey], size) {
  const [dx, dy] = [ex - x, ey - y];
  context.save();
  context.translate((x + ex) / 2 - (dy * BEND) / 2, (y + ey) / 2 + (dx * BEND) / 2);
  context.rotate(Math.atan2(dy, dx));
  context.beginPath();
  context.moveTo(size, 0);
  context.lineTo(-size, -size);
  context.lineTo(-size, size);
  context.fill();
  context.restore();
}

export function paintRing(context, view, location, radius, { width, colour }) {
  const [x, y] = view.toScreen(location);
  traceCircle(context, x, y, radius + 2 + width / 2);
  context.lineWidth = width;
  context.strokeStyle = colour;
  context.stroke();
}

// A disc with a sign at the upper right of a dot (side 1), or at the upper left (side −1).
export function paintMark(context, view, location, share, { text, side, colour, ink }) {
  const [x, y] = view.toScreen(location);
  const away = radiusOf(share, view) * Math.SQRT1_2 + MARK_RADIUS / 2;
  const [markX, markY] = [x + side * away, y - away];
  if (!view.isVisible(markX, markY, MARK_RADIUS)) return;
  traceCircle(context, markX, markY, MARK_RADIUS);
  context.fillStyle = colour;
  context.fill();
  context.lineWidth = 1.4;
  context.strokeStyle = ink;
  context.stroke();
  context.fillStyle = ink;
  context.font = "bold 11px system-ui, sans-serif";
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.fillText(text, markX, markY + 0.5);
}

// A glow of one colour, drawn once and scaled for every dot.
export function makeGlow(colour) {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 64;
  const context = canvas.getContext("2d");
  const gradient = context.createRadialGradient(32, 32, 8, 32, 32, 32);
  gradient.addColorStop(0, colour.replace(")", " / 34%)"));
  gradient.addColorStop(1, colour.replace(")", " / 0%)"));
  context.fillStyle = gradient;
  context.fillRect(0, 0, 64, 64);
  return canvas;
}

// The background: tiles of a base map, or land around the locations and a grid in kilometres.

const COAST_WIDTH = 2; // pixels
const LAND_SQUARE = 20; // pixels
const GRID_SPACING = 95; // pixels between lines, at least

// layout: { located, land, world }; land: the index of many locations, whose squares stand for them
export function paintBackground(canvas, view, { located, land, world }, tiles) {
  const style = getComputedStyle(canvas);
  const context = canvas.getContext("2d");
  context.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
  context.clearRect(0, 0, view.width, view.height);
  if (tiles) return tiles.paint(context, view, world, matchMedia("(prefers-color-scheme: dark)").matches);
  const reach = Math.max(LAND_MARGIN * view.spacing * view.scale, land ? 0.75 * LAND_SQUARE : 9);
  const points = land ? landPoints(land, located, view, reach) : located;
  paintDiscs(context, view, points, reach + COAST_WIDTH, style.getPropertyValue("--coast"));
  paintDiscs(context, view, points, reach, style.getPropertyValue("--land"));
  if (located.length) paintGrid(context, view, style.getPropertyValue("--grid"));
}

function landPoints(land, located, view, reach) {
  const { single, clusters } = land.cover(view, LAND_SQUARE, reach + COAST_WIDTH);
  return [...clusters, ...single.map((i) => located[i])];
}

// Overlapping discs: their union is the land, its rim the coast.
function paintDiscs(context, view, locations, radius, colour) {
  context.fillStyle = colour;
  for (const location of locations) {
    const [x, y] = view.toScreen(location);
    if (!view.isVisible(x, y, radius)) continue;
    context.beginPath();
    context.arc(x, y, radius, 0, FULL_CIRCLE);
    context.fill();
  }
}

export function gridKm(view) {
  return roundUp(GRID_SPACING / view.scale);
}

function paintGrid(context, view, colour) {
  const step = gridKm(view);
  context.strokeStyle = colour;
  context.lineWidth = 1;
  context.beginPath();
  for (let x = Math.ceil(view.left / step) * step; x < view.left + view.width / view.scale; x += step) {
    const [at] = view.toScreen({ x, y: 0 });
    context.moveTo(Math.round(at) + 0.5, 0);
    context.lineTo(Math.round(at) + 0.5, view.height);
  }
  for (let y = Math.floor(view.top / step) * step; y > view.top - view.height / view.scale; y -= step) {
    const [, at] = view.toScreen({ x: 0, y });
    context.moveTo(0, Math.round(at) + 0.5);
    context.lineTo(view.width, Math.round(at) + 0.5);
  }
  context.stroke();
}
