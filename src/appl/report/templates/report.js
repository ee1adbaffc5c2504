"use strict";
// Comfort only: without this script the page shows the same, standing still.
(() => {
  document.documentElement.classList.add("scripted");

  // The map: a picture and its words under the pointer, the same image ringed on both maps.
  const pictures = new Map();
  for (const img of document.querySelectorAll("img[data-p]")) pictures.set(img.dataset.p, img.src);
  const words = new Map();
  const points = [...document.querySelectorAll(".map [data-p]")];
  for (const point of points) {
    const title = point.querySelector("title");
    words.set(point, title.textContent);
    title.remove();
  }
  const tip = document.getElementById("tip");
  const [tipImage, tipText] = tip.children;
  let ringed = [];
  const leave = () => {
    tip.hidden = true;
    for (const point of ringed) point.classList.remove("ringed");
    ringed = [];
  };
  const enter = (event) => {
    leave();
    const point = event.target.closest("[data-p]");
    if (!point) return;
    const source = pictures.get(point.dataset.p);
    tipImage.hidden = !source;
    if (source) tipImage.src = source;
    tipText.textContent = words.get(point);
    ringed = points.filter((other) => other.dataset.p === point.dataset.p);
    for (const other of ringed) other.classList.add("ringed");
    tip.hidden = false;
    const box = point.getBoundingClientRect();
    const x = Math.min(box.right + 8, document.documentElement.clientWidth - tip.offsetWidth - 8);
    const y = Math.min(box.bottom + 8, window.innerHeight - tip.offsetHeight - 8);
    tip.style.left = `${Math.max(8, x)}px`;
    tip.style.top = `${Math.max(8, y)}px`;
  };
  for (const map of document.querySelectorAll(".map")) {
    map.addEventListener("pointerover", enter);
    map.addEventListener("pointerleave", leave);
  }
  window.addEventListener("scroll", leave, { passive: true });

  // A class of the legend: alone while it is pointed at, or chosen by a click.
  let chosen = "";
  const only = (style) => {
    for (const p of points) p.classList.toggle("dim", style !== "" && !p.classList.contains(style));
  };
  for (const item of document.querySelectorAll(".marks li")) {
    const button = document.createElement("button");
    button.type = "button";
    button.setAttribute("aria-pressed", "false");
    button.append(...item.childNodes);
    item.append(button);
    item.addEventListener("pointerenter", () => only(item.dataset.k));
    item.addEventListener("pointerleave", () => only(chosen));
    button.addEventListener("click", () => {
      chosen = chosen === item.dataset.k ? "" : item.dataset.k;
      for (const other of document.querySelectorAll(".marks button"))
        other.setAttribute("aria-pressed", String(other.parentNode.dataset.k === chosen));
      only(chosen);
    });
  }

  // On paper nothing can be unfolded; the settings stay folded.
  let opened = [];
  window.addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("#sheets details:not([open])")];
    for (const part of opened) part.open = true;
  });
  window.addEventListener("afterprint", () => {
    for (const part of opened) part.open = false;
  });
})();
