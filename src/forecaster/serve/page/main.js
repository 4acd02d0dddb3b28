// The page: holds the state, asks for forecasts and redraws what depends on them.

import { showAccuracy, showAccuracyError, showNoAccuracy } from "./accuracy.js";
import { connectControls } from "./controls.js";
import { Poller } from "./data/polling.js";
import { latestOnly, pause, requestJson } from "./data/requests.js";
import { loadDataset, loadForecast, loadNeighbours } from "./data/responses.js";
import { ageSeconds, originText, statusOf } from "./data/status.js";
import { byId } from "./dom.js";
import { loadTiles } from "./map/tiles.js";
import { ageText, dateTimeText } from "./format.js";
import { LocationList } from "./list.js";
import { LocationPanel } from "./location/panel.js";
import {
  showAdded,
  showClusters,
  showDoubtful,
  showDownloadLink,
  showLegend,
  showScaleBar,
  showSteps,
  showTime,
  showTitle,
  showTooltip,
  showTotals,
} from "./map/annotations.js";
import { LocationMap } from "./map/map.js";
import { encode, marksOf } from "./map/scales.js";
import { showRun } from "./run.js";

const state = {
  dataset: null,
  forecast: null,
  isOld: false, // data for a forecast of now is missing: the last possible one is shown
  receivedAt: 0,
  interval: 15,
  problem: null,
  step: 0,
  colour: "value",
  basis: "last",
  query: "",
  selected: null,
};
const dark = matchMedia("(prefers-color-scheme: dark)");

const map = new LocationMap({
  ground: byId("ground"),
  dots: byId("dots"),
  selected: select,
  hovered: (location, at) => showTooltip(location, at, state, map.view),
  moved: showMoved,
});
const list = new LocationList({ hovered: (location) => map.hover(location), selected: select });
const panel = new LocationPanel(select);
const latestAccuracy = latestOnly();
const latestRun = latestOnly();
let ledger = null; // of the challenger, as of the last accuracy
const poller = new Poller(fetchForecast, onResponse, onFailure);

function fetchForecast(etag) {
  return loadForecast("v1/forecast", { etag, datasetOf }).catch((error) => fetchLastPossible(error, etag));
}

// Without recent data there is no forecast of now. The service names the last time that it can forecast from.
async function fetchLastPossible(error, etag) {
  if (!error.lastOrigin) throw error;
  const path = `v1/forecast?at=${encodeURIComponent(error.lastOrigin)}`;
  const response = await loadForecast(path, { etag, datasetOf }).catch(() => {
    throw error;
  });
  return { ...response, isOld: true };
}

// Locations belong to the run: another run has its own. With newer data there may be new ones.
async function datasetOf(body) {
  const { dataset, forecast } = state;
  if (!dataset || body?.model !== forecast?.model) return loadDataset();
  return body.data_version === forecast.data_version ? dataset : loadDataset(dataset);
}

function onResponse(response) {
  const { same, isOld = false, dataset = state.dataset } = response;
  const now = Date.now();
  const forecast = same
    ? Object.assign(state.forecast, { data_age_seconds: ageSeconds(state.forecast, state.receivedAt, now) })
    : response.forecast;
  const changed = identity(forecast) !== identity(state.forecast);
  if (dataset !== state.dataset) map.show(dataset);
  Object.assign(state, { dataset, forecast, isOld, receivedAt: now, interval: poller.interval, problem: null });
  tick();
  if (changed) showForecast();
  loadRun();
}

// Two responses with the same model, data, origin and degradation hold the same forecast: the service
// also sends it again to update its age.
function identity(forecast) {
  return forecast && [forecast.model, forecast.data_version, forecast.origin, forecast.degraded].join();
}

function onFailure(error) {
  state.problem = error.message;
  tick();
}

function showForecast() {
  state.step = Math.min(state.step, state.forecast.steps.length - 1);
  showTitle(state.dataset);
  showSteps(state.forecast, state.dataset);
  showDownloadLink(state.forecast);
  showAll();
  restoreSelection();
  loadAccuracy();
}

// The selected location stays selected, unless a new run does not have it.
function restoreSelection() {
  const location = state.dataset.byId.get(state.selected?.id ?? hashId());
  if (location) open(location);
  else if (state.selected) close();
}

function hashId() {
  try {
    return decodeURIComponent(window.location.hash.slice(1));
  } catch {
    return ""; // not a fragment written by this page
  }
}

async function loadAccuracy() {
  if (state.isOld) return showNoAccuracy();
  try {
    const response = await latestAccuracy((signal) => requestJson("v1/accuracy", { signal }));
    if (!response) return;
    showAccuracy(response.body);
    ledger = response.body.shadow ?? null;
    loadRun();
  } catch (error) {
    showAccuracyError(error);
  }
}

// Asked for with every poll: a version may be refused, or drift be noticed, without a new forecast.
async function loadRun() {
  if (document.hidden) return; // the tab was left meanwhile
  try {
    const response = await latestRun((signal) => requestJson("v1/run", { signal }));
    if (response) showRun(response.body, ledger);
  } catch {
    showRun(null, null); // the banner says what is wrong with the service
  }
}

function select(location) {
  open(location);
  byId("name").focus();
}

function open(location) {
  const changed = location !== state.selected; // a new run has new objects for the same ids
  state.selected = location;
  history.replaceState(null, "", `#${encodeURIComponent(location.id)}`);
  byId("list").hidden = true;
  byId("location").hidden = false;
  map.select(location, changed);
  if (changed) panel.open(location);
  showPanel();
  panel.load();
  if (!state.dataset.isWhole) showNeighbours(location);
}

// Of many locations, the neighbours of each are asked for when it is opened; without them the rest is shown.
async function showNeighbours(location) {
  const { dataset } = state;
  await loadNeighbours(dataset, location).catch(() => {});
  if (state.selected !== location || state.dataset !== dataset) return;
  map.repaint(false);
  showPanel();
}

function showMoved(view, areClustersDrawn) {
  if (!state.dataset) return;
  showScaleBar(view, state.dataset.layout.located);
  showClusters(areClustersDrawn);
}

function close() {
  state.selected = null;
  panel.close();
  history.replaceState(null, "", window.location.pathname);
  byId("location").hidden = true;
  byId("list").hidden = false;
  map.select(null);
  showList();
}

// Of many locations, each part is drawn in a task of its own, so that the page answers in between.
function showAll() {
  if (!state.forecast) return;
  showTime(state.forecast, state.dataset, state.step);
  const parts = [showMap, () => showTotals(state.forecast, state.dataset, state.step), showList, showPanel];
  if (state.dataset.isWhole) for (const show of parts) show();
  else showInTurn(parts);
}

let turns = 0;
async function showInTurn(parts) {
  const turn = ++turns; // a later call replaces what this one has not drawn yet
  for (const show of parts) {
    await pause();
    if (turn !== turns) return;
    show();
  }
}

function showPanel() {
  if (state.forecast) panel.show(state);
}

function showList() {
  if (state.forecast) list.show(state);
}

function showMap() {
  const encoded = encode(state, dark.matches);
  const { doubtful, added } = marksOf(state);
  map.update({ ...encoded, doubtful, added });
  showLegend(encoded, state);
  showDoubtful(doubtful);
  showAdded(added, state.forecast);
}

// Once a second: the age of the forecast, and whether it is current.
function tick() {
  const { forecast, receivedAt, dataset } = state;
  const now = Date.now();
  const { kind, text } = statusOf(state, now);
  document.body.dataset.state = kind;
  byId("banner").hidden = !text;
  setText("problem", text);
  byId("age").hidden = kind !== "outdated";
  if (!forecast) return;
  const age = ageText(ageSeconds(forecast, receivedAt, now));
  setText("age", `outdated: from ${originText(forecast, receivedAt, now)}`);
  setText("origin", `observed until ${dateTimeText(forecast.origin_local)} · ${age} old · ${dataset.zone}`);
  setText("model", `model ${forecast.model}, data version ${forecast.data_version}`);
}

function setText(id, text) {
  if (byId(id).textContent !== text) byId(id).textContent = text; // unchanged text must not be read aloud again
}

connectControls({
  state,
  map,
  list,
  retry: () => poller.poll(),
  onChange: showAll,
  onClose: () => {
    const location = state.selected;
    close();
    list.focus(location);
  },
  onSearch: () => {
    if (state.selected) close();
    showList();
  },
});
dark.addEventListener("change", () => {
  showAll();
  map.repaint(true);
});
setInterval(tick, 1000);
poller.poll();
loadTiles(() => map.repaint(true)).then((tiles) => {
  map.tiles = tiles;
  byId("credit").hidden = !tiles;
  byId("credit").textContent = tiles?.credit ?? "";
  map.repaint(true);
});
