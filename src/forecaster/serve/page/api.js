// The page about the HTTP API, from the service's own OpenAPI document.

import { requestJson } from "./data/requests.js";
import { byId, element } from "./dom.js";

const REFERENCE = "#/components/schemas/";

async function show() {
  const { body: api } = await requestJson("v1/openapi.json");
  byId("version").textContent = `forecaster ${api.info.version}`;
  const operations = Object.entries(api.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method: method.toUpperCase(), ...operation })),
  );
  byId("contents").replaceChildren(...operations.map(entryOf));
  byId("endpoints").replaceChildren(...operations.map((operation) => sectionOf(operation, api.components.schemas)));
}

const anchorOf = ({ method, path }) => `${method}${path.replaceAll("/", "-")}`;
// `names` in backticks become code.
const prose = (text) => text.split("`").map((part, i) => (i % 2 ? element("code", "", part) : part));
const firstLine = (text = "") => text.split("\n")[0];

function entryOf(operation) {
  const link = element("a", "", element("code", "", `${operation.method} ${operation.path}`));
  link.append(element("span", "", ...prose(firstLine(operation.description))));
  link.href = `docs#${anchorOf(operation)}`;
  return link;
}

function sectionOf(operation, schemas) {
  const { method, path, description = "", parameters = [], requestBody, responses } = operation;
  const title = element("h2", "", element("b", "", method), path);
  const node = element("section", "card", title, element("p", "", ...prose(description)));
  node.id = anchorOf(operation);
  if (parameters.length) {
    const rows = parameters.map(({ name, required, schema, description: text }) => {
      return [name, required ? "needed" : standardOf(schema), typeOf(schema), text ?? meaningOf(schema)];
    });
    node.append(tableOf(["parameter", "if left out", "type", "meaning"], rows));
  }
  if (requestBody) node.append(...contentOf("Body", requestBody.content, schemas));
  const success = Object.entries(responses).find(([status]) => status.startsWith("2"));
  if (success) node.append(...contentOf(`Answer ${success[0]}`, success[1].content ?? {}, schemas));
  const failures = Object.keys(responses).filter((status) => !status.startsWith("2"));
  node.append(element("p", "quiet", `Errors: ${failures.join(", ")}`));
  if (method === "GET" && !parameters.some(({ required }) => required)) {
    const link = element("a", "", "Try it");
    link.href = path.slice(1);
    node.append(link);
  }
  return node;
}

const meaningOf = ({ description, anyOf = [] }) =>
  description ?? anyOf.map((choice) => choice.description).find(Boolean) ?? "";
const standardOf = (schema) => (schema?.default === undefined ? "none" : String(schema.default));

// The fields of what is sent or answered, one table for each object in it.
function contentOf(title, content, schemas) {
  return Object.entries(content).flatMap(([kind, { schema }]) => {
    const names = namesIn(schema, schemas);
    if (!names.length) return [element("p", "quiet", `${title}: ${kind}`)];
    const summary = element("summary", "", `${title}: ${kind}`);
    const tables = names.flatMap((name) => [element("p", "quiet", name), fieldsOf(schemas[name])]);
    return [element("details", "", summary, ...tables)];
  });
}

function fieldsOf({ properties = {}, required = [] }) {
  const rows = Object.entries(properties).map(([name, schema]) => {
    return [name, required.includes(name) ? "always" : "may be absent", typeOf(schema), meaningOf(schema)];
  });
  return tableOf(["field", "present", "type", "meaning"], rows);
}

// The names of the objects in a schema, and of those in them.
function namesIn(schema, schemas, found = []) {
  for (const name of JSON.stringify(schema ?? {}).match(/#\/components\/schemas\/\w+/g) ?? []) {
    const short = name.slice(REFERENCE.length);
    if (found.includes(short) || !schemas[short]) continue;
    found.push(short);
    namesIn(schemas[short], schemas, found);
  }
  return found;
}

function typeOf(schema = {}) {
  if (schema.$ref) return schema.$ref.slice(REFERENCE.length);
  if (schema.anyOf) return schema.anyOf.map(typeOf).join(" or ");
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(", ");
  if (schema.type === "array") return `list of ${typeOf(schema.items)}`;
  if (schema.type === "object" && schema.additionalProperties) return `${typeOf(schema.additionalProperties)} by name`;
  return schema.type ?? "any";
}

function tableOf(heads, rows) {
  const cells = (tag, texts) => element("tr", "", ...texts.map((text) => element(tag, "", text)));
  const body = rows.map(([name, ...texts]) => {
    return element("tr", "", element("td", "", element("code", "", name)), ...texts.map((text) => element("td", "", text)));
  });
  const node = element("div", "scroll", element("table", "", cells("th", heads), ...body));
  node.tabIndex = 0;
  return node;
}

show().catch((error) => {
  byId("version").textContent = `not available: ${error.message}`;
});
