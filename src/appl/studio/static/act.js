// What a person does to images: each is a request, and shown only when it is on disk.
import { get, post } from "./api.js";
import { S, tell, takeSaid, chosen, canWrite, nameOf } from "./state.js";
import { layout, reveal } from "./grid.js";
import { choose } from "./select.js";
import { openLarge, redrawLarge } from "./large.js";
import { say } from "./status.js";

const counted = (n) => (n === 1 ? "1 image" : `${n.toLocaleString("en")} images`);

function mayWrite() {
  if (!canWrite()) say("This page only looks; see the notice above.", true);
  return canWrite();
}

async function attempt(work) {
  try {
    return await work();
  } catch (error) {
    say(error.message, true);
    return null;
  }
}

// On to what comes next and was not spoken of: so that keys alone go through a pile.
function goOn(images) {
  const order = layout.images;
  if (!order.length) return;
  const last = Math.max(...images.map((i) => layout.place.get(i) ?? -1));
  let next = last + 1;
  while (next < order.length && S.said.has(order[next])) next++;
  const image = order[Math.min(next, order.length - 1)];
  if (S.large >= 0) return openLarge(image);
  S.selected = new Set();
  S.focus = image;
  tell("selected");
  tell("focus");
  if (layout.place.get(image) !== undefined && S.view !== "map") reveal(image);
}

// One after the other: who types faster than the disk writes speaks of one image after the other.
let last = Promise.resolve();
const inTurn = (work) => (...given) => (last = last.then(() => work(...given), () => work(...given)));

const correct = inTurn(async (body, wordsFor) => {
  const images = chosen();
  if (!images.length || !mayWrite()) return;
  const answer = await attempt(() => post("/api/correct", { images, ...body }));
  if (!answer) return;
  takeSaid(answer);
  say(`${counted(answer.n)}: ${wordsFor}. Saved.`);
  goOn(images);
});

export const give = (name) => correct({ how: "class", class: name }, name);
export const accept = () => correct({ how: "accept" }, "accepted");
export const none = () => correct({ how: "none" }, "none of the classes");
export const skip = () => correct({ how: "skip" }, "skipped");

const takeBack = inTurn(async (path, verb) => {
  if (!mayWrite()) return;
  const answer = await attempt(() => post(path));
  if (!answer) return;
  takeSaid(answer);
  if (!answer.images.length) return say(`Nothing to ${verb}.`);
  say(`${verb === "undo" ? "Taken back" : "Said again"}: ${counted(answer.images.length)}.`);
  const image = answer.images[0];
  S.focus = image;
  tell("focus");
  if (S.large >= 0) openLarge(image);
  else if (layout.place.has(image)) reveal(image);
});
export const undo = () => takeBack("/api/undo", "undo");
export const redo = () => takeBack("/api/redo", "redo");

export async function teach() {
  if (!mayWrite()) return;
  if (!S.status.has_news && S.pile.answer) return say("Nothing was said since the last answer.");
  await attempt(() => post("/api/work/teach"));
}
export const adapt = () => mayWrite() && attempt(() => post("/api/work/adapt"));
export const cancel = () => attempt(() => post("/api/work/cancel"));
export const takePen = () => attempt(() => post("/api/pen"));

// All like this: the nearest in what the encoders see, ten at first, twice as many each time.
let like = { image: -1, images: [], n: 0 };
export async function allLike() {
  const again = like.image >= 0 && S.view === "like";
  if (!again) {
    const [image] = chosen();
    if (image === undefined) return;
    const found = await attempt(() => get(`/api/like/${image}`));
    if (!found) return;
    like = { image, images: found.images, n: 5 };
    S.large = -1;
    redrawLarge();
    S.view = "like";
    S.list = [{ title: `Most like image ${image + 1}${S.pile.label[image] >= 0 ? `, ${nameOf(S.pile.label[image])}` : ""}`, id: -1, images: found.images }];
    S.focus = image;
    tell("view");
  }
  like.n = Math.min(like.n * 2, like.images.length);
  choose(like.images.slice(0, like.n));
  say(`The ${like.n} nearest are selected; l again: twice as many. Ctrl-click takes one out.`);
}

export async function show(view) {
  const asked = { next: "/api/next?n=48", groups: "/api/groups" }[view];
  let list = null;
  if (asked) {
    const found = await attempt(() => get(asked));
    if (!found) return;
    list = view === "groups"
      ? found.groups.map((images, i) => ({ title: `Group ${i + 1}`, id: -1, images }))
      : batches(found.images);
  }
  like.image = -1;
  S.large = -1;
  redrawLarge();
  S.view = view;
  S.list = list;
  S.selected = new Set();
  tell("view");
}

function batches(images) {
  const found = new Map();
  for (const image of images) {
    const id = S.pile.label[image];
    if (!found.has(id)) found.set(id, { title: `Perhaps ${nameOf(id)}`, id, images: [] });
    found.get(id).images.push(image);
  }
  return [...found.values()];
}
