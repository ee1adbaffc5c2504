// Requests to the process behind the page. What changes something goes one after the other, with
// the token of this page.
const meta = (name) => document.querySelector(`meta[name="appl-${name}"]`).content;
export const pageId = meta("page");

async function answered(response) {
  const type = response.headers.get("content-type") || "";
  const body = type.startsWith("application/json") ? await response.json() : {};
  if (!response.ok) throw new Error(body.error || `the process answered ${response.status}`);
  return body;
}

export const get = async (path) => answered(await fetch(path, { cache: "no-store" }));

let last = Promise.resolve();

export function post(path, body = {}) {
  const send = async () =>
    answered(
      await fetch(path, {
        method: "POST",
        headers: { "content-type": "application/json", "x-appl-token": meta("token") },
        body: JSON.stringify(body),
      }),
    );
  const mine = last.then(send, send);
  last = mine.catch(() => {});
  return mine;
}
