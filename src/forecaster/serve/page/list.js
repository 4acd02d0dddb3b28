// The list of locations: the largest forecast changes first, or the matches of a search. It holds
// what the map shows as text and is the way to reach every location by keyboard.

import { barRow, byId, changeKind, element } from "./dom.js";
import { countText, numberText, signedText } from "./format.js";

const ROWS = 60; // at most; the search finds the others
const WAITING_ROWS = 10; // of them, at most, for new locations that are not forecast yet
export const WAITING = "waiting for a day of data";

// What is said of a new location; `row` is its forecast, if there is one.
export function newText(row) {
  return row ? "new location: the model was not trained on it" : `new location: ${WAITING}`;
}

// The forecast minus its base: the last observed value ("last") or the value a week before ("week").
export function changeOf(row, step, basis) {
  const base = basis === "last" ? row?.last : row?.weekBefore?.[step];
  const value = row?.forecast[step];
  return Number.isFinite(base) && Number.isFinite(value) ? value - base : null;
}

export class LocationList {
  constructor({ hovered, selected }) {
    this.rows = byId("rows");
    this.rows.addEventListener("click", (event) => this.#at(event, selected));
    this.rows.addEventListener("pointerover", (event) => this.#at(event, hovered));
    this.rows.addEventListener("pointerleave", () => hovered(null));
    this.rows.addEventListener("focusin", (event) => this.#at(event, hovered));
    this.rows.addEventListener("focusout", () => hovered(null));
    this.rows.addEventListener("keydown", (event) => this.#key(event, selected));
  }

  // state: { dataset, forecast, step, basis, query, selected }
  show(state) {
    const entries = this.#entries(state);
    const trusted = entries.filter(({ row }) => !row?.degraded); // an implausible value is no base of a change
    const largest = Math.max(...trusted.map(({ change }) => Math.abs(change ?? 0)), 1e-9);
    const focused = this.rows.contains(document.activeElement) && document.activeElement.dataset.index;
    this.locations = state.dataset.locations;
    this.rows.replaceChildren(...entries.map((entry) => listItem(entry, largest, state.selected)));
    this.#restoreFocus(focused);
    byId("list-title").textContent = state.query ? "Search results" : "Largest forecast changes";
    byId("more").textContent = this.#footnote(entries.length, state);
  }

  #entries({ dataset, forecast, step, basis, query }) {
    const text = query.toLowerCase();
    const [changes, waiting] = [new Largest(ROWS), []];
    this.count = 0;
    for (const location of dataset.locations) {
      if (text && !location.searchText.includes(text)) continue;
      const row = forecast.rows.get(location.id);
      const change = changeOf(row, step, basis);
      const isWaiting = location.isNew && !row;
      if (!text && !isWaiting && change === null) continue;
      this.count += 1;
      if (!isWaiting) changes.add(Math.abs(change ?? 0), { location, change, basis, step, row });
      else if (waiting.length < WAITING_ROWS) waiting.push({ location, change, basis, step, row, waiting: true });
    }
    return [...changes.entries().slice(0, ROWS - waiting.length), ...waiting];
  }

  #footnote(count, { dataset, query, basis }) {
    if (!this.count && query) return `No location matches “${query}”.`;
    if (!this.count)
      return basis === "last" ? "No data for the last step." : "No data for the week before.";
    return this.count > count
      ? `${count} of ${countText(dataset.locations.length, "location")} shown; use the search to find others.`
      : "";
  }

  // Only one row is in the tab order; the arrow keys move between rows.
  #restoreFocus(index) {
    const rows = [...this.rows.children];
    const focused = index && rows.find((node) => node.dataset.index === index);
    const tabStop = focused || rows[0];
    if (tabStop) tabStop.tabIndex = 0;
    if (focused) focused.focus({ preventScroll: true });
  }

  #at(event, callback) {
    const node = event.target.closest("li");
    if (node) callback(this.locations[node.dataset.index]);
  }

  #key(event, selected) {
    const rows = [...this.rows.children];
    const here = rows.indexOf(event.target);
    const there = { ArrowDown: here + 1, ArrowUp: here - 1, Home: 0, End: rows.length - 1 }[event.key];
    if (here < 0 || (there === undefined && event.key !== "Enter" && event.key !== " ")) return;
    event.preventDefault();
    if (there === undefined) return selected(this.locations[event.target.dataset.index]);
    const next = rows[Math.min(Math.max(there, 0), rows.length - 1)];
    rows[here].tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  }

  // Focuses the row of a location, or the first row.
  focus(location = null) {
    const rows = [...this.rows.children];
    const row = rows.find((node) => Number(node.dataset.index) === location?.index) ?? rows[0];
    for (const node of rows) node.tabIndex = node === row ? 0 : -1;
    row?.focus();
  }
}

// The entries of the largest sizes, the first of equal ones; only those that may be among them are sorted.
class Largest {
  constructor(count) {
    Object.assign(this, { count, candidates: [], least: -1 });
  }

  add(size, entry) {
    if (size <= this.least) return;
    this.candidates.push({ size, entry });
    if (this.candidates.length >= 20 * this.count) this.#cut();
  }

  entries() {
    this.#cut();
    return this.candidates.map(({ entry }) => entry);
  }

  #cut() {
    this.candidates.sort((a, b) => b.size - a.size);
    this.candidates.length = Math.min(this.candidates.length, this.count);
    if (this.candidates.length === this.count) this.least = this.candidates.at(-1).size;
  }
}

function listItem({ location, change, basis, step, row, waiting }, largest, selected) {
  const base = basis === "last" ? row?.last : row?.weekBefore?.[step];
  const note = waiting ? WAITING : `${numberText(base)} → ${numberText(row?.forecast[step])}`;
  const share = Math.min(Math.abs(change ?? 0) / largest, 1);
  const parts = barRow({ name: location.name, note, size: signedText(change), share, kind: changeKind(change) });
  if (location.isNew) parts[0].prepend(element("b", "new", "new "));
  if (row?.degraded) parts[0].prepend(element("b", "doubt", "! "));
  const node = element("li", "", ...parts);
  node.setAttribute("role", "option");
  node.setAttribute("aria-selected", String(location === selected));
  node.tabIndex = -1;
  node.dataset.index = location.index;
  return node;
}
