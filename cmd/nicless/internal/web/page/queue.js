// The selected queue: attributes, ring, latencies. trace.js has its trace.
import { byId, call, hex, short, span } from "./words.js";
import { cellsOf, heat, ring } from "./draw.js";
import { scrub, startTrace } from "./trace.js";

let queue = 0;
let shown = null; // the ring of the last frame
let cursor = 0; // a slot of it
let samples = [];

export function startQueue(change, view) {
  const canvas = byId("ring-cells");
  byId("ring").addEventListener("change", () => {
    cursor = 0;
    byId("entry").hidden = true;
    change({ ring: byId("ring").value });
  });
  canvas.addEventListener("click", (event) => {
    if (!shown?.size) return;
    const { side, inLine } = cellsOf(canvas, shown.size);
    const slot = Math.floor(event.offsetY / side) * inLine + Math.floor(event.offsetX / side);
    if (slot >= shown.size) return;
    cursor = slot;
    drawRing();
    decode(view);
  });
  canvas.addEventListener("keydown", (event) => {
    if (!shown?.size) return;
    const { inLine } = cellsOf(canvas, shown.size);
    const by = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -inLine, ArrowDown: inLine }[event.key];
    if (by) cursor = (cursor + by + shown.size) % shown.size;
    else if (event.key === "Enter") decode(view);
    else return;
    event.preventDefault();
    drawRing();
  });
  startTrace(() => queue);
}

export function showQueue(frame, view) {
  const chosen = frame.chosen;
  byId("queue").hidden = !chosen;
  if (!chosen) return;
  if (queue !== chosen.number) {
    queue = chosen.number;
    samples = [];
    cursor = 0;
    byId("entry").hidden = byId("trace").hidden = true;
  }
  byId("queue-title").textContent = `Queue ${hex(queue)}`;
  byId("attributes").textContent = `${chosen.transport}, state ${chosen.state}` +
    (chosen.peer ? `, peer ${hex(chosen.peer)}${chosen.linked ? " on another device" : ""}` : "") +
    `; ${short(chosen.rate.WQEs)} WQE/s, ${short(chosen.rate.Bytes)} B/s; ${chosen.wqes} WQEs and ${chosen.bytes} bytes so far; ` +
    `${chosen.announced} blocks to do, ${chosen.posted} receives posted` + (chosen.wait ? `; waits: ${chosen.wait}` : "");
  shown = chosen.ring && chosen.ring.size ? { ...chosen.ring, failed: isFailed(chosen) } : null;
  if (chosen.ring?.error) byId("ring-text").textContent = chosen.ring.error;
  drawRing();
  if (chosen.latency.length) {
    samples = [...samples, chosen.latency].slice(-60);
    const sorted = [...chosen.latency].sort((a, b) => a - b);
    byId("heat-text").textContent = `newest sample of ${sorted.length}: median ${span(sorted[sorted.length >> 1])}, ` +
      `most ${span(sorted[sorted.length - 1])}`;
  } else if (!samples.length) {
    byId("heat-text").textContent = "no signaled WQE has completed yet";
  }
  heat(byId("heat"), samples);
}

// drawQueue draws again what the last frame had.
export function drawQueue() {
  if (byId("queue").hidden) return;
  drawRing();
  heat(byId("heat"), samples);
  scrub();
}

const isFailed = (q) => q.state === "ERR" || q.state === "SQE";

// entryIn returns the number of the newest entry in a slot; -1 if none was ever there.
function entryIn(slot) {
  const { producer, size } = shown;
  const n = producer - 1 - ((((producer - 1 - slot) % size) + size) % size);
  return producer > 0 && n >= 0 ? n : -1;
}

function drawRing() {
  if (!shown) return;
  const { producer, consumer, size, bad, failed } = shown;
  cursor = Math.min(cursor, size - 1);
  const wrong = new Set(bad.map(Number));
  const state = (slot) => {
    const n = entryIn(slot);
    if (n < 0) return "free";
    if (wrong.has(n) || (failed && n >= consumer)) return "bad";
    return n >= consumer ? "waits" : "done";
  };
  ring(byId("ring-cells"), size, state, [["C", consumer % size], ["P", producer % size]], cursor);
  byId("ring-text").textContent = `${size} entries of ${shown.entry} bytes: ${producer - consumer} wait, ` +
    `${Math.max(0, size - (producer - consumer))} free; consumer ${consumer}, producer ${producer}`;
}

// decode shows the entry under the cursor, field by field.
async function decode(view) {
  const n = entryIn(cursor);
  byId("entry").hidden = false;
  if (n < 0) {
    byId("entry").textContent = "nothing was ever posted here";
    return;
  }
  const query = new URLSearchParams({ queue, ring: view.ring, entry: n });
  try {
    const { text } = await call("entry?" + query, { method: "POST" });
    byId("entry").textContent = `entry ${n}\n${text}`;
  } catch (err) {
    byId("entry").textContent = err.message;
  }
}
