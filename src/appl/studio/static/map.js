// All images as points: what is near looks alike. A loop drawn around some selects them.
import { get } from "./api.js";
import { S, on, tell, labelOf, nameOf } from "./state.js";
import { choose } from "./select.js";
import { openLarge } from "./large.js";
import { say } from "./status.js";

const map = document.getElementById("map"), canvas = document.getElementById("canvas"), tip = document.getElementById("tip");
const pen = canvas.getContext("2d");
const RIM = 24;
let places = null, loop = [], isDrawing = false, near = -1, view = { x: 0, y: 0, k: 1 };

const spot = (image) => {
  const side = Math.min(canvas.clientWidth, canvas.clientHeight) - 2 * RIM;
  const left = (canvas.clientWidth - side) / 2, top = (canvas.clientHeight - side) / 2;
  const [x, y] = [left + (side * places[2 * image]) / 10000, top + (side * places[2 * image + 1]) / 10000];
  return [x * view.k + view.x, y * view.k + view.y];
};

function draw() {
  if (map.hidden || !places) return;
  const ratio = devicePixelRatio || 1;
  if (canvas.width !== Math.round(canvas.clientWidth * ratio) || canvas.height !== Math.round(canvas.clientHeight * ratio)) {
    canvas.width = Math.round(canvas.clientWidth * ratio);
    canvas.height = Math.round(canvas.clientHeight * ratio);
  }
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, canvas.clientWidth, canvas.clientHeight);
  const style = getComputedStyle(document.documentElement), colour = (name) => style.getPropertyValue(`--${name}`);
  const inks = new Map(), radius = S.pile.n > 20000 ? 1.5 : S.pile.n > 4000 ? 2.2 : 3.4;
  for (let image = 0; image < S.pile.n; image++) {
    if (places[2 * image] < 0) continue;
    const id = labelOf(image), ink = id >= 0 ? `k${S.pile.classes[id].colour}` : "other";
    if (!inks.has(ink)) inks.set(ink, []);
    inks.get(ink).push(image);
  }
  pen.globalAlpha = 0.85;
  for (const [ink, images] of inks) {
    pen.fillStyle = colour(ink);
    pen.beginPath();
    for (const image of images) {
      const [x, y] = spot(image), r = S.said.has(image) ? radius * 1.5 : radius;
      pen.moveTo(x + r, y);
      pen.arc(x, y, r, 0, 7);
    }
    pen.fill();
  }
  pen.globalAlpha = 1;
  pen.strokeStyle = colour("ink");
  pen.lineWidth = 1.5;
  pen.beginPath();
  for (const image of S.selected) {
    const [x, y] = spot(image);
    pen.moveTo(x + radius + 2, y);
    pen.arc(x, y, radius + 2, 0, 7);
  }
  pen.stroke();
  if (loop.length > 1) {
    pen.strokeStyle = colour("accent");
    pen.setLineDash([5, 4]);
    pen.beginPath();
    loop.forEach(([x, y], i) => (i ? pen.lineTo(x, y) : pen.moveTo(x, y)));
    pen.closePath();
    pen.stroke();
    pen.setLineDash([]);
  }
}

function isInside(x, y) {
  let inside = false;
  for (let i = 0, j = loop.length - 1; i < loop.length; j = i++) {
    const [xi, yi] = loop[i], [xj, yj] = loop[j];
    if (yi > y !== yj > y && x < ((xj - xi) * (y - yi)) / (yj - yi) + xi) inside = !inside;
  }
  return inside;
}

const point = (event) => [event.offsetX, event.offsetY];

function nearest(x, y) {
  let best = 100, found = -1;
  for (let image = 0; image < S.pile.n; image++) {
    if (places[2 * image] < 0) continue;
    const [px, py] = spot(image), d = (px - x) ** 2 + (py - y) ** 2;
    if (d < best) (best = d), (found = image);
  }
  return found;
}

canvas.addEventListener("pointerdown", (event) => {
  if (event.button || !places) return;
  canvas.setPointerCapture(event.pointerId);
  loop = [point(event)];
  isDrawing = true;
  tip.hidden = true;
});
canvas.addEventListener("pointermove", (event) => {
  if (!places) return;
  if (isDrawing) {
    loop.push(point(event));
    return requestAnimationFrame(draw);
  }
  const found = nearest(...point(event));
  if (found !== near) {
    near = found;
    tip.hidden = near < 0;
    if (near >= 0) {
      tip.firstElementChild.src = `/pictures/pile/${near}/small`;
      tip.lastElementChild.textContent = nameOf(labelOf(near)) || `image ${near + 1}`;
    }
  }
  tip.style.left = `${Math.min(event.offsetX + 14, canvas.clientWidth - 120)}px`;
  tip.style.top = `${Math.min(event.offsetY + 14, canvas.clientHeight - 140)}px`;
  return undefined;
});
canvas.addEventListener("pointerup", (event) => {
  if (!isDrawing) return;
  isDrawing = false;
  const kept = event.shiftKey || event.ctrlKey ? [...S.selected] : [];
  if (loop.length < 4) {
    const image = nearest(...point(event));
    choose(image < 0 ? kept : [...kept, image]);
    if (image >= 0) (S.focus = image), tell("focus");
  } else {
    const found = [];
    for (let image = 0; image < S.pile.n; image++)
      if (places[2 * image] >= 0 && isInside(...spot(image))) found.push(image);
    choose([...kept, ...found]);
    if (found.length) S.focus = found[0];
  }
  loop = [];
  draw();
});
canvas.addEventListener("dblclick", (event) => {
  const image = nearest(...point(event));
  if (image >= 0) openLarge(image);
  else (view = { x: 0, y: 0, k: 1 }), draw();
});
canvas.addEventListener("wheel", (event) => {
  event.preventDefault();
  const k = Math.min(40, Math.max(1, view.k * Math.exp(-event.deltaY / 400))), by = k / view.k;
  view = k === 1 ? { x: 0, y: 0, k } : { k, x: event.offsetX - by * (event.offsetX - view.x), y: event.offsetY - by * (event.offsetY - view.y) };
  draw();
}, { passive: false });

export async function openMap() {
  canvas.focus();
  if (!places) say("Placing the images …");
  try {
    places = (await get("/api/map")).places;
    draw();
  } catch (error) {
    say(error.message, true);
  }
}

on("selected said pile theme", () => requestAnimationFrame(draw));
new ResizeObserver(draw).observe(map);
