// The table of queues: sorted and filtered by the server, which sends only the rows that are shown.
import { byId, element, hex, short } from "./words.js";

const columns = { queue: "queue", program: "program", type: "type", state: "state", peer: "peer", todo: "to do",
  receives: "receives", wqes: "WQE/s", bytes: "B/s" };
let found = 0;

export function startQueues(change, view) {
  const heads = Object.entries(columns).map(([name, title]) => {
    const button = element("button", title);
    button.type = "button";
    button.addEventListener("click", () => {
      const numeric = !["program", "type", "state"].includes(name);
      change({ sort: name, down: view.sort === name ? !view.down : numeric, from: 0 });
      for (const th of heads) th.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", view.down ? "descending" : "ascending");
    });
    const head = element("th", button);
    return head;
  });
  byId("columns").replaceChildren(...heads, element("th", "note"));
  let wait = 0;
  byId("filter").addEventListener("input", () => {
    clearTimeout(wait);
    wait = setTimeout(() => change({ filter: byId("filter").value, from: 0 }), 200);
  });
  byId("choice").addEventListener("submit", (event) => event.preventDefault());
  byId("back").addEventListener("click", () => change({ from: Math.max(0, view.from - view.rows) }));
  byId("on").addEventListener("click", () => {
    if (view.from + view.rows < found) change({ from: view.from + view.rows });
  });
  byId("rows").addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button) change({ queue: Number(button.dataset.queue) });
  });
}

export function showQueues(frame, view) {
  found = frame.found;
  const to = view.from + frame.rows.length;
  byId("found").textContent = frame.rows.length ? `${view.from + 1} to ${to} of ${found}` : `0 of ${found}`;
  byId("back").disabled = view.from === 0;
  byId("on").disabled = to >= found;
  const focused = document.activeElement?.dataset.queue; // rows are new, and a keyboard stays where it was
  byId("rows").replaceChildren(...frame.rows.map((q) => line(q, view)));
  if (focused) byId("rows").querySelector(`button[data-queue="${focused}"]`)?.focus();
}

function line(q, view) {
  const open = element("button", hex(q.number));
  open.type = "button";
  open.dataset.queue = q.number;
  const note = q.wait ?? (q.failed ? "a WQE has failed" : "");
  const cells = [open, q.program, q.transport, q.state, q.peer ? hex(q.peer) : "", q.announced, q.posted,
    short(q.rate.WQEs), short(q.rate.Bytes), note];
  const tr = element("tr", ...cells.map((c) => element("td", c)));
  tr.setAttribute("aria-selected", q.number === view.queue);
  if (q.failed || q.state === "ERR" || q.state === "SQE") tr.className = "trouble";
  return tr;
}
