// Ties the parts together: one state, one place that changes it.

import { accuracyAway, showAccuracy } from "./accuracy.js";
import { listen } from "./controls.js";
import { Poll } from "./data/polling.js";
import { ask, lastOnly } from "./data/requests.js";
import { loadCity, readForecast } from "./data/responses.js";
import { ageSeconds, judge, lastFrom } from "./data/status.js";
import { byId } from "./dom.js";
import { ageOf, momentOf } from "./format.js";
import { List } from "./list.js";
import { PlacePanel } from "./location/panel.js";
import {
  showCity,
  showLegend,
  showLink,
  showRuler,
  showSteps,
  showTip,
  showTotals,
  showWhen,
} from "./map/annotations.js";
import { PlaceMap } from "./map/map.js";
import { encode } from "./map/scales.js";

const state = {
  city: null,
  forecast: null,
  heardAt: 0,
  interval: 15,
  trouble: null,
  step: 0,
  colour: "level",
  basis: "last",
  wanted: "",
  chosen: null,
};
const dark = matchMedia("(prefers-color-scheme: dark)");

const map = new PlaceMap({
  ground: byId("ground"),
  dots: byId("dots"),
  chosen: choose,
  pointed: (place, at) => showTip(place, at, state, map.view),
  moved: (view) => state.city && showRuler(view, state.city.layout.placed),
});
const list = new List({ pointed: (place) => map.point(place), chosen: choose });
const panel = new PlacePanel(choose);
const newestAccuracy = lastOnly();
const poll = new Poll(question, heard, failed);

// The places belong to the run: another run is another city.
async function question(etag) {
  const answer = await ask("v1/forecast", { etag });
  const known = answer.same || (state.city && answer.body?.model === state.forecast?.model);
  return { ...answer, city: known ? state.city : await loadCity() };
}

function heard({ same, body, city }) {
  const now = Date.now();
  const forecast = same
    ? { ...state.forecast, data_age_seconds: ageSeconds(state.forecast, state.heardAt, now) }
    : readForecast(body, city);
  const news = identity(forecast) !== identity(state.forecast);
  if (city !== state.city) map.show(city);
  Object.assign(state, { city, forecast, heardAt: now, interval: poll.interval, trouble: null });
  tick();
  if (news) showNews();
}

// Model, data and origin make a forecast, and what it lacks: a provisional one is replaced. The
// service may send it again to tell its age.
function identity(forecast) {
  return forecast && [forecast.model, forecast.data_version, forecast.origin, forecast.degraded].join();
}

function failed(error) {
  state.trouble = error.message;
  tick();
}

function showNews() {
  state.step = Math.min(state.step, state.forecast.steps.length - 1);
  showCity(state.city);
  showSteps(state.forecast, state.city);
  showLink(state.forecast);
  showAll();
  keepChosen();
  loadAccuracy();
}

// The place on show stays on show, unless another run does not know it.
function keepChosen() {
  const place = state.city.byId.get(state.chosen?.id ?? hashId());
  if (place) open(place);
  else if (state.chosen) close();
}

function hashId() {
  try {
    return decodeURIComponent(location.hash.slice(1));
  } catch {
    return ""; // not an address that this page has written
  }
}

async function loadAccuracy() {
  try {
    const answer = await newestAccuracy((signal) => ask("v1/accuracy", { signal }));
    if (answer) showAccuracy(answer.body);
  } catch (error) {
    accuracyAway(error);
  }
}

function choose(place) {
  open(place);
  byId("name").focus();
}

function open(place) {
  const other = place !== state.chosen; // another run makes other places of the same names
  state.chosen = place;
  history.replaceState(null, "", `#${encodeURIComponent(place.id)}`);
  byId("list").hidden = true;
  byId("place").hidden = false;
  map.mark(place, other);
  if (other) panel.open(place);
  showPanel();
  panel.load();
}

function close() {
  state.chosen = null;
  panel.close();
  history.replaceState(null, "", location.pathname);
  byId("place").hidden = true;
  byId("list").hidden = false;
  map.mark(null);
  showList();
}

function showAll() {
  if (!state.forecast) return;
  showWhen(state.forecast, state.city, state.step);
  showTotals(state.forecast, state.city, state.step);
  showMap();
  showList();
  showPanel();
}

function showPanel() {
  if (state.forecast) panel.show(state);
}

function showList() {
  if (state.forecast) list.show(state);
}

function showMap() {
  const encoded = encode(state, dark.matches);
  map.update(encoded);
  showLegend(encoded, state);
}

// Once a second: how old is it, and may it be called current?
function tick() {
  const { forecast, heardAt, city } = state;
  const now = Date.now();
  const { kind, text } = judge(state, now);
  document.body.dataset.state = kind;
  byId("banner").hidden = !text;
  setText("trouble", text);
  byId("age").hidden = kind !== "old";
  if (!forecast) return;
  const age = ageOf(ageSeconds(forecast, heardAt, now));
  setText("age", `old: from ${lastFrom(forecast, heardAt, now)}`);
  setText("origin", `observed up to ${momentOf(forecast.origin_local)} · ${age} old · ${city.zone}`);
  setText("model", `model ${forecast.model}, data version ${forecast.data_version}`);
}

function setText(id, text) {
  if (byId(id).textContent !== text) byId(id).textContent = text; // or it is read aloud again
}

listen({
  state,
  map,
  list,
  retry: () => poll.now(),
  shown: showAll,
  closed: () => {
    const place = state.chosen;
    close();
    list.focus(place);
  },
  sought: () => {
    if (state.chosen) close();
    showList();
  },
});
dark.addEventListener("change", () => {
  showAll();
  map.repaint(true);
});
setInterval(tick, 1000);
poll.now();
