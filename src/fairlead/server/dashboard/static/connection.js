// Connects to the stream: through a shared worker for all tabs, or else with a stream of this tab.

const { mark, holder } = document.body.dataset;

export function connect(listener) {
  if (!window.SharedWorker) {
    openStream(listener);
    return;
  }
  let worker;
  try {
    // The name is the key, so that another login uses another worker.
    worker = new SharedWorker(new URL("worker.js", import.meta.url), { name: holder });
  } catch {
    openStream(listener);
    return;
  }
  worker.onerror = () => openStream(listener);
  worker.port.onmessage = ({ data }) => listener(...data);
  worker.port.start();
  worker.port.postMessage(["hello", mark]);
  addEventListener("pagehide", () => worker.port.postMessage(["bye"]));
  addEventListener("pageshow", (event) => event.persisted && location.reload());
}

function openStream(listener) {
  const script = document.createElement("script");
  script.src = new URL("stream.js", import.meta.url);
  script.onload = () => new LiveStream(listener).open(mark);
  document.head.append(script);
}
