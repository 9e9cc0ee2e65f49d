// The page: it shows each frame that the server sends, and asks for another stream when the view changes.
import { byId } from "./words.js";
import { drawOverview, showOverview } from "./overview.js";
import { showQueues, startQueues } from "./queues.js";
import { drawQueue, showQueue, startQueue } from "./queue.js";
import { showFabric } from "./fabric.js";
import { showErrors } from "./errors.js";
import { startDecoder } from "./decoder.js";
import { showFaults, startFaults } from "./faults.js";

// The view is what the server is asked for: see view in rows.go.
const view = { filter: "", sort: "", down: false, from: 0, rows: 50, queue: 0, ring: "send" };
let stream = null;
let again = 0;

// change changes the view, and opens a stream for it.
export function change(to) {
  Object.assign(view, to);
  clearTimeout(again);
  stream?.close();
  const query = new URLSearchParams({ ...view, down: view.down ? "1" : "0" });
  stream = new EventSource("events?" + query);
  stream.onmessage = (event) => show(JSON.parse(event.data));
  stream.onerror = () => {
    problem("The server does not answer, or too many pages are open. This page goes on trying.");
    if (stream.readyState !== EventSource.CLOSED) return; // the browser tries again itself
    clearTimeout(again);
    again = setTimeout(() => change({}), 3000);
  };
}

function problem(text) {
  byId("problem").hidden = !text;
  byId("problem").textContent = text;
}

function show(frame) {
  problem(frame.error ? `The engine does not answer: ${frame.error}` : "");
  if (!frame.device) return;
  byId("engine").textContent = `${frame.device.name}, pid ${frame.device.pid}, ${frame.socket}` +
    (frame.pause > 1500 ? `; asked every ${Math.round(frame.pause / 1000)} s` : "");
  showOverview(frame);
  showQueues(frame, view);
  showQueue(frame, view);
  showFabric(frame);
  showErrors(frame);
  showFaults(frame);
}

// Canvases have the colours and the size of the moment at which they were drawn.
function draw() {
  drawOverview();
  drawQueue();
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
addEventListener("resize", draw);

startQueues(change, view);
startQueue(change, view);
startDecoder();
startFaults();
change({});
