// Keeps a page up to date. Without this script, the page shows what it had when it was loaded.

import { fill, tick } from "./cells.js";
import { connect } from "./connection.js";
import { confirmInDialog } from "./confirm.js";
import { copyOnClick, showCopyButtons } from "./copy.js";
import { Documents } from "./documents.js";
import { followSelection } from "./selection.js";
import { List, LongTable, Table, inUse } from "./tables.js";

const LONG_TABLE_ROWS = 200;
const REFRESH_MS = 2000;

let parts;

function findParts() {
  const all = (selector) => [...document.querySelectorAll(selector)];
  parts = {
    figures: all("[data-figures]"),
    lists: all("[data-list]").map((table) => new List(table)),
    customers: all('[data-table="customers"]').map(customersTable),
    documents: all('[data-filter] [data-table="documents"]').map((table) => new Documents(table)),
    ofCustomer: document.querySelector("[data-customer]"),
    ofDocument: document.querySelector("[data-document]"),
    isEmpty: document.querySelector("[data-empty]") !== null,
    step: null,
  };
  showLocalTimes();
  showCopyButtons();
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
  return element.tBodies[0].rows.length > LONG_TABLE_ROWS ? new LongTable(element) : new Table(element);
}

function show(message) {
  if (parts.isEmpty && (message.documents || message.customers)) refresh();
  if (message.figures) showFigures(message.figures);
  for (const list of parts.lists) if (message[list.name]) list.show(message[list.name]);
  for (const [name, record] of Object.entries(message.customers ?? {})) showCustomer(name, record);
  for (const record of message.documents ?? []) showDocument(record);
}

function showFigures(figures) {
  for (const element of parts.figures) fill(element, figures);
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
  if (parts.ofCustomer?.dataset.customer === name) {
    fill(parts.ofCustomer, record);
    if ("paused" in record || "blocked" in record) refresh();
  }
}

function showDocument(record) {
  for (const table of parts.documents) table.show(record);
  if (parts.ofDocument?.dataset.document === record.id) refresh();
  if (parts.ofCustomer?.dataset.customer === record.customer && document.querySelector("[data-fresh]")) refresh();
}

// Charts, the page of a document and empty pages have no cells: their page is fetched again.
let timer = null;
let lastRefresh = 0;

function refresh({ whole = false } = {}) {
  if (timer !== null && !whole) return;
  clearTimeout(timer);
  timer = setTimeout(() => fetchPage(whole), whole ? 0 : Math.max(0, lastRefresh + REFRESH_MS - Date.now()));
}

async function fetchPage(whole) {
  timer = null;
  lastRefresh = Date.now();
  if (document.hidden && !whole) return;
  let response;
  try {
    response = await fetch(location.href, { headers: { Accept: "text/html" } });
  } catch {
    return; // no connection; the stream shows it, and reconnects
  }
  if (!response.ok || response.redirected) {
    if (response.redirected || response.status === 404) location.reload();
    return;
  }
  const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
  if (whole || parts.isEmpty || parts.ofDocument) replaceAll(fresh);
  else replaceParts(fresh);
}

function replaceParts(fresh) {
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

function replaceAll(fresh) {
  const old = document.getElementById("main");
  const other = fresh.getElementById("main");
  const typing = old.contains(document.activeElement) && document.activeElement.matches("input, select, pre");
  if (old.innerHTML === other.innerHTML || typing || document.querySelector("dialog[open]")) return;
  const focused = document.activeElement?.getAttribute("href");
  old.replaceChildren(...other.childNodes);
  if (focused) old.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
  findParts();
}

// Updates running times every second.
function runClocks() {
  if (!document.hidden) {
    for (const cell of document.querySelectorAll("[data-at]:not([data-table] *), [data-document] [data-at]")) tick(cell);
    for (const table of [...parts.customers, ...parts.documents]) table.runClocks();
  }
  // The place of a document in the queue changes without an event.
  if (parts.ofDocument?.dataset.pending && Date.now() - lastRefresh > 5000) refresh();
}

function showStatus(kind) {
  const link = document.getElementById("link");
  if (link.classList.contains(kind)) return;
  link.classList.remove("live", "lost");
  link.classList.add(kind);
  link.textContent = link.dataset[kind];
}

let queue = [];

function showInNextFrame(message) {
  if (queue.push(message) > 1) return;
  const showQueue = () => {
    const messages = queue;
    queue = [];
    for (const queued of messages) show(queued);
  };
  if (document.hidden) setTimeout(showQueue);
  else requestAnimationFrame(showQueue);
}

findParts();
confirmInDialog();
copyOnClick();
followSelection();
setInterval(runClocks, 1000);
connect((kind, data) => {
  if (kind === "change") showInNextFrame(data);
  else if (kind === "resync") refresh({ whole: true });
  else if (kind === "ended") location.reload();
  else showStatus(kind);
});
