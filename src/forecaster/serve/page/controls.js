// What people press, slide and type.

import { byId } from "./dom.js";

const PLAY_MS = 1500;

export function listen({ state, map, list, retry, shown, closed, sought }) {
  const on = (id, kind, act) => byId(id).addEventListener(kind, act);
  const moveTo = (step) => {
    state.step = step;
    shown();
  };
  on("step", "input", (event) => moveTo(Number(event.target.value) - 1));
  const next = () => moveTo((state.step + 1) % (state.forecast?.steps.length ?? 1));
  on("play", "click", player(next));
  for (const name of ["colour", "basis"]) {
    on(name, "change", (event) => {
      state[name] = event.target.value;
      shown();
    });
  }
  on("retry", "click", retry);
  on("back", "click", closed);
  on("closer", "click", () => map.view.zoom(1.5));
  on("wider", "click", () => map.view.zoom(1 / 1.5));
  on("whole", "click", () => map.view.showAll(map.places));
  on("wanted", "input", (event) => {
    state.wanted = event.target.value.trim();
    sought();
  });
  on("search", "submit", (event) => {
    event.preventDefault();
    list.focus();
  });
  document.addEventListener("keydown", (event) => shortcut(event, state, closed));
}

function player(next) {
  let timer = null;
  return (event) => {
    clearInterval(timer);
    timer = timer === null ? setInterval(next, PLAY_MS) : null;
    event.currentTarget.setAttribute("aria-pressed", String(timer !== null));
  };
}

// "/" searches, Escape closes a place: the keys that maps and mail programs have taught.
function shortcut(event, state, closed) {
  if (event.key === "Escape" && state.chosen) closed();
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.target === byId("wanted")) return;
  event.preventDefault();
  byId("wanted").focus();
}
