// Decisions on whole objects can be withdrawn until the next run.
"use strict";
const { base } = document.getElementById("decisions").dataset;
const failure = document.getElementById("review-error");
document.querySelectorAll(".withdraw").forEach((button) => button.addEventListener("click", async () => {
  const decisions = { [button.dataset.name]: "withdraw" };
  const answer = await fetch(`${base}/decide`, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ decisions }) });
  if (answer.ok) { location.reload(); return; }
  failure.textContent = (await answer.json()).error;
  failure.hidden = false;
}));
