// The queue: one item at a time, decided with one key; decisions are sent while the next one is shown.
"use strict";
const queue = document.getElementById("queue");
const { base } = queue.dataset;
const failure = document.getElementById("review-error");
const labels = { keep: "Keep (K)", blank: "Blank (B)", quarantine: "Quarantine (Q)", release: "Release (R)", chance: "By chance (C)" };
const keys = { k: "keep", b: "blank", q: "quarantine", r: "release", c: "chance" };
let items = [];
let place = 0;
let waiting = {};
let reasons = {};
let sending = false;
let counts = null;
let undone = [];
const decided = new Set();

function find(id) { return document.getElementById(id); }

async function load() {
  const [first, second] = await Promise.all([fetch(`${base}/queue`), fetch(`${base}/others`)]);
  find("queue-wait").hidden = true;
  if (!first.ok || !second.ok) {
    const found = await (first.ok ? second : first).json().catch(() => ({}));
    fail(found.error || "The session has ended. Open the desk again.");
    return;
  }
  const { items: listed, counts } = await first.json();
  const { findings, sample } = await second.json();
  items = [
    ...findings.map((one) => ({ ...one, location: one.title, choices: one.choices.map(([verdict]) => verdict) })),
    ...listed.map((one) => ({ ...one, choices: ["keep", "blank", "quarantine"], before: one.has_before ? `${base}/item/${one.name}/before` : "", after: one.has_after ? `${base}/item/${one.name}/after` : "", object: one.first })),
    ...sample.map((one) => ({ name: `object-${one.object}`, rule: "sample", location: "An object of the sample", text: "", choices: ["release", "quarantine"], after: one.image ? `${base}/frame/${one.object}` : "", object: one.object, image: one.image })),
  ].filter((one) => !decided.has(one.name));
  place = 0;
  show();
  tell(counts);
}

function picture(id, address) {
  find(`box-${id}`).hidden = !address;
  const image = find(`item-${id}`);
  if (address) image.src = address; else image.removeAttribute("src");
}

function show() {
  const item = items[place];
  find("queue-item").hidden = !item;
  find("queue-empty").hidden = Boolean(item);
  if (!item) return;
  find("item-rule").textContent = item.rule;
  find("item-location").textContent = item.location;
  find("item-note").textContent = [item.objects > 1 ? `In ${item.objects} objects.` : "", item.note || "", `${place + 1} of ${items.length} here.`].join(" ");
  const text = find("item-text");
  text.hidden = !item.text;
  text.textContent = item.text + (item.cut ? "…" : "");
  picture("before", item.before);
  picture("after", item.after);
  const choices = item.choices.map((verdict) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = labels[verdict];
    button.addEventListener("click", () => decide(verdict));
    return button;
  });
  if (item.object !== undefined) {
    const link = document.createElement("a");
    link.className = "button";
    link.textContent = item.image ? "Boxes on the whole image, header (X)" : "Its header (X)";
    link.href = `${base}/image/${item.object}`;
    choices.push(link);
  }
  find("item-choices").replaceChildren(...choices);
  const next = items[place + 1];
  for (const address of next ? [next.before, next.after] : []) if (address) new Image().src = address;
}

function fail(text) {
  failure.textContent = text;
  failure.hidden = false;
}

function tell(found) {
  counts = found;
  for (const name of ["undecided", "findings", "sampled", "decided", "requeued", "quarantined", "left_out"]) find(`count-${name}`).textContent = counts[name].toLocaleString("en-US");
  find("left-out").hidden = !counts.left_out;
  find("approve").disabled = !counts.approvable;
  find("again").disabled = !counts.requeued;
}

// The server counts when the page is opened; a decision changes the counts by what is known of it.
function counted(item, by) {
  if (!counts) return;
  const name = item.rule === "sample" ? "sampled" : item.name.includes("-") ? "findings" : "undecided";
  tell({ ...counts, [name]: Math.max(counts[name] - by, 0), decided: Math.max(counts.decided + by, 0) });
}

function decide(verdict) {
  const item = items[place];
  if (!item || !item.choices.includes(verdict)) return;
  if (verdict === "chance") {
    const reason = window.prompt("Why is this value there by chance?");
    if (!reason) return;
    reasons[item.name] = reason;
  }
  const scope = find("scope");
  item.scope = scope.value;
  // For one decision only: the next one begins with its item alone.
  scope.value = "";
  waiting[item.name] = { verdict, scope: item.scope };
  decided.add(item.name);
  undone.push(item);
  counted(item, 1);
  items.splice(place, 1);
  if (place >= items.length) place = 0;
  show();
  send();
}

async function send() {
  if (sending || !Object.keys(waiting).length) return;
  sending = true;
  const [{ scope }] = Object.values(waiting);
  const decisions = {};
  for (const [name, one] of Object.entries(waiting)) {
    if (one.scope !== scope) continue;
    decisions[name] = one.verdict;
    delete waiting[name];
  }
  const body = JSON.stringify({ decisions, reasons: Object.fromEntries(Object.entries(reasons).filter(([name]) => name in decisions)), scope });
  try {
    const answer = await fetch(`${base}/decide`, { method: "POST", headers: { "Content-Type": "application/json" }, body });
    const found = await answer.json();
    if (!answer.ok) throw new Error(found.error);
    tell({ ...counts, requeued: found.objects, approvable: counts.approvable && !found.objects });
    failure.hidden = true;
    find("saved").textContent = "Every decision is stored.";
  } catch (error) {
    Object.keys(decisions).forEach((name) => decided.delete(name));
    fail(`Not stored: ${error.message}`);
    load();
  }
  sending = false;
  if (Object.keys(waiting).length) send(); else if (scope || !items.length) load();
}

function withdraw() {
  const item = undone.pop();
  if (!item || sending) return;
  if (!item.choices.includes("keep") && !item.name.startsWith("object-")) return;
  delete waiting[item.name];
  decided.delete(item.name);
  items.splice(place, 0, item);
  counted(item, -1);
  show();
  waiting[item.name] = { verdict: "withdraw", scope: item.scope };
  send();
}

async function finish(path) {
  const answer = await fetch(`${base}/${path}`, { method: "POST" });
  if (answer.ok) { location.assign(base.replace(/review$/, "run")); return; }
  fail((await answer.json().catch(() => ({}))).error || "It could not be started. Open the page again.");
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey || /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) return;
  const key = event.key.toLowerCase();
  if (keys[key]) decide(keys[key]);
  else if (key === "n" && items.length) { place = (place + 1) % items.length; show(); }
  else if (key === "p" && items.length) { place = (place + items.length - 1) % items.length; show(); }
  else if (key === "u") withdraw();
  else if (key === "s") { const scope = find("scope"); scope.selectedIndex = (scope.selectedIndex + 1) % scope.options.length; }
  else if (key === "x" && items[place] && items[place].object !== undefined) location.assign(`${base}/image/${items[place].object}`);
  else return;
  event.preventDefault();
});
find("scope").addEventListener("change", () => find("scope").blur());
find("approve").addEventListener("click", () => finish("approve"));
find("again").addEventListener("click", () => finish("run"));
load();
