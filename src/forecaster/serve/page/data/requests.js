// One way to ask the service: a deadline on every question, and errors that say what happened.

import { Malformed } from "./responses.js";

const DEADLINE_MS = 10_000;

export class Away extends Error {
  constructor(message, retrySeconds = 0) {
    super(message);
    this.retrySeconds = retrySeconds;
  }
}

// Returns { same: true } where the answer has not changed since the ETag.
export async function ask(path, { etag = null, signal = null } = {}) {
  const deadline = AbortSignal.timeout(DEADLINE_MS);
  try {
    return await fetchJson(path, etag, signal ? AbortSignal.any([signal, deadline]) : deadline);
  } catch (error) {
    throw inWords(error);
  }
}

async function fetchJson(path, etag, signal) {
  // The browser's own cache would answer for the service: we keep the ETag ourselves.
  const headers = etag ? { "If-None-Match": etag } : {};
  const response = await fetch(path, { headers, signal, cache: "no-store" });
  const said = { etag: response.headers.get("ETag"), seconds: freshness(response) };
  if (response.status === 304) return { ...said, same: true, etag };
  if (!response.ok) throw await refusal(response);
  return { ...said, same: false, body: await response.json() };
}

function inWords(error) {
  if (error.name === "TimeoutError") return new Away("the service takes too long to answer");
  if (error.name === "SyntaxError") return new Malformed("the answer is not JSON");
  if (error.name === "TypeError") return new Away("the service does not answer"); // as fetch puts it
  return error;
}

async function refusal(response) {
  const problem = await response.json().catch(() => null);
  const reason = typeof problem?.detail === "string" ? `: ${problem.detail}` : "";
  const wait = Number(response.headers.get("Retry-After")) || 0;
  return new Away(`the service answered ${response.status}${reason}`, wait);
}

// How long the service says that an answer holds.
function freshness(response) {
  const found = /max-age=(\d+)/.exec(response.headers.get("Cache-Control") ?? "");
  return found && Number(found[1]) > 0 ? Number(found[1]) : null;
}

// The last request wins: an answer to an earlier one is dropped, and its transfer ended.
export function lastOnly() {
  let controller = null;
  return async function run(task) {
    controller?.abort();
    const mine = (controller = new AbortController());
    const result = await task(mine.signal).catch((error) => {
      if (mine.signal.aborted) return undefined;
      throw error;
    });
    return mine.signal.aborted ? undefined : result;
  };
}
