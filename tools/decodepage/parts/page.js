
// Connects the page to the decoder inside it, which defines niclessAnswer. Answers are set as text, never as
// HTML.
"use strict";

// The whole file is in memory here, unlike in the command, and the page stands still while it is decoded: some
// 15 s for so many bytes.
const mostBytes = 32 << 20;

// Texts of more characters take long enough that the page says so.
const long = 256 << 10;

const examples = {
  "an error of libmlx5": `mlx5: cn10: got completion with error:
00000000 00000000 00000000 00000000
00000000 00000000 00000000 00000000
00000002 00000000 00000000 00000000
00000000 00008813 10012abe 0dd0c1d3
`,
  "a WQE in dmesg": `WQE DUMP: WQ size 1024 WQ cur size 0, WQE index 0xf, len: 64
00000000: 00 00 0f 0a 00 1d bb 03 00 00 00 08 00 00 00 00
00000010: 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
00000020: 00 00 00 2b 00 08 00 00 00 00 00 05 9e e3 08 00
00000030: 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
`,
  "a line of UCX": "[1] ib_mlx5_log.c:170 Transport retry count exceeded on mlx5_0:1/RoCE (synd 0x15 vend 0x81)\n",
  "a status": "IBV_WC_RNR_RETRY_EXC_ERR\n",
};

const byId = (id) => document.getElementById(id);
const headings = /^(lines? \d|syndrome |vendor byte|probable causes|next:|note:)/;
const faults = /^(wrong|suspicious)/;

// show sets the answer, line by line, so that headings can be found at a glance.
function show(text) {
  const lines = text.split(/(?<=\n)/).map((line) => {
    const fault = faults.test(line);
    if (!fault && !headings.test(line)) return document.createTextNode(line);
    const heading = document.createElement("b");
    heading.textContent = line;
    if (fault) heading.className = "bad";
    return heading;
  });
  byId("result").replaceChildren(...lines);
}

let decodes = 0;

async function decode(text) {
  const number = ++decodes;
  if (text.length > long) {
    show("Decoding …");
    await new Promise((painted) => requestAnimationFrame(() => setTimeout(painted)));
    if (number !== decodes) return; // another text has come
  }
  try {
    show(niclessAnswer(text));
  } catch (err) {
    show("The decoder has stopped; load the page again. " + err);
  }
}

async function start() {
  if (!("DecompressionStream" in window)) throw new Error("this browser has no DecompressionStream");
  const packed = Uint8Array.from(atob(byId("module").textContent), (c) => c.charCodeAt(0));
  const module = new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip")));
  const go = new Go();
  const { instance } = await WebAssembly.instantiate(await module.arrayBuffer(), go.importObject);
  go.run(instance); // waits for calls for ever
  byId("decode").disabled = false;
  if (byId("text").value) decode(byId("text").value);
  else show("");
}

const ready = () => !byId("decode").disabled;

byId("form").addEventListener("submit", (e) => {
  e.preventDefault();
  if (ready()) decode(byId("text").value);
});
byId("text").addEventListener("keydown", (e) => {
  if (e.key !== "Enter" || !(e.ctrlKey || e.metaKey)) return;
  e.preventDefault();
  if (ready()) decode(byId("text").value);
});
byId("text").addEventListener("paste", () => setTimeout(() => ready() && decode(byId("text").value)));
byId("file").addEventListener("change", async (e) => {
  const file = e.target.files[0];
  if (!file || !ready()) return;
  if (file.size > mostBytes) {
    show(`The file has ${file.size} bytes; the page reads at most ${mostBytes}. ` +
      "The command nicless decode has no limit.");
    return;
  }
  const text = await file.text();
  e.target.value = "";
  decode(text);
});
for (const [name, text] of Object.entries(examples)) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = name;
  button.addEventListener("click", () => {
    byId("text").value = text;
    if (ready()) decode(text);
  });
  byId("examples").append(button);
}
start().catch((err) => show("The decoder could not be loaded: " + err));
