// What the page knows, in one place; whoever shows a part of it listens for its name.
import { get } from "./api.js";

export const NOTHING = -2, NONE = -1, SKIPPED = -3, CONFLICT = -4;
export const DECISIONS = ["accept", "review", "none-of-these", "unreadable", "none"];

export const S = {
  pile: null, // columns of the last answer
  said: new Map(), // image → class, NONE, SKIPPED, CONFLICT
  changed: new Set(),
  status: {},
  view: "grid", // grid, next, groups, map, like
  list: null, // sections of the views that are asked for: [{title, images}]
  filters: { decisions: [true, true, true, true, true], only: new Set(), sure: [0, 100], novel: 0, class: null },
  order: "least",
  size: 112,
  selected: new Set(),
  focus: -1, // an image
  large: -1, // an image
};

const listeners = new Map();
export const on = (names, listen) => {
  for (const name of names.split(" ")) listeners.set(name, [...(listeners.get(name) || []), listen]);
};
export const tell = (name) => (listeners.get(name) || []).forEach((listen) => listen());

const asMap = (said) => new Map(Object.entries(said).map(([image, word]) => [Number(image), word]));

export async function loadPile() {
  const pile = await get("/api/pile");
  S.pile = pile;
  S.said = asMap(pile.said);
  S.changed = new Set(pile.changed);
  tell("pile");
}

// After something was said: the words themselves, and classes that came with them.
export function takeSaid(answer) {
  const { classes } = S.pile;
  const known = new Map(classes.map((c, i) => [c.name, i]));
  const names = answer.names.map(({ name }) => name);
  for (const name of names)
    if (!known.has(name)) {
      known.set(name, classes.length);
      classes.push({ name, colour: classes.length % 10, examples: [] });
    }
  S.said = new Map([...asMap(answer.said)].map(([i, word]) => [i, word >= 0 ? known.get(names[word]) : word]));
  S.pile.version = answer.version;
  tell("said");
}

export const labelOf = (image) => {
  const word = S.said.get(image);
  return word >= 0 ? word : S.pile.label[image];
};
export const nameOf = (id) => (id >= 0 ? S.pile.classes[id].name : "");
export const disagrees = (image) => {
  const word = S.said.get(image), { label, decision, answer } = S.pile;
  if (!answer || word === undefined || word < NONE) return false;
  return word === NONE ? decision[image] !== 2 : label[image] !== word;
};
export const canWrite = () => S.status.pen === "here";
// What an action is about: one large image, the selection, or the tile in focus.
export const chosen = () => {
  if (S.large >= 0) return [S.large];
  if (S.selected.size) return [...S.selected];
  return S.focus >= 0 ? [S.focus] : [];
};
