// The decoder: the server explains pasted text as `nicless decode` does.
import { byId, call } from "./words.js";

export function startDecoder() {
  byId("decode-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      const { text } = await call("decode", { method: "POST", body: byId("text").value });
      byId("result").textContent = text;
    } catch (err) {
      byId("result").textContent = err.message;
    }
  });
}
