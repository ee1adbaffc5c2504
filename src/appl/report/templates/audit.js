"use strict";
// Marks on a sample of labels, kept in the browser and saved as a table. Nothing leaves the page.
(() => {
  const looks = [...document.querySelectorAll(".look")];
  const button = (look) => look.querySelector("button");
  const byId = (id) => document.getElementById(id);
  const store = `appl-audit-${document.body.dataset.sample}`;
  let isSaved = true;

  // What is known of each label: seen or not, its verdict, its class if it is wrong.
  const state = new Map(
    looks.map((look) => {
      const verdict = look.dataset.verdict;
      return [look, { seen: verdict !== "", verdict: verdict || "right", truth: look.dataset.true }];
    }),
  );
  const remember = () => {
    const marks = looks.map((look) => [look.dataset.key, state.get(look)]);
    try {
      localStorage.setItem(store, JSON.stringify(marks));
    } catch {
      // A browser that keeps nothing for files: the marks live as long as the page.
    }
  };
  try {
    const kept = new Map(JSON.parse(localStorage.getItem(store) || "[]"));
    for (const look of looks) Object.assign(state.get(look), kept.get(look.dataset.key));
  } catch {
    // Nothing readable is kept.
  }

  const count = (test) => looks.filter((look) => test(state.get(look))).length;
  const show = (look) => {
    const { seen, verdict, truth } = state.get(look);
    look.classList.toggle("seen", seen);
    look.classList.toggle("wrong", verdict === "wrong");
    look.classList.toggle("unsure", verdict === "unsure");
    button(look).setAttribute("aria-pressed", String(verdict === "wrong"));
    button(look).title = { right: "", wrong: "wrong", unsure: "unsure" }[verdict];
    let select = look.querySelector("select");
    if (verdict === "wrong" && !select) {
      select = byId("classes").content.firstElementChild.cloneNode(true);
      for (const option of [...select.options])
        if (option.value === look.closest(".group").dataset.label) option.remove();
      select.addEventListener("change", () => set(look, { truth: select.value }));
      look.querySelector("figcaption").append(select);
    }
    if (select) {
      select.hidden = verdict !== "wrong";
      select.value = truth;
    }
  };
  const tally = () => {
    const seen = count((s) => s.seen);
    byId("seen").textContent = seen;
    byId("wrong").textContent = count((s) => s.verdict === "wrong");
    byId("unsure").textContent = count((s) => s.verdict === "unsure");
    byId("meter").style.width = `${(100 * seen) / looks.length}%`;
  };
  const set = (look, change) => {
    Object.assign(state.get(look), change);
    if (state.get(look).verdict !== "wrong") state.get(look).truth = "";
    isSaved = false;
    show(look);
    tally();
    remember();
  };
  const toggle = (look, verdict) =>
    set(look, { seen: true, verdict: state.get(look).verdict === verdict ? "right" : verdict });

  // Seen: most of it was on the screen for a third of a second.
  const timers = new Map();
  const observer = new IntersectionObserver(
    (entries) => {
      for (const { target, isIntersecting } of entries) {
        clearTimeout(timers.get(target));
        const look = target.closest(".look");
        if (isIntersecting && !state.get(look).seen)
          timers.set(target, setTimeout(() => set(look, { seen: true }), 350));
      }
    },
    { threshold: 0.75 },
  );

  // One image has the focus; arrows go to its neighbours as they lie on the screen.
  let current = looks[0];
  const focus = (look) => {
    if (!look) return;
    button(current).tabIndex = -1;
    current = look;
    button(current).tabIndex = 0;
    button(current).focus({ preventScroll: true });
    current.scrollIntoView({ block: "nearest" });
    if (byId("large").open) enlarge();
  };
  const place = (look) => look.getBoundingClientRect();
  const vertical = (direction) => {
    const { left, top, height } = place(current);
    const beyond = looks
      .map((look) => ({ look, box: place(look) }))
      .filter(({ box }) => direction * (box.top - top) > height / 3);
    const next = direction * Math.min(...beyond.map(({ box }) => direction * box.top));
    const line = beyond.filter(({ box }) => Math.abs(box.top - next) < 4);
    line.sort((a, b) => Math.abs(a.box.left - left) - Math.abs(b.box.left - left));
    focus(line[0]?.look);
  };
  const step = (n) => focus(looks[looks.indexOf(current) + n]);
  const enlarge = () => {
    const [image, words] = byId("large").querySelectorAll("img, figcaption");
    const own = current.querySelector("img");
    image.src = own ? own.src : "";
    image.alt = button(current).getAttribute("aria-label");
    const { verdict } = state.get(current);
    words.textContent = image.alt + (verdict === "right" ? "" : `: ${verdict}`);
    set(current, { seen: true });
    if (!byId("large").open) byId("large").showModal();
  };

  const cell = (text) => (/[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const write = () => {
    const lines = [["key", "path", "label", "verdict", "true_label"]];
    for (const look of looks) {
      const { seen, verdict, truth } = state.get(look);
      const { key, path } = look.dataset;
      lines.push([key, path, look.closest(".group").dataset.label, seen ? verdict : "", truth]);
    }
    const text = lines.map((line) => `${line.map(cell).join(",")}\n`).join("");
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
    link.download = "audit-verdict.csv";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
    isSaved = true;
  };
  const save = () => {
    const unseen = looks.filter((look) => !state.get(look).seen);
    if (!unseen.length) return write();
    const dialog = byId("unseen");
    dialog.querySelector("p b").textContent = unseen.length;
    dialog.onclose = () => {
      if (dialog.returnValue === "save") write();
      if (dialog.returnValue === "go") focus(unseen[0]);
    };
    dialog.returnValue = "";
    return dialog.showModal();
  };

  const keys = {
    ArrowRight: () => step(1),
    ArrowLeft: () => step(-1),
    ArrowDown: () => vertical(1),
    ArrowUp: () => vertical(-1),
    Home: () => focus(looks[0]),
    End: () => focus(looks.at(-1)),
    x: () => toggle(current, "wrong"),
    u: () => toggle(current, "unsure"),
    c: () => {
      byId("large").close();
      set(current, { seen: true, verdict: "wrong" });
      current.querySelector("select").focus();
    },
    z: () => (byId("large").open ? byId("large").close() : enlarge()),
    s: save,
    "?": () => byId("help").showModal(),
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !current) return;
    if (event.target.matches("select")) {
      if (event.key === "Escape") focus(current);
      return;
    }
    if (byId("help").open || byId("unseen").open) return;
    const act = keys[event.key];
    if (!act) return;
    event.preventDefault();
    act();
    if (byId("large").open && "xu".includes(event.key)) enlarge();
  });
  for (const look of looks) {
    button(look).addEventListener("click", () => {
      focus(look);
      toggle(look, "wrong");
    });
    button(look).addEventListener("focus", () => {
      if (current !== look) focus(look);
    });
    observer.observe(button(look));
    show(look);
  }
  byId("save").addEventListener("click", save);
  byId("help-open").addEventListener("click", () => byId("help").showModal());
  window.addEventListener("beforeunload", (event) => {
    if (!isSaved && count((s) => s.verdict !== "right")) event.preventDefault();
  });
  tally();
  if (current) {
    button(current).tabIndex = 0;
    button(current).focus({ preventScroll: true });
  }
})();
