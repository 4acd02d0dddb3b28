// What makes dots a map without a map: land where the places are, and a grid in kilometres.

import { SHORE } from "./layout.js";
import { roundUp } from "./scale.js";

const COAST = 2; // pixels
const TURN = 2 * Math.PI;
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
