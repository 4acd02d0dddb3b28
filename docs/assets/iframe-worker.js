/* A page opened as a file may not start a Worker. This runs the search worker in an iframe then. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.documentElement.appendChild(frame);
      const inside = frame.contentWindow;
      inside.postMessage = (data) => {
        const event = new MessageEvent("message", { data });
        this.dispatchEvent(event);
        if (this.onmessage) this.onmessage(event);
      };
      inside.importScripts = (...scripts) =>
        Promise.all(scripts.map((script) => load(frame.contentDocument, new URL(script, url))));
      this.inside = inside;
      this.ready = load(frame.contentDocument, url);
    }
    postMessage(data) {
      this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })));
    }
    terminate() {}
  };
  const load = (page, url) =>
    new Promise((done) => {
      const script = page.createElement("script");
      script.src = url;
      script.onload = script.onerror = done;
      page.body.appendChild(script);
    });
}
