// The panel of the selected location: its forecast, history, neighbours and explanation.

import { latestOnly, requestJson } from "../data/requests.js";
import { readExplanation, readHistory } from "../data/responses.js";
import { barRow, byId, element, figure } from "../dom.js";
import {
  clockText, delaysText, intervalName, intervalText, numberText, offsetText, signedText, stepName,
} from "../format.js";
import { changeOf, newText } from "../list.js";
import { drawChart, drawDays, drawWeeks, seriesTable, WEEKS } from "./charts.js";
import { showExplanation } from "./explanation.js";
import { joinSeries } from "./series.js";

const HISTORY_HOURS = 24 * 7 * WEEKS + 24; // one day more, for a change of the clock
const NEIGHBOURS = 8; // shown at most

export class LocationPanel {
  constructor(onSelect) {
    Object.assign(this, { onSelect, location: null });
    Object.assign(this, {
      chart: byId("chart"),
      details: byId("table"),
      table: byId("table").lastElementChild,
      weeks: byId("weeks"),
      reasons: byId("explanation"),
    });
    this.#clear();
    this.latest = { history: latestOnly(), explanation: latestOnly() };
    this.hours = 24;
    byId("range").addEventListener("change", (event) => {
      this.hours = Number(event.target.value);
      this.#drawSeries();
    });
    this.details.addEventListener("toggle", () => this.#fillTable());
    new ResizeObserver(() => this.#drawSeries()).observe(this.chart);
  }

  open(location) {
    this.location = location;
    byId("name").textContent = location.name;
    const id = location.name === location.id ? "" : location.id;
    const served = location.fallback ? `forecast by ${location.fallback}, which was better here on validation` : "";
    byId("location-id").textContent = [id, served].filter(Boolean).join(" · ");
    this.#clear(); // the numbers of one location must not stand under the name of another
    this.chart.replaceChildren(element("p", "quiet", "loading the history …"));
    for (const node of [this.table, this.weeks, this.reasons]) node.replaceChildren();
  }

  #clear() {
    Object.assign(this, { history: null, explanation: null, points: null });
  }

  close() {
    this.location = null;
  }

  // state: { dataset, forecast, step }
  show(state) {
    this.state = state;
    if (!this.location) return;
    this.row = state.forecast.rows.get(this.location.id) ?? null;
    this.#showFigures();
    this.#showDays();
    this.#showNeighbours();
    this.#drawSeries();
    this.#showExplanation();
  }

  // Requests the history and the explanation; what is shown of an earlier origin is dimmed meanwhile.
  load() {
    const { steps, origin } = this.state.forecast;
    const id = encodeURIComponent(this.location.id);
    this.#clear();
    // Without recent data the history ends where the forecast begins.
    const until = this.state.isOld ? `&until=${encodeURIComponent(origin)}` : "";
    const historyPath = `v1/history?location=${id}&hours=${HISTORY_HOURS}${until}`;
    this.#request("history", historyPath, [this.chart, this.table, this.weeks], (body) => {
      this.history = readHistory(body);
      this.#drawSeries();
    });
    // With the origin: the service may have a newer forecast by now.
    const explanationPath = `v1/explanation?location=${id}&at=${encodeURIComponent(origin)}`;
    this.#request("explanation", explanationPath, [this.reasons], (body) => {
      this.explanation = readExplanation(body, steps.length);
      this.#showExplanation();
    });
  }

  // Dims the nodes until the response arrives; after an error the first node says what happened.
  async #request(kind, path, nodes, onBody) {
    for (const node of nodes) node.classList.add("waiting");
    try {
      const response = await this.latest[kind]((signal) => requestJson(path, { signal }));
      if (!response) return; // replaced by the request of another location
      onBody(response.body);
    } catch (error) {
      for (const node of nodes) node.replaceChildren();
      nodes[0].append(element("p", "quiet", `Not available: ${error.message}.`));
    }
    for (const node of nodes) node.classList.remove("waiting");
  }

  #showFigures() {
    const { forecast, step, dataset } = this.state;
    const [row, time] = [this.row, forecast.steps[step].ds_local];
    const isNew = this.location.isNew;
    byId("newness").hidden = !isNew;
    byId("newness").textContent = isNew ? `This is a ${newText(row)}.` : "";
    byId("doubt").hidden = !row?.degraded;
    byId("doubt").textContent = row?.degraded ? `This forecast is degraded: ${row.degraded}.` : "";
    const interval = intervalText(row?.low?.[step], row?.high?.[step]);
    const change = (basis) => signedText(changeOf(row, step, basis));
    byId("figures").replaceChildren(
      figure(numberText(row?.forecast[step]), `forecast for ${clockText(time)} ${offsetText(time)}`, "main"),
      ...(interval ? [figure(interval, intervalName(dataset.coverage))] : []),
      figure(change("last"), `from now (${numberText(row?.last)})`),
      figure(change("week"), `from last week (${numberText(row?.weekBefore?.[step])})`),
    );
  }

  #showDays() {
    const days = this.row?.days ?? [];
    byId("days").hidden = days.length === 0;
    drawDays(byId("day-rows"), days);
  }

  #drawSeries() {
    if (!this.location || !this.history) return;
    const { forecast, dataset, step } = this.state;
    const length = Math.round((60 * this.hours) / dataset.minutes) + forecast.steps.length;
    this.points = joinSeries(this.history, forecast.steps, this.row).slice(-length);
    drawChart(this.chart, this.points, step);
    drawWeeks(this.weeks, this.history, forecast, this.row, step);
    this.#fillTable();
  }

  #fillTable() {
    if (this.details.open && this.points) this.table.replaceChildren(seriesTable(this.points));
  }

  #showExplanation() {
    if (this.explanation) showExplanation(this.reasons, this.explanation, this.state.step);
  }

  #showNeighbours() {
    const { dataset, forecast, step } = this.state;
    const neighbours = (dataset.neighbours.get(this.location.id) ?? []).slice(0, NEIGHBOURS);
    const strongest = Math.abs(neighbours[0]?.strength) || 1;
    const rows = neighbours.map((neighbour) => {
      const { location, strength } = neighbour;
      const note = `forecast ${numberText(forecast.rows.get(location.id)?.forecast[step])}`;
      const share = Math.abs(strength) / strongest;
      const name = neighbourText(neighbour, dataset.minutes);
      const bar = barRow({ name, note, size: strength.toFixed(2), share });
      const button = element("button", "", ...bar);
      button.type = "button";
      button.addEventListener("click", () => this.onSelect(location));
      return element("li", "", button);
    });
    const isLoaded = dataset.isWhole || dataset.neighbours.has(this.location.id);
    const none = element("li", "quiet", isLoaded ? "No edges to other locations." : "Not loaded yet.");
    byId("neighbours").replaceChildren(...(rows.length ? rows : [none]));
  }
}

// Of a directed graph: a source comes earlier than this location, a target later.
function neighbourText({ location, role, delays }, minutes) {
  if (!role) return location.name;
  return `${location.name}, ${delaysText(delays, stepName(minutes))} ${role === "source" ? "earlier" : "later"}`;
}
