// Updates the elements that show values, and only those whose text differs.

import { balance, number, span, tenths } from "./format.js";

const states = JSON.parse(document.body.dataset.states);
const failures = JSON.parse(document.body.dataset.failures);
const offset = Number(document.body.dataset.now) - Date.now() / 1000;

/** The server's time. */
export const now = () => Date.now() / 1000 + offset;

const customerUrl = (name) => "/customer?" + new URLSearchParams({ name });

const FORMATS = {
  since: (cell, at) => clock(cell, at),
  until: (cell, at) => clock(cell, at),
  wait: (cell, [from, waited]) => {
    const changed = clock(cell, from);
    return from === null && waited !== null ? text(cell, span(waited)) : changed;
  },
  tenths: (cell, value) => text(cell, tenths(value)),
  balance: (cell, behind) => text(cell, balance(-behind)),
  span: (cell, seconds) => text(cell, seconds === null ? "–" : span(seconds)),
  parts: (cell, content) => { cell.hidden = !content; return text(cell.querySelector("strong"), content); },
  flag: (cell, on) => { cell.hidden = !on; return false; },
  meter: (cell, value) => { cell.hidden = value === null; cell.value = value ?? 1; return false; },
  customer: (cell, name) => link(cell, name, customerUrl),
  document: (cell, name) => text(cell, name),
};
const CLOCKS = new Set(["since", "until", "wait"]);
const FIELDS = {
  priority: (cell, level) => {
    for (const name of [...cell.classList]) if (/^p\d+$/.test(name)) cell.classList.remove(name);
    cell.classList.add(`p${Math.min(level, 9)}`);
    return text(cell, number(level));
  },
  state: (cell, code) => {
    cell.className = `state ${code}`;
    return text(cell, states[code] ?? code);
  },
  error: (cell, code) => text(cell, failures[code] ?? code ?? ""),
};

/** Shows a value; marks the cell when its text has changed. */
export function put(cell, value, quietly) {
  const format = FORMATS[cell.dataset.as] ?? FIELDS[cell.dataset.f];
  const changed = format ? format(cell, value) : text(cell, plain(value));
  if (changed && !quietly && !CLOCKS.has(cell.dataset.as)) flash(cell);
}

function plain(value) {
  if (value === null || value === undefined) return "–";
  return typeof value === "number" ? number(value) : String(value);
}

function text(cell, content) {
  if (cell.textContent === content) return false;
  cell.textContent = content;
  return true;
}

function link(cell, name, urlOf) {
  if (name === null) {
    cell.removeAttribute("href");
    return text(cell, "–");
  }
  cell.href = urlOf(name);
  return text(cell, name);
}

function clock(cell, at) {
  if (at === null || at === undefined) {
    delete cell.dataset.at;
    return text(cell, "–");
  }
  cell.dataset.at = at;
  return tick(cell);
}

/** Updates a running time. */
export function tick(cell) {
  const at = Number(cell.dataset.at);
  const seconds = cell.dataset.as === "until" ? at - now() : now() - at;
  // Without tenths of seconds, which would flicker.
  return text(cell, span(seconds < 10 ? Math.max(0, Math.floor(seconds)) : seconds).replace(/[.,]0 s$/, " s"));
}

// An animation needs no new layout; to remove and add a class would.
const reducedMotion = matchMedia("(prefers-reduced-motion: reduce)");
const dark = matchMedia("(prefers-color-scheme: dark)");

function flash(cell) {
  if (!reducedMotion.matches) cell.animate({ backgroundColor: [dark.matches ? "#4a421c" : "#fff3c4", "transparent"] }, 1200);
}

/** Shows the fields of a record in the cells of an element. */
export function fill(element, record, { quietly = false } = {}) {
  for (const cell of element.querySelectorAll("[data-f]")) {
    if (cell.dataset.f in record) put(cell, record[cell.dataset.f], quietly);
  }
}
