// One stream for all tabs through a shared worker; where there is none, one of this tab's own.

const { mark, holder } = document.body.dataset;

export function connect(tell) {
  if (!window.SharedWorker) {
    direct(tell);
    return;
  }
  let worker;
  try {
    // Named by the key: who logs in with another one gets a worker of its own.
    worker = new SharedWorker(new URL("worker.js", import.meta.url), { name: holder });
  } catch {
    direct(tell);
    return;
  }
  worker.onerror = () => direct(tell);
  worker.port.onmessage = ({ data }) => tell(...data);
  worker.port.start();
  worker.port.postMessage(["hello", mark]);
  addEventListener("pagehide", () => worker.port.postMessage(["bye"]));
  addEventListener("pageshow", (event) => event.persisted && location.reload());
}

function direct(tell) {
  const script = document.createElement("script");
  script.src = new URL("stream.js", import.meta.url);
  script.onload = () => new LiveStream(tell).open(mark);
  document.head.append(script);
}
