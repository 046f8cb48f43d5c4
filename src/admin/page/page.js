/**
 * Keeps the page at `/` current: reads it again every two seconds, and changes only the parts of the
 * document that differ, so that focus, selection and scroll position stay. Events come as they happen;
 * without that stream they are read with the rest.
 */

const PERIOD_MS = 2_000;
const TIMEOUT_MS = 8_000;

const root = document.documentElement;

function keyOf(node) {
  return node.dataset?.key;
}

function sameKind(a, b) {
  return a.nodeName === b.nodeName && keyOf(a) === keyOf(b);
}

function change(now, next) {
  if (now.nodeType !== Node.ELEMENT_NODE) {
    if (now.data !== next.data) now.data = next.data;
    return;
  }
  // The script writes these itself.
  if (now.hasAttribute("data-own")) return;
  for (const { name } of [...now.attributes]) {
    if (!next.hasAttribute(name) && name !== "open") now.removeAttribute(name);
  }
  for (const { name, value } of next.attributes) {
    if (now.getAttribute(name) !== value) now.setAttribute(name, value);
  }
  changeChildren(now, next);
}

function changeChildren(now, next) {
  const keyed = new Map([...now.children].map((child) => [keyOf(child), child]));
  let at = now.firstChild;
  for (const wanted of [...next.childNodes]) {
    const key = keyOf(wanted);
    const found = key === undefined ? at : keyed.get(key);
    if (!found || !sameKind(found, wanted)) {
      now.insertBefore(wanted, at);
      continue;
    }
    if (found === at) at = at.nextSibling;
    else now.insertBefore(found, at);
    change(found, wanted);
  }
  while (at) {
    const after = at.nextSibling;
    at.remove();
    at = after;
  }
}

function say(link, text) {
  root.dataset.link = link;
  const place = document.getElementById("link");
  if (place.textContent !== text) place.textContent = text;
}

async function refresh() {
  const signal = AbortSignal.timeout(TIMEOUT_MS);
  const answer = await fetch("/", { cache: "no-store", signal });
  if (!answer.ok) throw new Error(`status ${answer.status}`);
  const next = new DOMParser().parseFromString(await answer.text(), "text/html");
  // Another version of the proxy has another script.
  if (next.documentElement.dataset.version !== root.dataset.version) location.reload();
  document.title = next.title;
  const icon = next.querySelector("link[rel=icon]").getAttribute("href");
  const link = document.querySelector("link[rel=icon]");
  if (link.getAttribute("href") !== icon) link.setAttribute("href", icon);
  change(document.body, next.body);
}

const ROWS = 25;

function eventRow({ seq, at, kind, text, effect, severity, pending }) {
  const row = document.createElement("tr");
  row.dataset.key = seq;
  const head = row.appendChild(document.createElement("th"));
  head.scope = "row";
  head.className = "time";
  const time = head.appendChild(document.createElement("time"));
  time.dateTime = at;
  time.textContent = at.slice(11, 19);
  const cell = row.appendChild(document.createElement("td"));
  cell.className = "";
  const mark = cell.appendChild(document.createElement("span"));
  mark.className = `mark ${severity === "info" ? "idle" : "bad"}`;
  mark.textContent = kind;
  const later = pending ? " (effect follows within a minute)" : "";
  cell.append(` ${text}${effect && `: ${effect}`}${later}`);
  return row;
}

function showEvent(section, event) {
  const body = section.querySelector("tbody");
  // The table comes with the first event.
  if (!body) return delete section.dataset.own;
  const row = eventRow(event);
  const known = [...body.children].find((one) => keyOf(one) === keyOf(row));
  if (known) change(known, row);
  else if (Number(keyOf(body.firstElementChild)) > event.seq) return;
  else body.prepend(row);
  while (body.children.length > ROWS) body.lastElementChild.remove();
}

let stream;

/** While the stream is open the list of events is its own, and reading the page does not change it. */
function followEvents() {
  if (stream?.readyState === EventSource.CLOSED) stream = undefined;
  if (document.hidden) {
    stream?.close();
    stream = undefined;
  }
  const section = document.querySelector("[data-last-event]");
  if (!stream && !document.hidden) {
    stream = new EventSource(`/events?follow&since=${section.dataset.lastEvent}`);
    stream.onerror = () => delete section.dataset.own;
    // Another process may have other events of the same numbers: all are read again.
    stream.onopen = () => refresh().then(() => section.dataset.own = "", stream?.onerror);
    for (const type of ["message", "changed"]) {
      stream.addEventListener(type, ({ data }) => showEvent(section, JSON.parse(data)));
    }
  }
  if (!stream) delete section.dataset.own;
}

document.addEventListener("visibilitychange", followEvents);

let lostSince = "";

async function run() {
  // A page that nobody sees asks nothing.
  if (!document.hidden) {
    try {
      await refresh();
      followEvents();
      lostSince = "";
      say("live", "Live, every 2 s");
    } catch {
      lostSince ||= new Date().toLocaleTimeString();
      say("lost", `Disconnected since ${lostSince}: what follows is old`);
      document.title = "Disconnected - Postern";
    }
  }
  setTimeout(run, PERIOD_MS);
}

run();
