// Elements of the page. Text from data only ever becomes a text node.

export function byId(id) {
  return document.getElementById(id);
}

// element("p", "quiet", "text", child, …)
export function element(tag, className = "", ...children) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  node.append(...children.map((child) => (child instanceof Node ? child : String(child))));
  return node;
}

export function figure(value, label, className = "") {
  return element("div", className, element("dd", "", value), element("dt", "", label));
}

// A list row with a bar. name, note and size are texts; share is the length of the bar, from 0 to 1.
export function barRow({ name, note = "", size, share, kind = "" }) {
  const bar = element("i", `amount ${kind}`.trim());
  bar.style.width = `${100 * share}%`;
  return [element("span", "name", name), element("span", "path", note), element("b", "change", size), bar];
}

// The class of a change: orange for more, blue for less, as on the map.
export function changeKind(change) {
  return change > 0 ? "more" : "less";
}
