// The slider between before and after, and which rows of the header are shown.
"use strict";
const slider = document.getElementById("slider");
const after = document.getElementById("after");
const mark = document.getElementById("mark");
const all = document.getElementById("all-rows");

function cut() {
  after.style.setProperty("clip-path", `inset(0 ${100 - slider.value}% 0 0)`);
}

if (slider) {
  slider.addEventListener("input", cut);
  cut();
}
if (mark) mark.addEventListener("change", () => { document.getElementById("changed").hidden = !mark.checked; });
if (all) all.addEventListener("change", () => document.getElementById("header").classList.toggle("only-changes", !all.checked));
