// The grid: only the tiles in sight are elements, and they are used again and again.
import { S, on, tell, nameOf, labelOf, disagrees, DECISIONS, NONE, SKIPPED, CONFLICT } from "./state.js";
import { sections } from "./order.js";
import { Layout, HEAD } from "./layout.js";

const grid = document.getElementById("grid"), sheet = document.getElementById("sheet");
const CAPTION = 20, BEYOND = 300, QUIET_MS = 50;
export let layout = new Layout([], 800, 112, CAPTION);
const tiles = new Map(), heads = new Map(), spare = [];
let quiet = 0;

export function makeTile() {
  const tile = document.createElement("div");
  tile.className = "tile";
  tile.setAttribute("role", "option");
  tile.innerHTML = '<img alt="" decoding="async" draggable="false"><span class="words"><i></i><b></b><em></em></span>';
  return tile;
}

export function words(image) {
  const { pile, said } = S, word = said.get(image), decision = pile.decision[image];
  const parts = [`image ${image + 1}`];
  if (pile.label[image] >= 0) parts.push(`${nameOf(pile.label[image])}, ${Math.round(pile.sure[image] / 100)} % sure`);
  if (decision < 4) parts.push({ accept: "accepted", review: "to review" }[DECISIONS[decision]] || DECISIONS[decision]);
  if (word >= 0) parts.push(`you said ${nameOf(word)}`);
  if (word === NONE) parts.push("you said none of these");
  if (word === SKIPPED) parts.push("skipped");
  if (word === CONFLICT) parts.push("two people disagree");
  if (S.changed.has(image)) parts.push("changed by the last answer");
  return parts.join(", ");
}

export function paint(tile, image) {
  const { pile, said } = S, word = said.get(image), decision = pile.decision[image];
  const [i, b, em] = tile.lastChild.children;
  const id = labelOf(image);
  tile.className = `tile${S.selected.has(image) ? " on" : ""}${S.focus === image ? " focus" : ""}${
    word !== undefined ? " said" : ""}${S.changed.has(image) ? " changed" : ""}${disagrees(image) ? " against" : ""}`;
  tile.setAttribute("aria-selected", S.selected.has(image));
  tile.setAttribute("aria-label", words(image));
  i.className = `mark ${["accept", "review", "none", "unreadable", "open"][decision]} ${
    id >= 0 ? `c-k${pile.classes[id].colour}` : "c-other"}`;
  b.textContent = decision < 3 ? String(Math.round(pile.sure[image] / 100)) : "";
  em.textContent = word >= 0 ? `✓ ${nameOf(word)}` : word === NONE ? "✓ none" : word === SKIPPED ? "skipped"
    : word === CONFLICT ? "conflict" : S.view !== "grid" && id >= 0 ? nameOf(id) : S.changed.has(image) ? "changed" : "";
}

function render() {
  const top = grid.scrollTop - BEYOND, bottom = grid.scrollTop + grid.clientHeight + BEYOND;
  const wanted = new Map(), wantedHeads = new Map();
  for (let r = layout.rowAt(top); r < layout.rows.length && layout.rows[r].y < bottom; r++) {
    const row = layout.rows[r];
    if (!row.n) wantedHeads.set(row.section, row);
    for (let i = 0; i < row.n; i++) wanted.set(layout.images[row.start + i], [i * layout.step, row.y]);
  }
  for (const [image, tile] of tiles)
    if (!wanted.has(image)) {
      tile.firstChild.removeAttribute("src");
      tile.remove();
      spare.push(tile);
      tiles.delete(image);
    }
  for (const [image, [x, y]] of wanted) {
    let tile = tiles.get(image);
    if (!tile) {
      tile = spare.pop() || makeTile();
      tile.id = `tile-${image}`;
      tile.dataset.image = image;
      tiles.set(image, tile);
      paint(tile, image);
      sheet.append(tile);
    }
    tile.style.transform = `translate(${x}px, ${y}px)`;
  }
  for (const [s, head] of heads) if (!wantedHeads.has(s)) head.remove(), heads.delete(s);
  for (const [s, row] of wantedHeads) {
    let head = heads.get(s);
    if (!head) {
      head = document.createElement("h3");
      head.className = "section";
      head.dataset.section = s;
      head.append(document.createElement("bdi"), document.createElement("small"), document.createElement("button"));
      head.lastChild.className = "quiet";
      head.lastChild.textContent = "select all";
      head.lastChild.tabIndex = -1;
      heads.set(s, head);
      sheet.append(head);
    }
    const section = layout.sections[s];
    head.firstChild.textContent = section.title;
    head.children[1].textContent = section.total > section.images.length
      ? `${section.images.length} of ${section.total.toLocaleString("en")}` : section.total.toLocaleString("en");
    head.style.transform = `translate(0, ${row.y}px)`;
  }
  const here = layout.rows[layout.rowAt(grid.scrollTop)];
  S.section = here ? layout.sections[here.section] : null;
  tell("scrolled");
}

// Pictures are asked for when the page stands still for a moment: not for what flies past.
function loadPictures() {
  if (!S.status.has_pictures) return;
  for (const [image, tile] of tiles) {
    const source = `/pictures/pile/${image}/${layout.size > 160 ? "large" : "small"}`;
    if (tile.firstChild.getAttribute("src") !== source) tile.firstChild.src = source;
  }
}

let isAsked = false;
function soon() {
  if (!isAsked) {
    isAsked = true;
    requestAnimationFrame(() => { isAsked = false; render(); });
  }
  clearTimeout(quiet);
  quiet = setTimeout(loadPictures, QUIET_MS);
}

export function repaint() {
  for (const [image, tile] of tiles) paint(tile, image);
  grid.setAttribute("aria-activedescendant", tiles.has(S.focus) ? `tile-${S.focus}` : "");
}

export function arrange(keepsPlace = false) {
  const top = keepsPlace ? grid.scrollTop : 0;
  const style = getComputedStyle(grid);
  const width = grid.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
  const size = Math.min(S.size, Math.floor((width - 12) / 3)); // on a phone: three beside each other
  layout = new Layout(sections(), width, size, CAPTION);
  sheet.style.height = `${layout.height}px`;
  sheet.style.setProperty("--size", `${layout.size}px`);
  for (const [, tile] of tiles) tile.remove(), spare.push(tile);
  tiles.clear();
  for (const [, head] of heads) head.remove();
  heads.clear();
  grid.scrollTop = top;
  if (!layout.place.has(S.focus)) S.focus = layout.images.length ? layout.images[0] : -1;
  render();
  loadPictures();
  repaint();
  tell("arranged");
}

export function reveal(image) {
  const index = layout.place.get(image);
  if (index === undefined) return;
  const box = layout.box(index);
  if (box.y - HEAD < grid.scrollTop) grid.scrollTop = Math.max(0, box.y - HEAD);
  else if (box.y + box.h > grid.scrollTop + grid.clientHeight) grid.scrollTop = box.y + box.h - grid.clientHeight + 6;
  soon();
}

// Pictures may be there only after the pile was read.
export const refreshPictures = () => tiles.forEach((tile) => tile.firstChild.removeAttribute("src")) || loadPictures();

grid.addEventListener("scroll", soon, { passive: true });
new ResizeObserver(() => { if (S.pile && S.view !== "map" && grid.clientWidth) arrange(true); }).observe(grid);
on("selected said focus", () => requestAnimationFrame(repaint));
