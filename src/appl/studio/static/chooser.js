// A class by a few letters of its name, or a new one: for more classes than there are keys.
import { S, chosen, canWrite } from "./state.js";
import { give } from "./act.js";

const dialog = document.getElementById("chooser"), field = document.getElementById("chooser-name");
const list = document.getElementById("chooser-list");
let at = 0;

function matches() {
  const text = field.value.trim().toLowerCase();
  const names = S.pile.classes.map((c) => c.name);
  const found = names.filter((name) => name.toLowerCase().includes(text));
  found.sort((a, b) => b.toLowerCase().startsWith(text) - a.toLowerCase().startsWith(text));
  const isNew = text && !names.some((name) => name.toLowerCase() === text);
  return [...found.map((name) => ({ name, isNew: false })), ...(isNew ? [{ name: field.value.trim(), isNew }] : [])];
}

function draw() {
  const found = matches();
  at = Math.max(0, Math.min(at, found.length - 1));
  list.replaceChildren(...found.slice(0, 50).map(({ name, isNew }, i) => {
    const row = document.createElement("li");
    row.setAttribute("role", "option");
    row.setAttribute("aria-selected", i === at);
    row.textContent = isNew ? `New class: ${name}` : name;
    row.addEventListener("click", () => take(name));
    return row;
  }));
}

function take(name) {
  dialog.close();
  document.getElementById("grid").focus();
  give(name);
}

export function openChooser() {
  const images = chosen();
  if (!images.length || !canWrite()) return;
  document.getElementById("chooser-count").textContent = images.length === 1 ? `image ${images[0] + 1}` : `${images.length} images`;
  field.value = "";
  at = 0;
  draw();
  dialog.showModal();
  field.focus();
}

field.addEventListener("input", () => { at = 0; draw(); });
field.addEventListener("keydown", (event) => {
  event.stopPropagation();
  if (event.key === "ArrowDown") at++;
  else if (event.key === "ArrowUp") at--;
  else if (event.key === "Enter") {
    const found = matches()[at];
    event.preventDefault();
    return found && take(found.name);
  } else return undefined;
  event.preventDefault();
  return draw();
});
