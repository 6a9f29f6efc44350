// One staged image: its boxes are decisions, each stored when it is drawn.
"use strict";
const drawing = document.getElementById("drawing");
const { base, object } = drawing.dataset;
const frame = Number(drawing.dataset.frame);
const list = document.getElementById("boxes");
const failure = document.getElementById("review-error");
const saved = document.getElementById("saved");
const pattern = /^pixels\/frame (\d+)\/box (\d+),(\d+),(\d+),(\d+)$/;

async function decide(decisions) {
  failure.hidden = true;
  const answer = await fetch(`${base}/decide`, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ decisions }) });
  const found = await answer.json().catch(() => ({ error: "The session has ended" }));
  if (!answer.ok) {
    failure.textContent = found.error;
    failure.hidden = false;
    return false;
  }
  saved.textContent = "Stored. The next run applies it.";
  return true;
}

const named = (box) => `box-${object}-${frame}-${box.l}-${box.t}-${box.r}-${box.b}`;
const located = (box) => `pixels/frame ${frame}/box ${box.l},${box.t},${box.r},${box.b}`;

function added(location, verdict) {
  const item = document.createElement("li");
  item.dataset.location = location;
  item.dataset.verdict = verdict;
  item.textContent = `${location}: ${verdict} `;
  list.append(item);
  dressed(item);
}

function dressed(item) {
  const found = pattern.exec(item.dataset.location);
  if (!found) return;
  const [, number, l, t, r, b] = found.map(Number);
  const box = { l, t, r, b, verdict: item.dataset.verdict, live: true };
  if (number === frame) boxes.boxes.push(box);
  const remove = document.createElement("button");
  remove.type = "button";
  remove.textContent = "Remove";
  remove.addEventListener("click", async () => {
    if (!await decide({ [`box-${object}-${number}-${l}-${t}-${r}-${b}`]: "withdraw" })) return;
    item.remove();
    boxes.boxes = boxes.boxes.filter((one) => one !== box);
    boxes.paint();
  });
  item.append(" ", remove);
}

async function changed(from, to) {
  const decisions = { [named(to)]: "blank" };
  if (from) decisions[named(from)] = "withdraw";
  const stored = await decide(decisions);
  if (stored) {
    if (from) {
      const old = [...list.children].find((one) => one.dataset.location === located(from));
      if (old) old.remove();
      boxes.boxes = boxes.boxes.filter((one) => located(one) !== located(to));
    }
    added(located(to), "blank");
  }
  boxes.paint();
}

const canvas = document.getElementById("canvas");
const boxes = new Boxes(drawing, document.getElementById("whole"), canvas, Number(drawing.dataset.rows), Number(drawing.dataset.columns), changed);
canvas.hidden = !drawing.dataset.live;
[...list.children].forEach(dressed);
boxes.paint();

const numbers = document.getElementById("by-numbers");
if (numbers) numbers.addEventListener("submit", (event) => {
  event.preventDefault();
  const fields = numbers.elements;
  changed(null, { l: Number(fields.left.value), t: Number(fields.top.value), r: Number(fields.right.value), b: Number(fields.bottom.value) });
});

document.getElementById("quarantine").addEventListener("click", async (event) => {
  if (await decide({ [`object-${object}`]: "quarantine" })) event.target.disabled = true;
});

const chosen = document.getElementById("frame");
if (chosen) chosen.addEventListener("change", () => location.assign(`?frame=${chosen.value}`));
