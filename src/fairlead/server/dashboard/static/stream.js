// The stream of changes, which heals by itself. A classic script: workers and pages both load it.

const SILENT = 25000;
const SHORTEST = 500;
const LONGEST = 15000;

class LiveStream {
  constructor(tell) {
    this.tell = tell;
    this.mark = null;
    this.isOpen = false;
    this.wait = SHORTEST;
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
    this.listen();
  }

  hear(kind, event) {
    if (event.lastEventId) this.mark = event.lastEventId;
    this.listen();
    if (kind === "end") {
      this.lost();
      return;
    }
    this.wait = SHORTEST;
    this.tell("live");
    if (kind === "change") this.tell("change", JSON.parse(event.data), this.mark);
    if (kind === "resync") this.tell("resync");
  }

  // Something comes every ten seconds; silence means that the line is dead.
  listen() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.lost(), SILENT);
  }

  async lost() {
    clearTimeout(this.timer);
    this.source.close();
    this.tell("lost");
    this.timer = setTimeout(() => this.again(), this.wait);
    this.wait = Math.min(LONGEST, this.wait * 1.6);
  }

  // A session that has ended shows as a page that is not ours to see.
  async again() {
    try {
      const answer = await fetch("/live/session", { cache: "no-store", redirect: "manual" });
      if (answer.status === 401) {
        this.tell("ended");
        this.isOpen = false;
        return;
      }
    } catch {
      // The server is away; the stream will say so.
    }
    this.open();
  }

  close() {
    clearTimeout(this.timer);
    this.source?.close();
    this.isOpen = false;
  }
}
