// Lists whose rows carry a bar: the longest is the first.

import { element } from "./words.js";

// name, note and size are texts; share is the length of the bar, from 0 to 1
export function barRow({ name, note = "", size, share, kind = "" }) {
  const bar = element("i", `amount ${kind}`.trim());
  bar.style.width = `${100 * share}%`;
  return [element("span", "name", name), element("span", "path", note), element("b", "change", size), bar];
}

// Orange is more and blue is less, as on the map.
export function kindOf(change) {
  return change > 0 ? "more" : "less";
}
