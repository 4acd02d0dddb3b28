// Asks for the forecast once per interval; after a failure ever more rarely, and never in step
// with other pages.

const USUAL_SECONDS = 15;
const LONGEST_SECONDS = 300;

// Seconds to wait, doubling, with jitter of a half: 15…30, 30…60, …; at least what the service asks.
export function pause(failures, interval, retry, random = Math.random) {
  const longest = Math.min(interval * 2 ** failures, LONGEST_SECONDS);
  return Math.max(longest * (0.5 + random() / 2), Math.min(retry, LONGEST_SECONDS));
}

export class Poll {
  // `question(etag)` asks; `heard(answer)` takes in what came, or that all is as it was.
  constructor(question, heard, failed) {
    Object.assign(this, { question, heard, failed });
    Object.assign(this, { etag: null, interval: USUAL_SECONDS, failures: 0, timer: 0, busy: false });
    document.addEventListener("visibilitychange", () => document.hidden || this.now());
    addEventListener("online", () => this.now());
  }

  async now() {
    if (this.busy) return;
    this.busy = true;
    clearTimeout(this.timer);
    const wait = await this.#turn();
    this.busy = false;
    this.timer = setTimeout(() => this.#due(), 1000 * wait);
  }

  // A page that nobody sees asks nothing; it asks as soon as it is seen.
  #due() {
    if (!document.hidden) this.now();
  }

  async #turn() {
    try {
      const answer = await this.question(this.etag);
      // "As it was" need not repeat how long that holds.
      this.interval = answer.seconds ?? (answer.same ? this.interval : USUAL_SECONDS);
      this.heard(answer);
      this.etag = answer.etag; // only now: an answer that could not be read is asked for again
      this.failures = 0;
      return this.interval * (0.9 + 0.2 * Math.random());
    } catch (error) {
      const wait = pause(++this.failures, this.interval, error.retrySeconds ?? 0);
      this.failed(error, wait);
      return wait;
    }
  }
}
