// A policy from the rules of another program: it fills the editor, and says what became of each rule.
"use strict";
const rulesFile = document.getElementById("rules");
const imported = document.getElementById("imported");
const outcomes = { carried: "carried over", weaker: "weaker than the preset, which holds", not_carried_over: "without an equivalent", unnamed: "kept there without being named; the preset holds" };

function line(kind, text) {
  const made = document.createElement(kind);
  made.textContent = text;
  return made;
}

rulesFile.addEventListener("change", async () => {
  const [file] = rulesFile.files;
  if (!file) return;
  const form = document.getElementById("questions");
  const fields = new URLSearchParams({ rules: await file.text(), file: file.name, export: form.elements.export.value, name: form.elements.name.value });
  const answer = await fetch("/new/import", { method: "POST", body: fields });
  const found = await answer.json().catch(() => ({ error: "The file cannot be read." }));
  imported.hidden = false;
  if (found.error) { imported.replaceChildren(line("p", found.error)); return; }
  window.policyEditor.editor.setValue(found.text);
  window.policyEditor.show([]);
  document.getElementById("policy-text").dispatchEvent(new Event("edited"));
  const parts = [line("p", `${found.rules} rules of ${found.language}.`)];
  for (const [name, title] of Object.entries(outcomes)) {
    const listed = found.told[name];
    if (!listed.length) continue;
    const details = document.createElement("details");
    const items = document.createElement("ul");
    items.append(...listed.map((one) => line("li", one)));
    details.append(line("summary", `${listed.length} ${title}`), items);
    parts.push(details);
  }
  imported.replaceChildren(...parts);
});
