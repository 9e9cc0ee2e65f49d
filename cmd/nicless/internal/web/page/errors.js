// What went wrong, the newest first.
import { byId, element, hex } from "./words.js";

export function showErrors(frame) {
  const list = frame.errors.map((e) => element("li", `${new Date(e.time).toLocaleTimeString()} ${e.client}: ` +
    (e.queue ? `queue ${hex(e.queue)}, index ${e.index}: ` : "") + `${e.text} (${e.code})`));
  byId("error-list").replaceChildren(...(list.length ? list : [element("li", "none")]));
}
