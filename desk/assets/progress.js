// Progress by server-sent events; the page is loaded again when the work has ended.
"use strict";
const live = document.getElementById("live");
const number = new Intl.NumberFormat("en-US");

function element(name, text, className) {
  const made = document.createElement(name);
  made.textContent = text;
  if (className) made.className = className;
  return made;
}

function fill(id, children) {
  const found = document.getElementById(id);
  if (found) found.replaceChildren(...children);
}

function say(id, text) {
  document.getElementById(id).textContent = text || "";
}

function show(facts) {
  const bar = document.getElementById("live-bar");
  say("live-stage", facts.stage);
  say("live-rate", facts.rate);
  say("live-left", facts.left);
  say("live-count", facts.total ? `${number.format(facts.done)} of ${number.format(facts.total)}.` : facts.done ? `${number.format(facts.done)} so far.` : "");
  if (facts.total) { bar.max = facts.total; bar.value = facts.done; } else bar.removeAttribute("value");
  fill("live-finished", (facts.finished || []).map(([name, objects, time]) => element("li", `${name}: ${number.format(objects)} in ${time}`)));
  fill("live-messages", (facts.messages || []).map((text) => element("li", text)));
  fill("live-outcomes", facts.outcomes.map(([name, count]) => {
    const tile = document.createElement("div");
    tile.append(element("dt", name.charAt(0).toUpperCase() + name.slice(1)), element("dd", number.format(count)));
    return tile;
  }));
  const box = document.getElementById("live-reasons-box");
  if (box) box.hidden = !facts.reasons.length;
  fill("live-reasons", facts.reasons.map(([outcome, rule, count]) => {
    const row = document.createElement("tr");
    const first = document.createElement("td");
    first.append(element("span", outcome, `badge ${outcome}`));
    const second = document.createElement("td");
    second.append(element("code", rule));
    row.append(first, second, element("td", number.format(count), "n"));
    return row;
  }));
}

if (!live.hidden) {
  const source = new EventSource(live.dataset.events);
  source.addEventListener("message", (event) => {
    const facts = JSON.parse(event.data);
    if (facts.busy) { show(facts); return; }
    source.close();
    location.replace(location.pathname);
  });
}
