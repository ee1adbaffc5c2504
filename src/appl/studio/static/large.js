// One image large: what it may be, what it resembles, and how its label came about.
import { get } from "./api.js";
import { S, on, tell, nameOf, NONE } from "./state.js";
import { layout, reveal, words } from "./grid.js";

const large = document.getElementById("large");
const make = (tag, cls, text) => {
  const element = document.createElement(tag);
  if (cls) element.className = cls;
  if (text !== undefined) element.textContent = text;
  return element;
};
const percent = (share) => `${Math.round(share * 100)} %`;
let facts = null, before = null;

export function openLarge(image) {
  if (S.large < 0) before = document.activeElement;
  S.large = S.focus = image;
  S.selected = new Set();
  facts = null;
  draw();
  tell("selected");
  tell("focus");
  reveal(image);
  get(`/api/image/${image}`).then((found) => {
    if (found.number === S.large) (facts = found), draw();
  }, () => {});
}

export function closeLarge() {
  S.large = -1;
  draw();
  tell("selected");
  (before && before.isConnected ? before : document.getElementById("grid")).focus();
}

export function step(by) {
  const index = (layout.place.get(S.large) ?? 0) + by;
  if (index >= 0 && index < layout.images.length) openLarge(layout.images[index]);
}

export const redrawLarge = () => draw();

function draw() {
  const wasOpen = !large.hidden;
  large.hidden = S.large < 0;
  document.body.classList.toggle("one", S.large >= 0);
  if (S.large < 0) return;
  const image = S.large;
  const shown = large.querySelector("img.whole");
  if (!shown || shown.dataset.image !== String(image)) {
    large.replaceChildren(stage(image), make("div", "facts"));
  }
  large.querySelector(".facts").replaceChildren(...factsOf(image));
  if (!wasOpen) large.querySelector(".close").focus();
}

function stage(image) {
  const place = make("figure", "stage"), picture = make("img", "whole");
  picture.src = `/pictures/pile/${image}/large`;
  picture.alt = words(image);
  picture.dataset.image = image;
  const bar = make("div", "steps");
  for (const [label, cls, act] of [["← Back", "back", () => step(-1)], ["Next →", "forth", () => step(1)], ["Close", "close", closeLarge]]) {
    const button = make("button", `quiet ${cls}`, label);
    button.addEventListener("click", act);
    bar.append(button);
  }
  place.append(bar, picture);
  return place;
}

function factsOf(image) {
  const { pile, said } = S, word = said.get(image), parts = [];
  const title = make("h2", "", word >= 0 ? nameOf(word) : word === NONE ? "None of these" : nameOf(pile.label[image]) || "No label yet");
  parts.push(title, make("p", "soft name", facts ? facts.name : `image ${image + 1}`));
  if (word !== undefined) parts.push(make("p", "yours", word >= 0 || word === NONE ? "✓ You said so." : "Passed over."));
  if (!facts) return parts;
  if (facts.problem) parts.push(make("p", "soft", facts.problem));
  if (facts.classes.length) {
    const bars = make("ul", "bars");
    for (const [name, share] of facts.classes) {
      const row = make("li"), bar = make("progress");
      bar.max = 1;
      bar.value = share;
      bar.setAttribute("aria-label", name);
      row.append(make("bdi", "", name), bar, make("b", "", percent(share)));
      bars.append(row);
    }
    parts.push(make("h3", "", "What it may be"), bars);
  }
  if (facts.nearest.length) {
    const strip = make("div", "near");
    for (const near of facts.nearest) {
      const figure = make("figure"), picture = make("img");
      if (near.number >= 0) picture.src = `/pictures/${near.kind}/${near.number}/small`;
      picture.alt = "";
      figure.append(picture, make("figcaption", "", near.class));
      strip.append(figure);
    }
    parts.push(make("h3", "", "The examples nearest to it"), strip);
  }
  const history = make("ol", "history");
  for (const a of facts.answers) history.append(make("li", "", `Answer ${a.number} (${a.kind}): ${a.label || "–"}, ${percent(a.sure)}`));
  for (const s of facts.said) {
    const what = { label: s.class || "none of these", skip: "skipped", conflict: `in conflict: ${s.class || "none"}`, undo: "undo" }[s.kind];
    history.append(make("li", "", `${s.at.slice(0, 16).replace("T", " ")} ${s.who || "somebody"}: ${what}${s.was && s.was !== s.class ? ` (was ${s.was})` : ""}`));
  }
  if (history.children.length) parts.push(make("h3", "", "How it came about"), history);
  return parts;
}

on("said", () => {
  if (S.large < 0) return;
  const image = S.large;
  draw();
  get(`/api/image/${image}`).then((found) => { if (found.number === S.large) (facts = found), draw(); }, () => {});
});
