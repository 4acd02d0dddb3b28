// Numbers and elements as people read them. Text from data only ever becomes a text node.

const PLAIN = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 0 });
const FINE = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 1 });
const SMALL = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 2 });
const TINY = new Intl.NumberFormat("en-GB", { maximumSignificantDigits: 2 });

export const NONE = "–";

export function numberText(value) {
  if (value === null || value === undefined) return NONE;
  return formatFor(Math.abs(value)).format(value).replace("-", "−");
}

function formatFor(size) {
  if (size >= 10 || size === 0) return PLAIN;
  if (size >= 1) return FINE;
  return size >= 0.01 ? SMALL : TINY;
}

export function signedText(value) {
  if (value === null || value === undefined) return NONE;
  const text = numberText(value);
  return value > 0 && text !== "0" ? `+${text}` : text;
}

export function percentText(share) {
  return share === null || share === undefined ? NONE : `${PLAIN.format(100 * share)} %`;
}

export function countText(count, word) {
  return `${PLAIN.format(count)} ${word}${count === 1 ? "" : "s"}`;
}

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
