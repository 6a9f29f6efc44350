// The policy beside the questions follows the answers, until somebody edits it.
"use strict";
const questions = document.getElementById("questions");
const follow = document.getElementById("follow");
let followed = true;
let asked = 0;

async function draw() {
  if (!followed) return;
  const fields = new FormData(questions);
  fields.delete("text");
  asked += 1;
  const number = asked;
  const found = await window.policyEditor.send(fields);
  // An answer to an earlier question may come later.
  if (!followed || number !== asked) return;
  if (found.text !== undefined) window.policyEditor.editor.setValue(found.text);
  window.policyEditor.show(found.problems);
}

questions.addEventListener("change", draw);
questions.elements.name.addEventListener("input", draw);
document.getElementById("policy-text").addEventListener("edited", () => {
  followed = false;
  follow.hidden = false;
});
follow.addEventListener("click", () => {
  followed = true;
  follow.hidden = true;
  draw();
});
