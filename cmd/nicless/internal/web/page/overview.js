// Load, rates and threads.
import { byId, element, short } from "./words.js";
import { lines } from "./draw.js";

const kept = 120;
const history = { wqes: [], bytes: [], load: [] };
let before = "";

function push(list, value) {
  list.push(value);
  if (list.length > kept) list.shift();
}

export function showOverview(frame) {
  const device = frame.device;
  const engine = device.pid + device.started;
  if (engine !== before) { // another engine begins anew
    before = engine;
    for (const list of Object.values(history)) list.length = 0;
  }
  push(history.wqes, frame.total.WQEs);
  push(history.bytes, frame.total.Bytes);
  frame.threads.forEach((t, i) => push((history.load[i] ??= []), t.load.Busy));
  byId("total").textContent = `${short(frame.total.WQEs)} WQE/s, ${short(frame.total.Bytes)} B/s, ` +
    `${short(frame.total.Failed)} failed/s; ${device.clients} clients, ${device.queues} queues, ${device.cqs} CQs, ` +
    `${device.srqs} SRQs; ${device.watches} watches, ${device.faults} rules of faults`;
  drawOverview();
  const percent = (share) => Math.round(100 * share) + " %";
  byId("threads").replaceChildren(...frame.threads.map((t) => element("tr", ...[t.number, percent(t.load.Busy),
    percent(t.load.Waited), t.queues, t.stalled, t.stuck ?? (t.asleep ? "asleep" : "awake")].map((v) => element("td", v)))));
}

export function drawOverview() {
  lines(byId("wqes"), [history.wqes]);
  lines(byId("bytes"), [history.bytes]);
  lines(byId("load"), history.load, 1);
}
