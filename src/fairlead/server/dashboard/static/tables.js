// Tables whose rows have keys, and short lists that are shown as a whole.

import { fill, tick } from "./cells.js";

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

  runClocks() {
    for (const cell of this.body.querySelectorAll("[data-at]")) tick(cell);
  }
}

const LATE = 10000;
const AT_ONCE = 20;
const AROUND = 5;

/** A long table: rows that nobody sees are brought up to date some at a time, for each change of
 *  such a table costs a layout of all of it; and in time when they are scrolled to. */
export class LongTable extends Table {
  constructor(element) {
    super(element);
    this.late = new Map();
    this.list = [...this.rows.keys()];
    this.places = new Map(this.list.map((key, place) => [key, place]));
    this.look();
    let asked = false;
    addEventListener("scroll", () => {
      if (asked) return;
      asked = true;
      requestAnimationFrame(() => {
        asked = false;
        this.look();
        this.runClocks();
      });
    }, { passive: true });
    setInterval(() => requestAnimationFrame(() => this.catchUp()), LATE);
  }

  // All rows are equally high, so where they lie need not be asked one by one.
  look() {
    const { top, height } = this.body.getBoundingClientRect();
    const each = height / this.list.length;
    this.from = Math.floor(-top / each) - AROUND;
    this.to = Math.ceil((innerHeight - top) / each) + AROUND;
  }

  set(key, record) {
    if (!this.rows.has(key)) return false;
    const place = this.places.get(key);
    if (place >= this.from && place <= this.to) return super.set(key, record);
    this.late.set(key, { ...this.late.get(key), ...record });
    return true;
  }

  add(key, record, prepare, where) {
    super.add(key, record, prepare, where);
    this.places.set(key, this.list.push(key) - 1);
  }

  catchUp() {
    for (const key of [...this.late.keys()].slice(0, AT_ONCE)) this.settle(key);
    if (this.late.size) requestAnimationFrame(() => this.catchUp());
  }

  settle(key) {
    const record = this.late.get(key);
    this.late.delete(key);
    if (record) fill(this.rows.get(key), record, { quietly: true });
  }

  runClocks() {
    for (const key of this.list.slice(Math.max(0, this.from), this.to + 1)) {
      this.settle(key);
      for (const cell of this.rows.get(key).querySelectorAll("[data-at]")) tick(cell);
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
