// Polls for the forecast once per interval. After failures the pauses grow, with jitter, so that
// many pages do not ask at the same moment.

const DEFAULT_SECONDS = 15;
const LONGEST_SECONDS = 300;

// Seconds until the next try: they double with each failure, with a jitter of one half (15…30, 30…60, …),
// and are never shorter than the service asks for.
export function retryDelay(failures, interval, retryAfter, random = Math.random) {
  const longest = Math.min(interval * 2 ** failures, LONGEST_SECONDS);
  return Math.max(longest * (0.5 + random() / 2), Math.min(retryAfter, LONGEST_SECONDS));
}

export class Poller {
  // `request(etag)` asks the service, `onResponse` takes its response, `onFailure` an error.
  constructor(request, onResponse, onFailure) {
    Object.assign(this, { request, onResponse, onFailure });
    Object.assign(this, { etag: null, interval: DEFAULT_SECONDS, failures: 0, timer: 0, busy: false });
    document.addEventListener("visibilitychange", () => document.hidden || this.poll());
    addEventListener("online", () => this.poll());
  }

  async poll() {
    if (this.busy) return;
    this.busy = true;
    clearTimeout(this.timer);
    const delay = await this.#request();
    this.busy = false;
    this.timer = setTimeout(() => this.#onTimer(), 1000 * delay);
  }

  // A hidden page does not poll; it polls as soon as it becomes visible.
  #onTimer() {
    if (!document.hidden) this.poll();
  }

  // Returns the seconds until the next request.
  async #request() {
    try {
      const response = await this.request(this.etag);
      // A 304 need not repeat the max-age.
      this.interval = response.seconds ?? (response.same ? this.interval : DEFAULT_SECONDS);
      this.onResponse(response);
      this.etag = response.etag; // last, so that an invalid response is requested again
      this.failures = 0;
      return this.interval * (0.9 + 0.2 * Math.random());
    } catch (error) {
      const delay = retryDelay(++this.failures, this.interval, error.retrySeconds ?? 0);
      this.onFailure(error, delay);
      return delay;
    }
  }
}
