// Choosing tiles: click, Shift, Ctrl, a frame drawn over them; two taps or clicks for one image.
import { S, tell } from "./state.js";
import { layout, reveal } from "./grid.js";
import { openLarge } from "./large.js";

const grid = document.getElementById("grid"), band = document.getElementById("band");
const DRAGS_FROM = 6;
let anchor = -1, drag = null, isDragged = false;

export function choose(images) {
  S.selected = new Set(images);
  tell("selected");
}

function between(a, b) {
  const [from, to] = [layout.place.get(a), layout.place.get(b)].sort((x, y) => x - y);
  return layout.images.slice(from, to + 1);
}

export function moveTo(image, { extend = false } = {}) {
  if (extend && layout.place.has(anchor)) choose(between(anchor, image));
  else {
    anchor = image;
    if (S.selected.size) choose([]);
  }
  S.focus = image;
  reveal(image);
  tell("focus");
}

export function toggle(image) {
  anchor = S.focus = image;
  if (!S.selected.delete(image)) S.selected.add(image);
  tell("selected");
  tell("focus");
}

const imageAt = (target) => {
  const tile = target.closest && target.closest(".tile");
  return tile ? Number(tile.dataset.image) : -1;
};

grid.addEventListener("click", (event) => {
  if (isDragged) return;
  const section = event.target.closest("h3 button") && event.target.closest("h3").dataset.section;
  if (section) return choose([...S.selected, ...layout.sections[section].images]);
  const image = imageAt(event.target);
  if (image < 0) return event.target.closest("h3") ? undefined : choose([]);
  if (event.shiftKey && layout.place.has(anchor)) {
    choose([...(event.ctrlKey || event.metaKey ? S.selected : []), ...between(anchor, image)]);
    S.focus = image;
    return tell("focus");
  }
  const isTouch = event.pointerType === "touch";
  if (event.ctrlKey || event.metaKey || isTouch) return toggle(image);
  anchor = S.focus = image;
  choose([image]);
  return tell("focus");
});
grid.addEventListener("dblclick", (event) => {
  const image = imageAt(event.target);
  if (image >= 0) choose([]), openLarge(image);
});

// A frame, in the coordinates of the sheet, so that it goes on while the page scrolls.
const point = (event) => {
  const box = grid.firstChild.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
};
grid.addEventListener("pointerdown", (event) => {
  isDragged = false;
  if (event.pointerType === "touch" || event.button || event.target.closest("button")) return;
  if (event.offsetX > grid.clientWidth && event.target === grid) return; // the scroll bar
  const from = point(event);
  drag = { from, to: from, kept: event.ctrlKey || event.metaKey || event.shiftKey ? new Set(S.selected) : new Set() };
});
window.addEventListener("pointermove", (event) => {
  if (!drag) return;
  drag.to = point(event);
  const [dx, dy] = [drag.to[0] - drag.from[0], drag.to[1] - drag.from[1]];
  if (!isDragged && Math.hypot(dx, dy) < DRAGS_FROM) return;
  isDragged = true;
  const box = grid.getBoundingClientRect();
  if (event.clientY > box.bottom - 20) grid.scrollTop += 24;
  if (event.clientY < box.top + 20) grid.scrollTop -= 24;
  const [x0, x1] = [drag.from[0], drag.to[0]].sort((a, b) => a - b);
  const [y0, y1] = [drag.from[1], drag.to[1]].sort((a, b) => a - b);
  Object.assign(band.style, { left: `${x0 + grid.firstChild.offsetLeft}px`, top: `${y0 + grid.firstChild.offsetTop}px`, width: `${x1 - x0}px`, height: `${y1 - y0}px` });
  band.hidden = false;
  choose([...drag.kept, ...layout.inside(x0, y0, x1, y1)]);
});
window.addEventListener("pointerup", () => {
  drag = null;
  band.hidden = true;
});
