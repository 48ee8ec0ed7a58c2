// The shared worker: one stream for all tabs of a login, as browsers allow six connections only.

importScripts("stream.js");

const ports = new Set();
const recent = [];
const MOST_RECENT = 240;
let status = null;

const stream = new LiveStream((kind, data, mark) => {
  if (kind === "live" || kind === "lost") status = kind;
  if (kind === "resync") recent.length = 0;
  if (kind === "change") {
    recent.push([mark, data]);
    if (recent.length > MOST_RECENT) recent.shift();
  }
  for (const port of ports) port.postMessage([kind, data]);
});

onconnect = ({ ports: [port] }) => {
  port.onmessage = ({ data: [kind, mark] }) => {
    if (kind === "bye") {
      ports.delete(port);
      return;
    }
    ports.add(port);
    if (!stream.isOpen) stream.open(mark);
    else catchUp(port, mark);
    if (status) port.postMessage([status]);
  };
  port.start();
};

// Sends the changes between the rendering of a page and its hello.
function catchUp(port, mark) {
  const [epoch, number] = mark.split(".");
  const [ownEpoch, ownNumber] = (stream.mark ?? mark).split(".");
  const first = recent.length ? Number(recent[0][0].split(".")[1]) : Infinity;
  const hasAll = Number(number) >= Number(ownNumber) || first <= Number(number) + 1;
  if (epoch !== ownEpoch || !hasAll) {
    port.postMessage(["resync"]);
    return;
  }
  for (const [change, data] of recent) {
    if (Number(change.split(".")[1]) > Number(number)) port.postMessage(["change", data]);
  }
}
