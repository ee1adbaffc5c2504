// Everything by keys alone.
import { S, nameOf } from "./state.js";
import { layout, arrange } from "./grid.js";
import { choose, moveTo, toggle } from "./select.js";
import { openLarge, closeLarge, step } from "./large.js";
import { openChooser } from "./chooser.js";
import * as act from "./act.js";

const KEYS = [
  ["1 … 9", "the class with that number"], ["c", "another class, or a new one"], ["a", "accept the label"],
  ["n", "none of these"], ["s", "skip"], ["u", "undo, without end"], ["U", "redo"],
  ["← → ↑ ↓", "move; with Shift: select"], ["Space", "select one more, or one less"], ["Ctrl A", "select the section"],
  ["Esc", "select nothing; close"], ["l", "all like this; again: twice as many"], ["Enter", "one image, large"],
  ["t", "teach: label anew"], ["T", "adapt the encoder: takes minutes"], ["g x o m", "pile, ask me, groups, map"],
  ["+ −", "larger, smaller tiles"], ["r", "surest or least sure first"], ["?", "this list"],
];

function resize(by) {
  S.size = Math.min(224, Math.max(64, S.size + by));
  document.getElementById("size").value = S.size;
  arrange(true);
}

function turnOrder() {
  S.order = S.order === "least" ? "most" : "least";
  document.getElementById("order").value = S.order;
  arrange();
}

export function showKeys() {
  const dialog = document.getElementById("keys");
  document.getElementById("keys-list").replaceChildren(...KEYS.flatMap(([keys, words]) => {
    const key = document.createElement("dt"), what = document.createElement("dd");
    key.textContent = keys;
    what.textContent = words;
    return [key, what];
  }));
  dialog.showModal();
}

function move(key, extend) {
  if (S.focus < 0 || !layout.place.has(S.focus)) return;
  const index = layout.place.get(S.focus), page = Math.max(1, Math.floor(document.getElementById("grid").clientHeight / layout.rowHeight));
  const next = {
    ArrowLeft: index - 1, ArrowRight: index + 1, Home: 0, End: layout.images.length - 1,
    ArrowUp: () => layout.vertical(index, -1), ArrowDown: () => layout.vertical(index, 1),
    PageUp: () => layout.vertical(index, -page), PageDown: () => layout.vertical(index, page),
  }[key];
  const to = typeof next === "function" ? next() : next;
  moveTo(layout.images[Math.min(Math.max(to, 0), layout.images.length - 1)], { extend });
}

const MOVES = ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End", "PageUp", "PageDown"];
const PLAIN = {
  c: openChooser, a: act.accept, n: act.none, s: act.skip, u: act.undo, U: act.redo, l: act.allLike,
  t: act.teach, T: act.adapt, g: () => act.show("grid"), x: () => act.show("next"), o: () => act.show("groups"),
  m: () => act.show("map"), "+": () => resize(16), "=": () => resize(16), "-": () => resize(-16),
  "−": () => resize(-16), r: turnOrder, "?": showKeys,
};

export function wireKeys() {
  document.addEventListener("keydown", (event) => {
    if (document.querySelector("dialog[open]") || !S.pile) return;
    const at = event.target;
    if (at.matches("input:not([type=checkbox]):not([type=range]), select, textarea")) return;
    const isWide = event.ctrlKey || event.metaKey;
    if (isWide && event.key === "a") {
      event.preventDefault();
      const row = layout.rows[layout.rowOf(layout.place.get(S.focus) ?? 0)];
      return row && choose(layout.sections[row.section].images);
    }
    if (isWide && event.key.toLowerCase() === "z") {
      event.preventDefault();
      return event.shiftKey ? act.redo() : act.undo();
    }
    if (isWide || event.altKey) return undefined;
    const onButton = at.matches("button, input");
    if (event.key === "Escape") {
      event.preventDefault();
      if (S.large >= 0) return closeLarge();
      return choose([]);
    }
    if (S.large >= 0 && ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"].includes(event.key)) {
      event.preventDefault();
      return step(["ArrowLeft", "ArrowUp"].includes(event.key) ? -1 : 1);
    }
    if (MOVES.includes(event.key) && !at.matches("input")) {
      event.preventDefault();
      return move(event.key, event.shiftKey);
    }
    if (onButton && (event.key === " " || event.key === "Enter")) return undefined;
    if (event.key === " " && S.focus >= 0) {
      event.preventDefault();
      return toggle(S.focus);
    }
    if (event.key === "Enter" && S.focus >= 0) {
      event.preventDefault();
      return openLarge(S.focus);
    }
    if (/^[1-9]$/.test(event.key)) {
      const name = nameOf(Number(event.key) - 1 < S.pile.classes.length ? Number(event.key) - 1 : -1);
      return name ? act.give(name) : undefined;
    }
    const plain = PLAIN[event.key];
    if (plain) {
      event.preventDefault();
      plain();
    }
    return undefined;
  });
}
