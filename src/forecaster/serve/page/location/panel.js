// One place: what is expected, what was, what it depends on, and why.

import { ask, lastOnly } from "../data/requests.js";
import { readExplanation, readHistory } from "../data/responses.js";
import { barRow, byId, element, figure } from "../dom.js";
import { clockOf, numberText, offsetOf, percentText, signedText } from "../format.js";
import { changeOf } from "../list.js";
import { drawChart, rangeText, showWeeks, tableOf, WEEKS } from "./charts.js";
import { showWhy } from "./explanation.js";
import { joinSeries } from "./series.js";

const HOURS = 24 * 7 * WEEKS + 24; // of history: one day more, for a clock that changed
const NEIGHBOURS = 8;

export class PlacePanel {
  constructor(chosen) {
    Object.assign(this, { chosen, place: null });
    Object.assign(this, {
      chart: byId("chart"),
      table: byId("table"),
      cells: byId("table").lastElementChild,
      weeks: byId("weeks"),
      why: byId("why"),
    });
    this.#forget();
    this.newest = { history: lastOnly(), why: lastOnly() };
    this.hours = 24;
    byId("range").addEventListener("change", (event) => {
      this.hours = Number(event.target.value);
      this.#draw();
    });
    this.table.addEventListener("toggle", () => this.#tabulate());
    new ResizeObserver(() => this.#draw()).observe(this.chart);
  }

  open(place) {
    this.place = place;
    byId("name").textContent = place.name;
    byId("ident").textContent = place.name === place.id ? "" : place.id;
    this.#forget(); // or one place's numbers would stand under another's name
    this.chart.replaceChildren(element("p", "quiet", "waiting for the history …"));
    for (const node of [this.cells, this.weeks, this.why]) node.replaceChildren();
  }

  #forget() {
    Object.assign(this, { history: null, explanation: null, drawn: null });
  }

  close() {
    this.place = null;
  }

  // shown: { city, forecast, step }
  show(shown) {
    this.shown = shown;
    if (!this.place) return;
    this.row = shown.forecast.rows.get(this.place.id) ?? null;
    this.#figures();
    this.#neighbours();
    this.#draw();
    this.#explain();
  }

  // Ask for what only this place needs. What is still there of another origin is dimmed until then.
  load() {
    const { steps, origin } = this.shown.forecast;
    const id = encodeURIComponent(this.place.id);
    this.#forget();
    this.#ask(
      "history",
      `v1/history?location=${id}&hours=${HOURS}`,
      [this.chart, this.cells, this.weeks],
      (body) => {
        this.history = readHistory(body);
        this.#draw();
      },
    );
    // Of this origin: the service may have a newer one by now.
    const at = encodeURIComponent(origin);
    this.#ask("why", `v1/explanation?location=${id}&at=${at}`, [this.why], (body) => {
      this.explanation = readExplanation(body, steps.length);
      this.#explain();
    });
  }

  // The nodes that show an answer are dimmed until it comes; without one the first says why.
  async #ask(kind, path, nodes, use) {
    for (const node of nodes) node.classList.add("waiting");
    try {
      const answer = await this.newest[kind]((signal) => ask(path, { signal }));
      if (!answer) return; // another place was asked for since
      use(answer.body);
    } catch (error) {
      for (const node of nodes) node.replaceChildren();
      nodes[0].append(element("p", "quiet", `Not known: ${error.message}.`));
    }
    for (const node of nodes) node.classList.remove("waiting");
  }

  #figures() {
    const { forecast, step, city } = this.shown;
    const [row, time] = [this.row, forecast.steps[step].ds_local];
    const likely = rangeText(row?.low?.[step], row?.high?.[step]);
    const from = (basis) => signedText(changeOf(row, step, basis));
    byId("now").replaceChildren(
      figure(numberText(row?.expected[step]), `expected at ${clockOf(time)} ${offsetOf(time)}`, "main"),
      ...(likely ? [figure(likely, `likely range (${percentText(city.share)})`)] : []),
      figure(from("last"), `from now (${numberText(row?.last)})`),
      figure(from("usual"), `from last week (${numberText(row?.usual?.[step])})`),
    );
  }

  #draw() {
    if (!this.place || !this.history) return;
    const { forecast, city, step } = this.shown;
    const steps = Math.round((60 * this.hours) / city.minutes) + forecast.steps.length;
    this.drawn = joinSeries(this.history, forecast.steps, this.row).slice(-steps);
    drawChart(this.chart, this.drawn, step);
    showWeeks(this.weeks, this.history, forecast, this.row, step);
    this.#tabulate();
  }

  #tabulate() {
    if (this.table.open && this.drawn) this.cells.replaceChildren(tableOf(this.drawn));
  }

  #explain() {
    if (this.explanation) showWhy(this.why, this.explanation, this.shown.step);
  }

  #neighbours() {
    const { city, forecast, step } = this.shown;
    const found = (city.neighbours.get(this.place.id) ?? []).slice(0, NEIGHBOURS);
    const most = Math.abs(found[0]?.strength) || 1;
    const rows = found.map(({ place, strength }) => {
      const note = `expects ${numberText(forecast.rows.get(place.id)?.expected[step])}`;
      const share = Math.abs(strength) / most;
      const button = element(
        "button",
        "",
        ...barRow({ name: place.name, note, size: strength.toFixed(2), share }),
      );
      button.type = "button";
      button.addEventListener("click", () => this.chosen(place));
      return element("li", "", button);
    });
    const none = element("li", "quiet", "No other place, given all the rest.");
    byId("near").replaceChildren(...(rows.length ? rows : [none]));
  }
}
