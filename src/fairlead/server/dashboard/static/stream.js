// The stream of changes, which reconnects with backoff. A classic script, for workers and pages.

const SILENCE_MS = 25000;
const SHORTEST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 15000;

class LiveStream {
  constructor(listener) {
    this.listener = listener;
    this.mark = null;
    this.isOpen = false;
    this.wait = SHORTEST_WAIT_MS;
  }

  open(mark) {
    this.isOpen = true;
    this.mark ??= mark;
    this.source?.close();
    this.source = new EventSource("/live?" + new URLSearchParams({ after: this.mark }));
    for (const kind of ["hello", "resync", "change", "ping", "end"]) {
      this.source.addEventListener(kind, (event) => this.hear(kind, event));
    }
    this.source.onerror = () => this.lost();
    this.expectMessage();
  }

  hear(kind, event) {
    if (event.lastEventId) this.mark = event.lastEventId;
    this.expectMessage();
    if (kind === "end") {
      this.lost();
      return;
    }
    this.wait = SHORTEST_WAIT_MS;
    this.listener("live");
    if (kind === "change") this.listener("change", JSON.parse(event.data), this.mark);
    if (kind === "resync") this.listener("resync");
  }

  // The server sends a message every ten seconds; silence means that the connection is lost.
  expectMessage() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.lost(), SILENCE_MS);
  }

  async lost() {
    clearTimeout(this.timer);
    this.source.close();
    this.listener("lost");
    this.timer = setTimeout(() => this.reconnect(), this.wait);
    this.wait = Math.min(LONGEST_WAIT_MS, this.wait * 1.6);
  }

  async reconnect() {
    try {
      const response = await fetch("/live/session", { cache: "no-store", redirect: "manual" });
      if (response.status === 401) { // the session has ended
        this.listener("ended");
        this.isOpen = false;
        return;
      }
    } catch {
      // The server cannot be reached; the stream will fail and wait again.
    }
    this.open();
  }

  close() {
    clearTimeout(this.timer);
    this.source?.close();
    this.isOpen = false;
  }
}
