// Shared by all tabs of a session: one stream for all of them, as browsers allow six connections.

importScripts("stream.js");

const ports = new Set();
const recent = [];
const KEPT = 240;
let live = null;

const stream = new LiveStream((kind, data, mark) => {
  if (kind === "live" || kind === "lost") live = kind;
  if (kind === "resync") recent.length = 0;
  if (kind === "change") {
    recent.push([mark, data]);
    if (recent.length > KEPT) recent.shift();
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
    if (live) port.postMessage([live]);
  };
  port.start();
};

// What came between the making of a page and its first word to us.
function catchUp(port, mark) {
  const [epoch, number] = mark.split(".");
  const [ownEpoch, ownNumber] = (stream.mark ?? mark).split(".");
  const first = recent.length ? Number(recent[0][0].split(".")[1]) : Infinity;
  const knows = Number(number) >= Number(ownNumber) || first <= Number(number) + 1;
  if (epoch !== ownEpoch || !knows) {
    port.postMessage(["resync"]);
    return;
  }
  for (const [each, data] of recent) {
    if (Number(each.split(".")[1]) > Number(number)) port.postMessage(["change", data]);
  }
}
