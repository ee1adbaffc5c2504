// What the process tells: how far it is, who has the pen, what it has done.
import { pageId } from "./api.js";
import { S, tell, loadPile } from "./state.js";
import { refreshPictures } from "./grid.js";

const $ = (id) => document.getElementById(id);
const STAGES = {
  examples: "Reading the examples", decoding: "Reading the pile", describing: "Looking at every image",
  labelling: "Labelling", adapting: "Adapting to your images",
};
let gone = 0, isLoading = false, lastMessage = "";

export function say(words, isBad = false) {
  const toast = $("toast");
  toast.textContent = words;
  toast.className = `toast shown${isBad ? " bad" : ""}`;
  clearTimeout(gone);
  gone = setTimeout(() => { toast.className = "toast"; }, 6000);
}

function draw() {
  const { status } = S, { job } = status;
  $("job").hidden = !job;
  if (job) {
    const stage = STAGES[job.stage] || { prepare: "Getting ready", answer: "Labelling anew", adapt: "Adapting to your images" }[job.name];
    $("job-words").textContent = job.is_cancelled ? "Stopping …" : job.total ? `${stage}: ${job.done.toLocaleString("en")} of ${job.total.toLocaleString("en")}` : `${stage} …`;
    if (job.total) $("job-bar").value = job.done / job.total;
    else $("job-bar").removeAttribute("value");
  }
  const looks = { tab: "Another tab works on this run; this one only looks.", process: "Another process works on this run; this page only looks." }[status.pen];
  notice(looks || "");
  $("pen").hidden = status.pen !== "tab";
  $("undo").disabled = status.pen !== "here";
  $("teach").disabled = status.pen !== "here" || !status.can_answer || Boolean(job) || !(status.has_news || !status.answer);
  $("adapt").disabled = status.pen !== "here" || !status.can_answer || Boolean(job);
  $("cancel").disabled = status.pen !== "here";
  $("saved").textContent = `${status.answer ? `Answer ${status.answer}` : "No answer yet"} · ${status.n_said.toLocaleString("en")} said, saved`;
  $("teach").classList.toggle("news", status.has_news && status.can_answer);
}

function notice(words) {
  $("notice").hidden = !words;
  $("notice").firstChild.textContent = words;
}

async function hear(event) {
  const before = S.status;
  S.status = JSON.parse(event.data);
  draw();
  tell("status");
  const { status } = S;
  if (status.message && !status.job && before.pen && (before.job || status.message !== lastMessage)) say(status.message, status.has_failed);
  lastMessage = status.message;
  const isNew = !S.pile || status.answer !== (S.pile.answer ? S.pile.answer.number : 0)
    || (status.said_version > S.pile.version && status.pen !== "here");
  if (isNew && !isLoading) {
    isLoading = true;
    try {
      await loadPile();
    } finally {
      isLoading = false;
    }
  } else if (status.has_pictures && (before.job && !status.job || !before.has_pictures)) refreshPictures();
}

export function listen() {
  const source = new EventSource(`/events?page=${encodeURIComponent(pageId)}`);
  source.onmessage = hear;
  source.onerror = () => {
    S.status = { ...S.status, pen: "none" };
    tell("status");
    notice(source.readyState === EventSource.CLOSED
      ? "appl studio was started anew: load this page again."
      : "appl studio has ended, or cannot be reached. What was shown as saved is saved.");
    $("pen").hidden = true;
  };
}
