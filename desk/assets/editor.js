// The editor of a policy: completion from the JSON Schema, problems of `validate` as one types.
"use strict";
const area = document.getElementById("policy-text");
const list = document.getElementById("policy-problems");
const form = area.form;
const editor = CodeMirror.fromTextArea(area, {
  mode: "yaml", inputStyle: "contenteditable", lineNumbers: true, lineWrapping: true, tabSize: 2, screenReaderLabel: "Policy (YAML)",
  // Tab leaves the editor: a keyboard must not be caught in it.
  extraKeys: { Tab: false, "Shift-Tab": false, "Ctrl-Space": (cm) => loaded.then(() => cm.showHint({ hint: complete, completeSingle: false })) },
});
let schema = null;
let timer = 0;
let marks = [];

const loaded = fetch("/schema").then((answer) => answer.json()).then((found) => { schema = found; });

function resolved(node) {
  let found = node;
  while (found && (found.allOf || found.$ref)) {
    const name = (found.$ref || (found.allOf[0] || {}).$ref || "").split("/").pop();
    if (!name) break;
    found = schema.definitions[name];
  }
  return found || {};
}

function variants(node) {
  const found = resolved(node);
  return [found, ...(found.anyOf || []).map(resolved)];
}

function pathAt(cm, line) {
  // The keys that the lines above, each less indented, put this line under.
  const path = [];
  let indent = cm.getLine(line).search(/\S|$/);
  for (let number = line - 1; number >= 0 && indent > 0; number -= 1) {
    const found = /^(\s*)([A-Za-z_0-9]+):/.exec(cm.getLine(number));
    if (found && found[1].length < indent) {
      indent = found[1].length;
      path.unshift(found[2]);
    }
  }
  return path;
}

function nodeAt(path) {
  return path.reduce((nodes, key) => nodes.flatMap((node) => node.properties && node.properties[key] ? variants(node.properties[key]) : []), [schema]);
}

function complete(cm) {
  const cursor = cm.getCursor();
  const before = cm.getLine(cursor.line).slice(0, cursor.ch);
  const value = /^\s*([A-Za-z_0-9]+):\s*(\S*)$/.exec(before);
  const word = value ? value[2] : /[A-Za-z_0-9.-]*$/.exec(before)[0];
  const nodes = schema ? nodeAt(pathAt(cm, cursor.line)) : [];
  const names = nodes.flatMap((node) => Object.keys(node.properties || {}));
  const inside = value ? nodes.flatMap((node) => node.properties && node.properties[value[1]] ? variants(node.properties[value[1]]) : []) : [];
  const values = inside.flatMap((node) => node.enum || (node.const !== undefined ? [node.const] : []) || []).concat(inside.some((node) => node.type === "boolean") ? ["true", "false"] : []);
  const all = value ? values.map(String) : names.map((name) => `${name}: `);
  return {
    list: all.filter((one) => one.startsWith(word)).sort(),
    from: CodeMirror.Pos(cursor.line, cursor.ch - word.length), to: cursor,
  };
}

function show(problems) {
  marks.forEach((mark) => mark.clear());
  editor.eachLine((line) => editor.removeLineClass(line, "background", "wrong"));
  marks = problems.map((one) => {
    editor.addLineClass(one.line - 1, "background", "wrong");
    const start = CodeMirror.Pos(one.line - 1, one.column - 1);
    return editor.markText(start, CodeMirror.Pos(one.line - 1, 1000), { className: "wrong-place" });
  });
  list.replaceChildren();
  if (!problems.length) return;
  const items = document.createElement("ul");
  items.className = "problems";
  problems.forEach((one) => {
    const item = document.createElement("li");
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = `Line ${one.line}, column ${one.column}: ${one.message}`;
    button.addEventListener("click", () => {
      editor.setCursor(one.line - 1, one.column - 1);
      editor.focus();
    });
    item.append(button);
    items.append(item);
  });
  list.append(items);
}

async function send(fields) {
  const body = new URLSearchParams(fields);
  const answer = await fetch("/new/draft", { method: "POST", body });
  return answer.ok ? answer.json() : { problems: [] };
}

async function check() {
  const fields = { text: editor.getValue() };
  if (form.dataset.project) fields.project = form.dataset.project;
  for (const name of ["home", "name"]) if (form.elements[name]) fields[name] = form.elements[name].value;
  show((await send(fields)).problems);
}

editor.on("change", (cm, change) => {
  editor.save();
  if (change.origin === "setValue") return;
  area.dispatchEvent(new Event("edited"));
  clearTimeout(timer);
  timer = setTimeout(check, 400);
});
form.addEventListener("submit", () => editor.save());
window.policyEditor = { editor, show, send };
if (form.dataset.project) check();
