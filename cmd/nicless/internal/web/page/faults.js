// Rules of faults, which the page can switch if the server lets it.
import { byId, call, element } from "./words.js";

let controlled = false;

export function startFaults() {
  byId("rules-form").addEventListener("submit", (event) => {
    event.preventDefault();
    set(byId("rules").value);
  });
  byId("rules-off").addEventListener("click", () => set(""));
}

async function set(text) {
  try {
    report(await call("rules", { method: "POST", body: text }));
  } catch (err) {
    byId("rules-text").textContent = err.message;
  }
}

function report(rules) {
  byId("rules-text").textContent = rules.on ? "The rules are on." : "No rules are on.";
  byId("acted").replaceChildren(...rules.rules.map((r) => element("li", `${r.rule}: acted ${r.acted} times`)));
}

export function showFaults(frame) {
  if (!frame.control) return;
  byId("read-only").hidden = true;
  byId("rules-form").hidden = false;
  if (!controlled) {
    controlled = true;
    call("rules").then((rules) => {
      if (rules.on) byId("rules").value = rules.text;
      report(rules);
    }, (err) => (byId("rules-text").textContent = err.message));
  } else if (byId("acted").childElementCount) {
    call("rules").then(report, () => {}); // counts only; a failure is shown when something is switched
  }
}
