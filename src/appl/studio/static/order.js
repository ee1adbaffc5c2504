// Which images are shown, in which sections, in which order: no page, only columns.
import { S, NONE, SKIPPED, CONFLICT, disagrees } from "./state.js";

const MOST_OF_A_GROUP = 24;

function isWanted(image) {
  const { filters: f, pile, said } = S;
  if (!f.decisions[pile.decision[image]]) return false;
  const sure = pile.sure[image] / 100;
  if (pile.answer && pile.decision[image] < 3 && (sure < f.sure[0] || sure > f.sure[1])) return false;
  if (pile.novelty[image] < f.novel * 1000) return false;
  const word = said.get(image);
  if (f.only.has("open") && word !== undefined) return false;
  if (f.only.has("changed") && !S.changed.has(image)) return false;
  if (f.only.has("disagrees") && !disagrees(image)) return false;
  if (f.only.has("said") && (word === undefined || word <= SKIPPED)) return false;
  if (f.only.has("conflict") && word !== CONFLICT) return false;
  return true;
}

// An image stands where a person put it, else where the answer did.
export function home(image) {
  const { pile, said } = S, word = said.get(image), n = pile.classes.length;
  if (word >= 0) return word;
  if (word === NONE || pile.decision[image] === 2) return n;
  if (pile.decision[image] === 3) return n + 2;
  return pile.label[image] >= 0 ? pile.label[image] : n + 1;
}

function sorted(images) {
  const { pile, order } = S;
  if (order === "pile") return images;
  const column = order === "novel" ? pile.novelty : pile.sure;
  const sign = order === "least" ? 1 : -1;
  return images.sort((a, b) => sign * (column[a] - column[b]) || a - b);
}

function byClass() {
  const { pile, filters } = S, n = pile.classes.length;
  const parts = Array.from({ length: n + 3 }, () => []);
  for (let image = 0; image < pile.n; image++)
    if (isWanted(image)) parts[home(image)].push(image);
  const names = [...pile.classes.map((c) => c.name), "None of these", "Not labelled yet", "Unreadable"];
  return parts
    .map((images, id) => ({ title: names[id], id: id < n ? id : -1, part: id, images: sorted(images), total: images.length }))
    .filter((s) => s.images.length && (filters.class === null || s.part === filters.class));
}

export function sections() {
  if (!S.pile) return [];
  if (S.view === "grid" || !S.list) return byClass();
  const shown = S.view === "groups" ? MOST_OF_A_GROUP : Infinity;
  return S.list
    .map((s) => ({ ...s, part: s.id, total: s.images.length, images: s.images.slice(0, shown) }))
    .filter((s) => s.images.length);
}
