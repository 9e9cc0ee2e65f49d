// Numbers in words, and elements. Text from the engine is set as text only, never as HTML.

export const byId = (id) => document.getElementById(id);

// element makes an element with a text, or with children.
export function element(name, ...children) {
  const e = document.createElement(name);
  e.append(...children.map((c) => (c instanceof Node ? c : String(c))));
  return e;
}

// short writes a count or a rate in few characters.
export function short(v) {
  if (v < 10 && v !== Math.round(v)) return v.toFixed(1);
  for (const unit of ["", "k", "M", "G", "T"]) {
    if (v < 999.5) return (v < 10 && unit ? v.toFixed(1) : Math.round(v)) + unit;
    v /= 1000;
  }
  return Math.round(v) + "P";
}

export const hex = (n) => "0x" + n.toString(16).padStart(6, "0");

// span writes a time that is given in nanoseconds.
export function span(ns) {
  for (const unit of ["ns", "us", "ms"]) {
    if (Math.abs(ns) < 1000) return (Math.abs(ns) < 10 ? Number(ns.toFixed(2)) : Math.round(ns)) + " " + unit;
    ns /= 1000;
  }
  return ns.toFixed(1) + " s";
}

// call asks the server, and returns its answer; it throws what the server says is wrong.
export async function call(path, options) {
  const answer = await fetch(path, options);
  const text = await answer.text();
  let value;
  try {
    value = JSON.parse(text);
  } catch {
    throw new Error(text.trim() || answer.statusText);
  }
  if (!answer.ok) throw new Error(value.error);
  return value;
}
