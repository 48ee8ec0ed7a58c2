// Tables whose rows have keys, and short lists that are shown as a whole.

import { fill } from "./cells.js";

/** Whether somebody points at, or types in, this element: then nothing in it may move. */
export function inUse(element) {
  return element.matches(":hover") || element.contains(document.activeElement);
}

/** A new row, made from the page's own template. */
function newRow(name) {
  const made = document.querySelector(`template[data-row="${name}"]`);
  return made.content.firstElementChild.cloneNode(true);
}

/** Rows by key: changed cells are shown at once, rows keep their places. */
export class Table {
  constructor(element) {
    this.name = element.dataset.table;
    this.element = element;
    this.body = element.tBodies[0];
    this.rows = new Map([...this.body.rows].map((row) => [row.dataset.key, row]));
  }

  set(key, record) {
    const row = this.rows.get(key);
    if (row) fill(row, record);
    return Boolean(row);
  }

  add(key, record, prepare, { first }) {
    const row = newRow(this.name);
    row.dataset.key = key;
    prepare?.(row, record);
    fill(row, record);
    if (first) this.body.prepend(row);
    else this.body.append(row);
    this.rows.set(key, row);
  }

  keep(most) {
    while (this.body.rows.length > most) {
      const last = this.body.lastElementChild;
      this.rows.delete(last.dataset.key);
      last.remove();
    }
  }
}

/** A list that is replaced row by row; it waits while somebody points at it. */
export class List {
  constructor(element) {
    this.name = element.dataset.list;
    this.element = element;
    this.empty = document.querySelector(`[data-when-empty="${this.name}"]`);
    this.waiting = null;
    for (const event of ["pointerleave", "focusout"]) {
      element.addEventListener(event, () => setTimeout(() => this.waiting && this.show(this.waiting)));
    }
  }

  show(records) {
    if (inUse(this.element)) {
      this.waiting = records;
      return;
    }
    this.waiting = null;
    const body = this.element.tBodies[0];
    while (body.rows.length > records.length) body.lastElementChild.remove();
    while (body.rows.length < records.length) body.append(newRow(this.name));
    records.forEach((record, place) => {
      fill(body.rows[place], record);
      const link = body.rows[place].querySelector('[data-as="document"]');
      if (link) {
        link.href = `/document/${encodeURIComponent(record.document)}`;
        link.title = record.worker;
      }
    });
    this.element.hidden = records.length === 0;
    if (this.empty) this.empty.hidden = records.length > 0;
  }
}
