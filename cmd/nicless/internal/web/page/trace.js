// A trace of the selected queue, and the life of one WQE in it.
import { byId, call, element, span } from "./words.js";
import { lanes } from "./draw.js";

const names = ["poster", "engine", "link", "peer", "completion"];
let events = []; // of the whole trace
let life = []; // of the chosen WQE, or all
let traced = 0; // the queue

export function startTrace(queue) {
  byId("take").addEventListener("click", () => take(queue()));
  byId("wqe").addEventListener("change", choose);
  byId("moment").addEventListener("input", scrub);
}

async function take(queue) {
  byId("take").disabled = true;
  byId("trace-text").textContent = "taking it …";
  try {
    const trace = await call("trace?" + new URLSearchParams({ queue, ms: byId("ms").value }), { method: "POST" });
    events = trace.events;
    traced = queue;
    byId("trace-text").textContent = `${events.length} events` + (trace.lost ? `, ${trace.lost} lost, which came faster than they could be read` : "") +
      (trace.full ? "; it is full" : "");
    byId("trace").hidden = events.length === 0;
    list(queue);
    choose();
  } catch (err) {
    byId("trace-text").textContent = err.message;
  }
  byId("take").disabled = false;
}

// list lists the WQEs that the trace has fetched.
function list(queue) {
  const indices = [...new Set(events.filter((e) => e.kind === "fetch" && e.queue === queue).map((e) => e.index))];
  const options = indices.slice(0, 500).map((i) => new Option(`from index ${i}`, i));
  byId("wqe").replaceChildren(new Option("all", ""), ...options);
}

// has reports whether an event is about a block of a send queue. Packets and completions of receives are about
// none.
export function has(e, queue, index) {
  return e.queue === queue && ((index - e.index) & 0xffff) < e.count;
}

function choose() {
  const chosen = byId("wqe").value;
  life = events;
  if (chosen !== "") {
    const own = events.filter((e) => has(e, traced, Number(chosen)));
    const from = own[0]?.at ?? 0, to = own.at(-1)?.at ?? 0;
    life = events.filter((e) => own.includes(e) || ((e.lane === "link" || e.lane === "peer") && e.at >= from && e.at <= to));
  }
  byId("moment").max = Math.max(life.length - 1, 0);
  byId("moment").value = 0;
  scrub();
}

// scrub shows the events around the chosen moment.
export function scrub() {
  const at = Number(byId("moment").value);
  if (!life.length) return byId("events").replaceChildren();
  lanes(byId("lanes"), names, life, life[at].at);
  const from = Math.max(0, Math.min(at - 4, life.length - 10));
  byId("events").start = from + 1;
  byId("events").replaceChildren(...life.slice(from, from + 10).map((e, i) => {
    const li = element("li", `${span(e.at)} ${e.lane}: ${e.text}`);
    if (from + i === at) li.className = "now";
    return li;
  }));
}
