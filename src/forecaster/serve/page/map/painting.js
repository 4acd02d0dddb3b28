// How places and what joins them are painted.

import { SHORE } from "./projection.js";
import { roundUp, shade } from "./scales.js";

const [SMALLEST, LARGEST] = [1.8, 24]; // pixels of a dot's radius
const GLOW = 2.8; // times the radius
const PLAIN = 2.4; // pixels of radius up to which a dot has neither glow nor rim: thousands must be quick
const TURN = 2 * Math.PI;

export function radiusOf(share, view) {
  const room = Math.min(Math.max(0.75 * view.spacing * view.scale, 3.2), LARGEST);
  return Math.max(room * Math.min(share ?? 0, 1.25), SMALLEST);
}

function disc(context, x, y, radius) {
  context.beginPath();
  context.arc(x, y, radius, 0, TURN);
}

// order: indices of places, the largest first, so that small dots lie on top
export function paintDots(context, view, places, order, { sizes, shades, colours, glows, rim }) {
  context.strokeStyle = rim;
  context.lineWidth = 0.7;
  for (const i of order) {
    const [x, y] = view.toScreen(places[i]);
    const radius = radiusOf(sizes[i], view);
    const reach = GLOW * radius;
    if (!view.sees(x, y, reach)) continue;
    const [known, rich] = [shades[i] !== null, radius > PLAIN];
    if (known && rich) context.drawImage(shade(glows, shades[i]), x - reach, y - reach, 2 * reach, 2 * reach);
    disc(context, x, y, radius);
    context.fillStyle = known ? shade(colours, shades[i]) : "transparent"; // no number: an empty ring
    context.fill();
    if (rich || !known) context.stroke();
  }
}

// links: [{ from, to, share }] with shares of the strongest
export function paintLinks(context, view, links, colour) {
  context.strokeStyle = colour;
  context.lineCap = "round";
  for (const { from, to, share } of links) {
    const [x, y] = view.toScreen(from);
    const [ex, ey] = view.toScreen(to);
    context.globalAlpha = 0.35 + 0.6 * share;
    context.lineWidth = 1 + 3 * share;
    context.beginPath();
    context.moveTo(x, y);
    context.quadraticCurveTo((x + ex) / 2 - (ey - y) * 0.12, (y + ey) / 2 + (ex - x) * 0.12, ex, ey);
    context.stroke();
  }
  context.globalAlpha = 1;
}

export function paintRing(context, view, place, share, { width, colour }) {
  const [x, y] = view.toScreen(place);
  disc(context, x, y, radiusOf(share, view) + 2 + width / 2);
  context.lineWidth = width;
  context.strokeStyle = colour;
  context.stroke();
}

// A soft light of a colour, drawn once and stretched under every dot.
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

// What makes dots a map without a map: land where the places are, and a grid in kilometres.

const COAST = 2; // pixels
const GRID = 95; // pixels between lines, at least

export function paintGround(canvas, view, places) {
  const style = getComputedStyle(canvas);
  const context = canvas.getContext("2d");
  context.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
  context.clearRect(0, 0, view.width, view.height);
  const reach = Math.max(SHORE * view.spacing * view.scale, 9);
  paintDiscs(context, view, places, reach + COAST, style.getPropertyValue("--coast"));
  paintDiscs(context, view, places, reach, style.getPropertyValue("--land"));
  if (places.length) paintGrid(context, view, style.getPropertyValue("--grid"));
}

// Discs that run into each other: their union reads as land, its rim as coast.
function paintDiscs(context, view, places, radius, colour) {
  context.fillStyle = colour;
  for (const place of places) {
    const [x, y] = view.toScreen(place);
    if (!view.sees(x, y, radius)) continue;
    context.beginPath();
    context.arc(x, y, radius, 0, TURN);
    context.fill();
  }
}

export function gridKm(view) {
  return roundUp(GRID / view.scale);
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
