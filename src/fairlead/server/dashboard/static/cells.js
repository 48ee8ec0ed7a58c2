// Puts values into the elements that show them, and only where they differ.

import { balance, number, span, tenths } from "./format.js";

const states = JSON.parse(document.body.dataset.states);
const failures = JSON.parse(document.body.dataset.failures);
const behind = Number(document.body.dataset.now) - Date.now() / 1000;

/** The server's time. */
export const now = () => Date.now() / 1000 + behind;

const customerAddress = (name) => "/customer?" + new URLSearchParams({ name });

const WAYS = {
  since: (cell, at) => clock(cell, at),
  until: (cell, at) => clock(cell, at),
  wait: (cell, [from, waited]) => {
    const changed = clock(cell, from);
    return from === null && waited !== null ? text(cell, span(waited)) : changed;
  },
  tenths: (cell, value) => text(cell, tenths(value)),
  balance: (cell, behind) => text(cell, balance(-behind)),
  span: (cell, seconds) => text(cell, seconds === null ? "–" : span(seconds)),
  flag: (cell, on) => { cell.hidden = !on; return false; },
  meter: (cell, value) => { cell.hidden = value === null; cell.value = value ?? 1; return false; },
  customer: (cell, name) => link(cell, name, customerAddress),
  document: (cell, name) => text(cell, name),
};
const CLOCKS = new Set(["since", "until", "wait"]);
const FIELDS = {
  priority: (cell, level) => {
    for (const each of [...cell.classList]) if (/^p\d+$/.test(each)) cell.classList.remove(each);
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
  const way = WAYS[cell.dataset.as] ?? FIELDS[cell.dataset.f];
  const changed = way ? way(cell, value) : text(cell, shown(value));
  if (changed && !quietly && !CLOCKS.has(cell.dataset.as)) flash(cell);
}

function shown(value) {
  if (value === null || value === undefined) return "–";
  return typeof value === "number" ? number(value) : String(value);
}

function text(cell, words) {
  if (cell.textContent === words) return false;
  cell.textContent = words;
  return true;
}

function link(cell, name, address) {
  if (name === null) {
    cell.removeAttribute("href");
    return text(cell, "–");
  }
  cell.href = address(name);
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

/** Brings a running time up to now. */
export function tick(cell) {
  const at = Number(cell.dataset.at);
  const seconds = cell.dataset.as === "until" ? at - now() : now() - at;
  // Tenths would flicker; whole seconds are enough for what runs.
  return text(cell, span(seconds < 10 ? Math.max(0, Math.floor(seconds)) : seconds).replace(/[.,]0 s$/, " s"));
}

// An animation of its own needs no new layout, as a class that is taken off and put on would.
const calm = matchMedia("(prefers-reduced-motion: reduce)");
const dark = matchMedia("(prefers-color-scheme: dark)");

function flash(cell) {
  if (!calm.matches) cell.animate({ backgroundColor: [dark.matches ? "#4a421c" : "#fff3c4", "transparent"] }, 1200);
}

/** Shows the values of a record in all cells of an element. */
export function fill(element, record, { quietly = false } = {}) {
  for (const cell of element.querySelectorAll("[data-f]")) {
    if (cell.dataset.f in record) put(cell, record[cell.dataset.f], quietly);
  }
}
