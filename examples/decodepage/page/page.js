// Connects the page to decode.wasm, which defines niclessDecode and niclessExplain. Results are
// set as text, never as HTML.
"use strict";

// The whole file is in memory here, unlike in the command.
const mostBytes = 64 << 20;

const byId = (id) => document.getElementById(id);
const show = (text) => { byId("result").textContent = text; };

async function start() {
  const go = new Go();
  const wasm = await WebAssembly.instantiateStreaming(fetch("decode.wasm"), go.importObject);
  go.run(wasm.instance); // waits for calls for ever
  byId("decode").disabled = byId("explain").disabled = false;
  show("");
}

byId("decode").addEventListener("click", () => show(niclessDecode(byId("text").value)));
byId("explain").addEventListener("click", () => show(niclessExplain(byId("words").value)));
byId("words").addEventListener("keydown", (e) => { if (e.key === "Enter") byId("explain").click(); });
byId("file").addEventListener("change", async (e) => {
  const file = e.target.files[0];
  if (!file) return;
  if (file.size > mostBytes) {
    show(`The file has ${file.size} bytes; the page reads at most ${mostBytes}. The command nicless decode has no limit.`);
    return;
  }
  show(niclessDecode(await file.text()));
});
start().catch((err) => show("The decoder could not be loaded: " + err));
