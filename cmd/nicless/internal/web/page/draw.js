// Drawings on canvases: lines over time, a heat map, the cells of a ring, the lanes of a trace.
import { short, span } from "./words.js";

// color returns a colour of the style sheet, which has one for dark and one for light pages.
const color = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();

// prepare clears a canvas, and sets its pixels to those of the screen. Sizes are CSS pixels from here on.
function prepare(canvas) {
  const { clientWidth: width, clientHeight: height } = canvas;
  const scale = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  const to = canvas.getContext("2d");
  to.scale(scale, scale);
  to.font = "11px system-ui, sans-serif";
  to.textBaseline = "top";
  return { to, width, height };
}

// lines draws series of the same length over time, the newest at the right. most is the top of the scale; if
// it is left out, the greatest value is.
export function lines(canvas, series, most) {
  const { to, width, height } = prepare(canvas);
  const top = most ?? Math.max(1, ...series.flat());
  const slots = 120;
  series.forEach((values, i) => {
    to.strokeStyle = color(i % 2 ? "second" : "main");
    to.setLineDash(i > 1 ? [4, 3] : []);
    to.beginPath();
    values.slice(-slots).forEach((v, k, shown) => {
      to.lineTo(width - ((shown.length - 1 - k) * width) / (slots - 1), height - 2 - ((height - 18) * v) / top);
    });
    to.stroke();
  });
  to.fillStyle = color("text");
  to.fillText(most === 1 ? "100 %" : short(top), 4, 3);
}

// The rows of the heat map are half decades from 100 ns to 100 ms.
const heatRows = 12;
const heatRow = (ns) => Math.min(heatRows - 1, Math.max(0, Math.floor(2 * (Math.log10(ns) - 2))));

// heat draws samples of latencies, one column each, the newest at the right. The darker a cell is, the more
// latencies of the sample are there.
export function heat(canvas, samples) {
  const { to, width, height } = prepare(canvas);
  const slots = 60, left = 52;
  const cellWidth = (width - left) / slots, cellHeight = height / heatRows;
  samples.slice(-slots).forEach((sample, k, shown) => {
    const counts = new Array(heatRows).fill(0);
    for (const ns of sample) counts[heatRow(ns)]++;
    counts.forEach((n, row) => {
      if (!n) return;
      to.globalAlpha = 0.25 + (0.75 * n) / sample.length;
      to.fillStyle = color("main");
      to.fillRect(width - (shown.length - k) * cellWidth, height - (row + 1) * cellHeight, cellWidth - 1, cellHeight - 1);
    });
  });
  to.globalAlpha = 1;
  to.fillStyle = color("text");
  for (let row = 0; row < heatRows; row += 2) {
    to.fillText(span(10 ** (2 + row / 2)), 4, height - (row + 1) * cellHeight);
  }
}

// cells returns how the entries of a ring are drawn: how many cells are in a line, and their size.
export function cellsOf(canvas, size) {
  const width = canvas.clientWidth, height = canvas.clientHeight - 16;
  let side = Math.min(16, Math.sqrt((width * height) / size));
  while (side > 1 && Math.floor(width / side) * Math.floor(height / side) < size) side -= 0.25;
  return { side, inLine: Math.max(1, Math.floor(width / side)) };
}

// ring draws each entry of a ring as a cell. state says what is in a slot; the cursor is a slot.
export function ring(canvas, size, state, marks, cursor) {
  const { to } = prepare(canvas);
  const { side, inLine } = cellsOf(canvas, size);
  const fill = { waits: "main", done: "line", bad: "bad" };
  const at = (slot) => [(slot % inLine) * side, Math.floor(slot / inLine) * side];
  for (let slot = 0; slot < size; slot++) {
    const [x, y] = at(slot), name = fill[state(slot)];
    to.fillStyle = to.strokeStyle = color(name ?? "line");
    const gap = side > 4 ? 1 : 0;
    if (name) to.fillRect(x, y, side - gap, side - gap);
    else if (gap) to.strokeRect(x + 0.5, y + 0.5, side - 2, side - 2);
  }
  to.lineWidth = 2;
  to.fillStyle = to.strokeStyle = color("text");
  for (const [letter, slot] of marks) {
    const [x, y] = at(slot);
    to.strokeRect(x, y, side, side);
    if (side >= 10) to.fillText(letter, x + 3, y + 2);
  }
  to.setLineDash([2, 2]);
  const [x, y] = at(cursor);
  to.strokeRect(x + 1, y + 1, side - 2, side - 2);
}

// lanes draws events as marks, one line for each lane, and a line at the moment that is chosen.
export function lanes(canvas, names, events, moment) {
  const { to, width, height } = prepare(canvas);
  const left = 76, first = Math.min(...events.map((e) => e.at)), last = Math.max(...events.map((e) => e.at));
  const x = (at) => left + ((width - left - 8) * (at - first)) / Math.max(last - first, 1);
  const y = (lane) => (height * names.indexOf(lane)) / names.length;
  to.fillStyle = color("text");
  for (const name of names) to.fillText(name, 4, y(name) + 4);
  for (const e of events) {
    to.fillStyle = color(e.kind === "fail" || e.kind === "explanation" ? "bad" : "main");
    to.fillRect(x(e.at) - 1, y(e.lane) + 3, 3, height / names.length - 6);
  }
  to.fillStyle = color("second");
  to.fillRect(x(moment), 0, 1, height);
}
