// The places as a list: the largest expected changes first, or those that a search finds. It says
// in words all that the map shows, and is the way through it by keyboard.

import { barRow, byId, element, kindOf } from "./dom.js";
import { countText, numberText, signedText } from "./format.js";

const ROWS = 60; // as many as anybody reads; the search finds the others

export function changeOf(row, step, basis) {
  const base = basis === "last" ? row?.last : row?.usual?.[step];
  const expected = row?.expected[step];
  return Number.isFinite(base) && Number.isFinite(expected) ? expected - base : null;
}

export class List {
  constructor({ pointed, chosen }) {
    this.rows = byId("rows");
    this.rows.addEventListener("click", (event) => this.#at(event, chosen));
    this.rows.addEventListener("pointerover", (event) => this.#at(event, pointed));
    this.rows.addEventListener("pointerleave", () => pointed(null));
    this.rows.addEventListener("focusin", (event) => this.#at(event, pointed));
    this.rows.addEventListener("focusout", () => pointed(null));
    this.rows.addEventListener("keydown", (event) => this.#key(event, chosen));
  }

  // shown: { city, forecast, step, basis, wanted, chosen }
  show(shown) {
    const entries = this.#entries(shown);
    const most = Math.max(...entries.map(({ change }) => Math.abs(change ?? 0)), 1e-9);
    const focused = this.rows.contains(document.activeElement) && document.activeElement.dataset.index;
    this.places = shown.city.places;
    this.rows.replaceChildren(...entries.map((entry) => row(entry, most, shown.chosen)));
    this.#keepFocus(focused);
    byId("changes").textContent = shown.wanted ? "Places found" : "Largest expected changes";
    byId("more").textContent = this.#rest(entries.length, shown);
  }

  #entries({ city, forecast, step, basis, wanted }) {
    const text = wanted.toLowerCase();
    const entries = [];
    for (const place of city.places) {
      if (text && !place.sought.includes(text)) continue;
      const found = forecast.rows.get(place.id);
      const change = changeOf(found, step, basis);
      if (text || change !== null) entries.push({ place, change, basis, step, found });
    }
    entries.sort((one, other) => Math.abs(other.change ?? 0) - Math.abs(one.change ?? 0));
    this.count = entries.length;
    return entries.slice(0, ROWS);
  }

  #rest(count, { city, wanted, basis }) {
    if (!this.count && wanted) return `No place is called “${wanted}”.`;
    if (!this.count)
      return basis === "last" ? "Nothing was observed just now." : "Nothing is known of last week.";
    return this.count > count
      ? `${count} of ${countText(city.places.length, "place")}; search for the others.`
      : "";
  }

  // One row is in the tab order; arrows move within.
  #keepFocus(index) {
    const rows = [...this.rows.children];
    const again = index && rows.find((node) => node.dataset.index === index);
    const first = again || rows[0];
    if (first) first.tabIndex = 0;
    if (again) again.focus({ preventScroll: true });
  }

  #at(event, heard) {
    const node = event.target.closest("li");
    if (node) heard(this.places[node.dataset.index]);
  }

  #key(event, chosen) {
    const rows = [...this.rows.children];
    const here = rows.indexOf(event.target);
    const there = { ArrowDown: here + 1, ArrowUp: here - 1, Home: 0, End: rows.length - 1 }[event.key];
    if (here < 0 || (there === undefined && event.key !== "Enter" && event.key !== " ")) return;
    event.preventDefault();
    if (there === undefined) return chosen(this.places[event.target.dataset.index]);
    const next = rows[Math.min(Math.max(there, 0), rows.length - 1)];
    rows[here].tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  }

  // The row of a place, or the first.
  focus(place = null) {
    const rows = [...this.rows.children];
    const row = rows.find((node) => Number(node.dataset.index) === place?.index) ?? rows[0];
    for (const node of rows) node.tabIndex = node === row ? 0 : -1;
    row?.focus();
  }
}

function row({ place, change, basis, step, found }, most, chosen) {
  const base = basis === "last" ? found?.last : found?.usual?.[step];
  const note = `${numberText(base)} → ${numberText(found?.expected[step])}`;
  const share = Math.abs(change ?? 0) / most;
  const parts = barRow({ name: place.name, note, size: signedText(change), share, kind: kindOf(change) });
  const node = element("li", "", ...parts);
  node.setAttribute("role", "option");
  node.setAttribute("aria-selected", String(place === chosen));
  node.tabIndex = -1;
  node.dataset.index = place.index;
  return node;
}
