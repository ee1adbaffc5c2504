// Classes with their keys and counts, filters, the strip of examples, and what can be said.
import { S, on, tell, chosen, canWrite, NONE, CONFLICT, disagrees } from "./state.js";
import { arrange, layout } from "./grid.js";
import { home } from "./order.js";
import { openChooser } from "./chooser.js";
import { give, accept, none, skip, allLike } from "./act.js";

const $ = (id) => document.getElementById(id);
const number = (n) => n.toLocaleString("en");

function classRow(title, part, colour, key, n, nSaid, nAccepted) {
  const row = document.createElement("li"), button = document.createElement("button");
  button.className = `class c-${colour}`;
  button.setAttribute("aria-pressed", S.filters.class === part);
  button.innerHTML = '<kbd></kbd><i class="dot"></i><bdi></bdi><span class="n"></span><span class="share"><i></i></span>';
  const [kbd, , name, count, share] = button.children;
  kbd.textContent = key;
  kbd.hidden = !key;
  name.textContent = title;
  count.textContent = number(n) + (nSaid ? ` · ✓${number(nSaid)}` : "");
  count.title = `${number(n)} images, ${number(nSaid)} of them by your word`;
  share.firstChild.style.width = n ? `${(100 * nAccepted) / n}%` : "0";
  button.addEventListener("click", () => {
    S.filters.class = S.filters.class === part ? null : part;
    if (S.view !== "grid") (S.view = "grid"), (S.list = null), tell("view");
    else arrange(), drawClasses();
    closeDrawer();
  });
  row.append(button);
  return row;
}

export function drawClasses() {
  if (!S.pile) return;
  const { pile, said } = S, n = pile.classes.length;
  const counts = new Int32Array(n + 3), accepted = new Int32Array(n + 3), words = new Int32Array(n + 3);
  for (let image = 0; image < pile.n; image++) {
    const part = home(image);
    counts[part]++;
    if (pile.decision[image] === 0) accepted[part]++;
  }
  for (const [, word] of said) {
    if (word >= 0) words[word]++;
    if (word === NONE) words[n]++;
  }
  const rows = pile.classes.map((c, i) => classRow(c.name, i, `k${c.colour}`, i < 9 ? String(i + 1) : "", counts[i], words[i], accepted[i]));
  if (counts[n]) rows.push(classRow("None of these", n, "outside", "n", counts[n], words[n], 0));
  if (counts[n + 1]) rows.push(classRow("Not labelled yet", n + 1, "other", "", counts[n + 1], 0, 0));
  if (counts[n + 2]) rows.push(classRow("Unreadable", n + 2, "unreadable", "", counts[n + 2], 0, 0));
  $("classes").replaceChildren(...rows);
  const found = { open: pile.n - said.size, changed: S.changed.size, disagrees: 0, said: 0, conflict: 0 };
  for (const [image, word] of said) {
    if (word >= NONE) found.said++;
    if (word === CONFLICT) found.conflict++;
    if (disagrees(image)) found.disagrees++;
  }
  const decided = [0, 0, 0, 0, 0];
  for (const decision of pile.decision) decided[decision]++;
  for (const box of $("filters").querySelectorAll("[data-decision]")) {
    box.parentNode.lastElementChild.textContent = number(decided[box.dataset.decision]);
    box.parentNode.hidden = !pile.answer || (box.dataset.decision === "3" && !decided[3]);
  }
  for (const box of $("filters").querySelectorAll("[data-only]")) {
    box.parentNode.lastElementChild.textContent = number(found[box.dataset.only]);
    box.parentNode.hidden = box.dataset.only === "conflict" && !found.conflict && !box.checked;
  }
}

let stripOf = null;
function drawStrip() {
  const id = S.section ? S.section.id : -1, strip = $("strip");
  const key = `${S.view}/${id}/${S.pile ? S.pile.version : 0}`;
  if (key === stripOf) return;
  stripOf = key;
  strip.hidden = id < 0 || S.view === "map";
  if (id < 0) return;
  const { name, colour, examples } = S.pile.classes[id];
  const taught = [...S.said].filter(([, word]) => word === id).map(([image]) => image).slice(-12).reverse();
  const title = document.createElement("b");
  title.className = `c-k${colour}`;
  title.append(Object.assign(document.createElement("i"), { className: "dot" }), Object.assign(document.createElement("bdi"), { textContent: name }));
  const pictures = [...examples.slice(0, 24).map((i) => ["example", i]), ...taught.map((i) => ["pile", i])].map(([kind, i]) => {
    const picture = document.createElement("img");
    picture.src = `/pictures/${kind}/${i}/small`;
    picture.alt = `an example of ${name}`;
    picture.className = kind;
    return picture;
  });
  strip.replaceChildren(title, ...pictures);
}

function drawActions() {
  const images = chosen(), n = images.length;
  $("chosen").textContent = n === 0 ? "" : S.large >= 0 || !S.selected.size ? `image ${images[0] + 1}` : `${number(n)} selected`;
  $("actions").classList.toggle("many", S.selected.size > 0);
}

function drawButtons() {
  if (!S.pile) return;
  const button = (label, key, act, cls = "") => {
    const made = document.createElement("button");
    made.className = cls;
    made.append(...(cls.startsWith("class") ? [Object.assign(document.createElement("i"), { className: "dot" })] : []), Object.assign(document.createElement("bdi"), { textContent: label }));
    if (key) made.append(Object.assign(document.createElement("kbd"), { textContent: key }));
    made.disabled = !canWrite() && act !== allLike;
    made.addEventListener("click", act);
    return made;
  };
  const classes = S.pile.classes.slice(0, 9).map((c, i) => button(c.name, String(i + 1), () => give(c.name), `class c-k${c.colour}`));
  $("buttons").replaceChildren(...classes);
  $("verbs").replaceChildren(
    button("Accept", "a", accept, "main"), button(S.pile.classes.length > 9 ? "Other, new" : "New class", "c", openChooser),
    button("None", "n", none), button("Skip", "s", skip), button("All like this", "l", allLike),
  );
}

export const closeDrawer = () => {
  document.body.classList.remove("drawn");
  $("drawer").setAttribute("aria-expanded", "false");
};

export function wireSide() {
  $("drawer").addEventListener("click", () => {
    const isDrawn = document.body.classList.toggle("drawn");
    $("drawer").setAttribute("aria-expanded", isDrawn);
  });
  const f = S.filters;
  $("filters").addEventListener("change", (event) => {
    const { decision, only } = event.target.dataset;
    if (decision) f.decisions[decision] = event.target.checked;
    if (only) f.only[event.target.checked ? "add" : "delete"](only);
    f.sure = [Number($("sure-from").value), Number($("sure-to").value)];
    f.novel = Number($("novel-from").value);
    arrange();
  });
  on("pile said", () => { drawClasses(); drawButtons(); });
  on("status", drawButtons);
  on("scrolled pile said", drawStrip);
  on("selected focus pile view", drawActions);
  on("arranged", () => { $("count").textContent = `${number(layout.images.length)} shown`; });
}
