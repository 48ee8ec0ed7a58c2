// Keeps a page up to date. Without this script the page is the same, as of its loading.

import { fill, tick } from "./cells.js";
import { connect } from "./connection.js";
import { askInPlace } from "./asking.js";
import { Documents } from "./documents.js";
import { List, LongTable, Table, inUse } from "./tables.js";

const LONG = 200;
const REFRESH = 2000;

let parts;

function find() {
  const every = (selector) => [...document.querySelectorAll(selector)];
  const tables = every("[data-table]");
  parts = {
    figures: every("[data-figures]"),
    lists: every("[data-list]").map((each) => new List(each)),
    customers: tables.filter((each) => each.dataset.table === "customers").map(customersTable),
    documents: tables.filter((each) => each.dataset.table === "documents").map((each) => new Documents(each)),
    ofOne: document.querySelector("[data-customer]"),
    ofDocument: document.querySelector("[data-document]"),
    isEmpty: document.querySelector("[data-empty]") !== null,
    step: null,
  };
  showLocalTimes();
}

// Times in the reader's zone, with UTC as a tooltip.
function showLocalTimes() {
  for (const time of document.querySelectorAll("time[datetime]:not([title])")) {
    time.title = `${time.textContent} UTC`;
    const local = new Date(time.dateTime);
    time.textContent = local.toLocaleString(document.documentElement.lang, { dateStyle: "medium", timeStyle: "medium" });
  }
  document.getElementById("utc").hidden = true;
}

function customersTable(element) {
  return element.tBodies[0].rows.length > LONG ? new LongTable(element) : new Table(element);
}

function show(message) {
  if (parts.isEmpty && (message.documents || message.customers)) refresh();
  if (message.figures) showFigures(message.figures);
  for (const list of parts.lists) if (message[list.name]) list.show(message[list.name]);
  for (const [name, record] of Object.entries(message.customers ?? {})) showCustomer(name, record);
  for (const record of message.documents ?? []) showDocument(record);
}

function showFigures(figures) {
  for (const each of parts.figures) fill(each, figures);
  if (figures.step !== undefined && document.querySelector("[data-fresh]") && parts.figures.length) {
    if (parts.step !== null) refresh();
    parts.step = figures.step;
  }
}

function showCustomer(name, record) {
  for (const table of parts.customers) {
    const known = table.set(name, record);
    if (!known && table.element.dataset.shows === "all" && record.name) {
      table.add(name, record, null, { first: false });
    }
  }
  if (parts.ofOne?.dataset.customer === name) {
    fill(parts.ofOne, record);
    if ("paused" in record || "blocked" in record) refresh();
  }
}

function showDocument(record) {
  for (const table of parts.documents) table.show(record);
  if (parts.ofDocument?.dataset.document === record.id) refresh();
  if (parts.ofOne?.dataset.customer === record.customer && document.querySelector("[data-fresh]")) refresh();
}

// What cannot be told in cells is asked for again: charts, the page of a document, an empty page.
let due = null;
let last = 0;

function refresh({ whole = false } = {}) {
  if (due !== null && !whole) return;
  clearTimeout(due);
  due = setTimeout(() => ask(whole), whole ? 0 : Math.max(0, last + REFRESH - Date.now()));
}

async function ask(whole) {
  due = null;
  last = Date.now();
  if (document.hidden && !whole) return;
  let answer;
  try {
    answer = await fetch(location.href, { headers: { Accept: "text/html" } });
  } catch {
    return; // the connection is lost; it is told of, and heals
  }
  if (!answer.ok || answer.redirected) {
    if (answer.redirected || answer.status === 404) location.reload();
    return;
  }
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  if (whole || parts.isEmpty || parts.ofDocument) takeAll(fresh);
  else takeParts(fresh);
}

function takeParts(fresh) {
  for (const old of document.querySelectorAll("[data-fresh]")) {
    const other = fresh.querySelector(`[data-fresh="${CSS.escape(old.dataset.fresh)}"]`);
    if (other && other.innerHTML !== old.innerHTML) old.replaceChildren(...other.childNodes);
  }
  const paused = document.getElementById("paused");
  const buttons = [document, fresh].map((page) => page.querySelector(".head .buttons"));
  if (paused && buttons.every(Boolean) && !inUse(buttons[0])) {
    paused.hidden = fresh.getElementById("paused").hidden;
    if (buttons[0].innerHTML !== buttons[1].innerHTML) buttons[0].replaceWith(buttons[1]);
  }
}

function takeAll(fresh) {
  const old = document.getElementById("main");
  const other = fresh.getElementById("main");
  const typing = old.contains(document.activeElement) && document.activeElement.matches("input, select, pre");
  if (old.innerHTML === other.innerHTML || typing || document.querySelector("dialog[open]")) return;
  const kept = document.activeElement?.getAttribute("href");
  old.replaceChildren(...other.childNodes);
  if (kept) old.querySelector(`a[href="${CSS.escape(kept)}"]`)?.focus({ preventScroll: true });
  find();
}

// Running times go on every second.
function runClocks() {
  if (!document.hidden) {
    for (const cell of document.querySelectorAll("[data-at]:not([data-table] *)")) tick(cell);
    for (const table of [...parts.customers, ...parts.documents]) table.runClocks();
  }
  if (parts.ofDocument?.dataset.pending) sinceLast();
}

function sinceLast() {
  if (Date.now() - last > 5000) refresh(); // its place in line changes without a word about it
}

function status(kind) {
  const link = document.getElementById("link");
  if (link.classList.contains(kind)) return;
  link.classList.remove("live", "lost");
  link.classList.add(kind);
  link.textContent = link.dataset[kind];
}

let queue = [];

function later(message) {
  if (queue.push(message) > 1) return;
  const all = () => {
    const messages = queue;
    queue = [];
    for (const each of messages) show(each);
  };
  if (document.hidden) setTimeout(all);
  else requestAnimationFrame(all);
}

find();
askInPlace();
setInterval(runClocks, 1000);
connect((kind, data) => {
  if (kind === "change") later(data);
  else if (kind === "resync") refresh({ whole: true });
  else if (kind === "ended") location.reload();
  else status(kind);
});
