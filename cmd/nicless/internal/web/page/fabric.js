// The fabric as a graph: clients, their queues as far as the table shows them, links and peers.
import { byId, hex } from "./words.js";

const rowHeight = 26, boxWidth = 170, gap = 90;

function svg(name, attributes, text) {
  const e = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, value);
  if (text !== undefined) e.textContent = text;
  return e;
}

const cut = (text) => (text.length > 24 ? text.slice(0, 23) + "…" : text);

export function showFabric(frame) {
  const { columns, edges } = fabricOf(frame);
  draw(columns, edges);
}

// fabricOf returns the nodes of each column by their keys, and the edges between them. A queue has the number of
// the port that its packets take. Links of a pool have a port for each peer, and a new one after a repair, and the
// engine does not say whose a port is. So the queue is joined to the link only if there is just one, and to its
// port otherwise.
export function fabricOf(frame) {
  const clients = new Map(frame.clients?.map((c) => [c.number, { name: `${c.program} ${c.pid}`, bad: c.waiting > 0 }]));
  const queues = new Map(), peers = new Map(), edges = [];
  const reports = frame.links ?? [];
  for (const q of frame.rows) {
    queues.set(q.number, { name: `${hex(q.number)} ${q.transport} ${q.state}`, bad: q.failed || q.state === "ERR" });
    if (clients.has(q.client)) edges.push([0, q.client, 1, q.number]);
  }
  for (const q of frame.rows) {
    if (q.linked) {
      const key = reports.length === 1 ? "link 0" : `port ${q.port}`;
      if (!peers.has(key)) peers.set(key, { name: key, bad: false });
      edges.push([1, q.number, 2, key]);
    } else if (q.peer && queues.has(q.peer) && q.number < q.peer) {
      edges.push([1, q.number, 1, q.peer]);
    }
  }
  reports.forEach((link, i) => {
    peers.set(`link ${i}`, { name: link.Link, bad: false });
    for (const p of link.Peers ?? []) {
      peers.set(`peer ${i} ${p.Name}`, { name: `${p.Name} ${p.Up ? "up" : "down"}`, bad: !p.Up, inner: true });
    }
  });
  return { columns: [clients, queues, peers], edges };
}

function draw(columns, edges) {
  const place = (column, key) => {
    const row = [...columns[column].keys()].indexOf(key);
    return { x: column * (boxWidth + gap) + 1, y: row * rowHeight + 1 };
  };
  const parts = [];
  for (const [from, a, to, b] of edges) {
    const p = place(from, a), q = place(to, b), y1 = p.y + 11, y2 = q.y + 11, x1 = p.x + boxWidth;
    const x2 = from === to ? q.x + boxWidth : q.x; // queues of one device are joined at their right
    const bend = from === to ? x1 + 40 : (x1 + x2) / 2;
    parts.push(svg("path", { d: `M${x1} ${y1} C${bend} ${y1} ${bend} ${y2} ${x2} ${y2}` }));
  }
  columns.forEach((nodes, column) => {
    for (const [key, node] of nodes) {
      const { x, y } = place(column, key), inset = node.inner ? 12 : 0; // peers are below their link
      parts.push(svg("rect", { x: x + inset, y, width: boxWidth - inset, height: 22, rx: 4, class: node.bad ? "bad" : "" }));
      parts.push(svg("text", { x: x + inset + 6, y: y + 15 }, cut(node.name)));
    }
  });
  const height = Math.max(1, ...columns.map((c) => c.size)) * rowHeight + 2;
  const graph = byId("graph");
  graph.setAttribute("width", 3 * boxWidth + 2 * gap + 2);
  graph.setAttribute("height", height);
  graph.replaceChildren(...parts);
}
