// The page: puts its parts together.
import { S, on, tell } from "./state.js";
import { arrange } from "./grid.js";
import "./select.js";
import { wireSide } from "./side.js";
import { wireKeys, showKeys } from "./keys.js";
import { openMap } from "./map.js";
import { listen } from "./status.js";
import { closeLarge } from "./large.js";
import * as act from "./act.js";

const $ = (id) => document.getElementById(id);
const kept = {
  get: (name) => { try { return localStorage.getItem(`appl.${name}`); } catch { return null; } },
  set: (name, value) => { try { localStorage.setItem(`appl.${name}`, value); } catch { /* private window */ } },
};

function applyTheme(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
  tell("theme");
}

function showView() {
  const isMap = S.view === "map";
  $("map").hidden = !isMap;
  $("grid").hidden = isMap;
  document.body.dataset.view = S.view;
  for (const tab of document.querySelectorAll("[data-view]"))
    if (tab.matches("button")) tab.setAttribute("aria-pressed", tab.dataset.view === S.view);
  if (isMap) openMap();
  else {
    arrange();
    $("grid").focus();
  }
}

applyTheme(kept.get("theme"));
S.size = Number(kept.get("size")) || 112;
$("size").value = S.size;
S.order = kept.get("order") || "least";
$("order").value = S.order;
wireSide();
wireKeys();
for (const tab of document.querySelectorAll("button[data-view]")) tab.addEventListener("click", () => act.show(tab.dataset.view));
$("theme").addEventListener("click", () => {
  const isDark = getComputedStyle(document.documentElement).colorScheme === "dark";
  kept.set("theme", isDark ? "light" : "dark");
  applyTheme(isDark ? "light" : "dark");
});
$("size").addEventListener("input", () => { S.size = Number($("size").value); kept.set("size", S.size); arrange(true); });
$("order").addEventListener("change", () => { S.order = $("order").value; kept.set("order", S.order); arrange(); });
$("undo").addEventListener("click", act.undo);
$("teach").addEventListener("click", act.teach);
$("adapt").addEventListener("click", act.adapt);
$("cancel").addEventListener("click", act.cancel);
$("pen").addEventListener("click", act.takePen);
$("help").addEventListener("click", showKeys);
let isFirst = true, hadAnswer = false;
on("status", () => {
  // From nothing: as soon as every image was looked at, groups of them are the place to begin.
  const { job, answer } = S.status;
  if (!job && !answer && !S.said.size && S.view === "grid" && S.pile && !isGrouped) {
    isGrouped = true;
    act.show("groups");
  }
});
let isGrouped = false;
on("pile", () => {
  if (S.pile.answer && !hadAnswer && !isFirst && S.view === "groups") (S.view = "grid"), (S.list = null), showView();
  hadAnswer = Boolean(S.pile.answer);
  // A new answer: what was asked for before it is no longer a good question.
  if (S.view === "next") return act.show("next");
  if (S.large >= 0) closeLarge();
  if (S.view === "map") return undefined;
  arrange(!isFirst);
  if (isFirst) $("grid").focus();
  isFirst = false;
  return undefined;
});
on("view", showView);
listen();
