// Event handlers of the buttons, the slider, the search field and the keyboard shortcuts.

import { byId } from "./dom.js";

const PLAY_MS = 1500;

export function connectControls({ state, map, list, retry, onChange, onClose, onSearch }) {
  const on = (id, type, handler) => byId(id).addEventListener(type, handler);
  const moveTo = (step) => {
    state.step = step;
    onChange();
  };
  on("step", "input", (event) => moveTo(Number(event.target.value) - 1));
  const next = () => moveTo((state.step + 1) % (state.forecast?.steps.length ?? 1));
  on("play", "click", player(next));
  for (const name of ["colour", "basis"]) {
    on(name, "change", (event) => {
      state[name] = event.target.value;
      onChange();
    });
  }
  on("retry", "click", retry);
  on("back", "click", onClose);
  on("zoom-in", "click", () => map.view.zoom(1.5));
  on("zoom-out", "click", () => map.view.zoom(1 / 1.5));
  on("zoom-all", "click", () => map.view.showAll());
  on("query", "input", (event) => {
    state.query = event.target.value.trim();
    onSearch();
  });
  on("search", "submit", (event) => {
    event.preventDefault();
    list.focus();
  });
  document.addEventListener("keydown", (event) => shortcut(event, state, onClose));
}

function player(next) {
  let timer = null;
  return (event) => {
    clearInterval(timer);
    timer = timer === null ? setInterval(next, PLAY_MS) : null;
    event.currentTarget.setAttribute("aria-pressed", String(timer !== null));
  };
}

// "/" focuses the search field, Escape closes the selected location.
function shortcut(event, state, onClose) {
  if (event.key === "Escape" && state.selected) onClose();
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.target === byId("query")) return;
  event.preventDefault();
  byId("query").focus();
}
