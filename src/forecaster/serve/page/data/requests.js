// Requests to the service: every one has a timeout, and every error says what happened.

const TIMEOUT_MS = 10_000;

export class ServiceError extends Error {
  // lastOrigin: the last time from which the service can forecast, if data for a forecast of now is missing
  constructor(message, { status = 0, retrySeconds = 0, lastOrigin = null } = {}) {
    super(message);
    Object.assign(this, { status, retrySeconds, lastOrigin });
  }
}

export class InvalidResponse extends Error {}

// Returns { same: true } where the response has not changed since the ETag; `next` is the path of the next page.
export async function requestJson(path, { etag = null, signal = null } = {}) {
  const timeout = AbortSignal.timeout(TIMEOUT_MS);
  try {
    return await fetchJson(path, etag, signal ? AbortSignal.any([signal, timeout]) : timeout);
  } catch (error) {
    throw readableError(error);
  }
}

async function fetchJson(path, etag, signal) {
  // no-store: the browser's own cache would answer in place of the service.
  const headers = etag ? { "If-None-Match": etag } : {};
  const response = await fetch(path, { headers, signal, cache: "no-store" });
  const caching = { etag: response.headers.get("ETag"), seconds: maxAge(response), next: nextPage(response) };
  if (response.status === 304) return { ...caching, same: true, etag };
  if (!response.ok) throw await errorOf(response);
  return { ...caching, same: false, body: await response.json() };
}

function readableError(error) {
  if (error.name === "TimeoutError") return new ServiceError("the service takes too long to answer");
  if (error.name === "SyntaxError") return new InvalidResponse("the answer is not JSON");
  if (error.name === "TypeError") return new ServiceError("the service does not answer"); // a failed fetch
  return error;
}

async function errorOf(response) {
  const problem = await response.json().catch(() => null);
  const detail = typeof problem?.detail === "string" ? `: ${problem.detail}` : "";
  const retrySeconds = Number(response.headers.get("Retry-After")) || 0;
  const lastOrigin = response.headers.get("X-Forecast-origin");
  return new ServiceError(`the service answered ${response.status}${detail}`, { status: response.status, retrySeconds, lastOrigin });
}

// The max-age of the response in seconds, or null.
function maxAge(response) {
  const match = /max-age=(\d+)/.exec(response.headers.get("Cache-Control") ?? "");
  return match && Number(match[1]) > 0 ? Number(match[1]) : null;
}

// The path of the next page, relative to this one: the service may lie below a path of its host. Null on the last.
function nextPage(response) {
  const match = /^<\/(.*)>; rel="next"$/.exec(response.headers.get("Link") ?? "");
  return match && match[1];
}

// Lets the browser draw and answer before what follows.
export function pause() {
  return new Promise((resolve) => setTimeout(resolve));
}

// Runs one request at a time: a new one aborts the one before, which then returns undefined.
export function latestOnly() {
  let controller = null;
  return async function run(task) {
    controller?.abort();
    const { signal } = (controller = new AbortController());
    const result = await task(signal).catch((error) => {
      if (signal.aborted) return undefined;
      throw error;
    });
    return signal.aborted ? undefined : result;
  };
}
