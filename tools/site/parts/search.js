
// Searches the index in the page. Results are set as text and addresses of this site, never as HTML.
"use strict";

const most = 60;
const byId = (id) => document.getElementById(id);
const { pages, sections, words } = JSON.parse(byId("index").textContent);
const names = Object.keys(words);

// withWord returns, for each section that has a word with this beginning, how well: 2 if the word is whole.
function withWord(beginning) {
  const found = new Map();
  for (const name of names) {
    if (!name.startsWith(beginning)) continue;
    let number = 0;
    for (const distance of words[name].split(" ")) {
      number += parseInt(distance, 36);
      found.set(number, Math.max(found.get(number) || 0, name === beginning ? 2 : 1));
    }
  }
  return found;
}

// search returns numbers of sections, the best first: whole words count more, and so do words of headings.
function search(query) {
  const terms = query.toLowerCase().match(/[\p{L}\p{N}_]{2,}/gu) || [];
  if (terms.length === 0) return [];
  const found = terms.map(withWord);
  const scored = [];
  for (const number of found[0].keys()) {
    if (!found.every((f) => f.has(number))) continue;
    const [page, , heading] = sections[number];
    let score = 0;
    terms.forEach((term, i) => {
      score += found[i].get(number);
      if (heading.toLowerCase().includes(term)) score += 4;
      if (pages[page][1].toLowerCase().includes(term)) score += 3;
    });
    scored.push([score, number]);
  }
  return scored.sort((a, b) => b[0] - a[0] || a[1] - b[1]).map(([, number]) => number);
}

function show() {
  const list = search(byId("query").value);
  const items = list.slice(0, most).map((number) => {
    const [page, anchor, heading] = sections[number];
    const [address, title] = pages[page];
    const item = document.createElement("li");
    const link = document.createElement("a");
    link.href = address + (anchor ? "#" + anchor : "");
    link.textContent = heading || title;
    const where = document.createElement("small");
    where.textContent = ` ${title} · ${address}`;
    item.append(link, where);
    return item;
  });
  byId("results").replaceChildren(...items);
  const more = list.length > most ? `, the first ${most} of them` : "";
  byId("count").textContent = `${list.length} sections${more}`;
}

byId("query").addEventListener("input", show);
byId("form").addEventListener("submit", (e) => { e.preventDefault(); show(); });
const asked = new URLSearchParams(location.search).get("q");
if (asked) {
  byId("query").value = asked;
  show();
}
