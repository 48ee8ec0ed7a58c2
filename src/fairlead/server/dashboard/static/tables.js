// Tables whose rows have keys, and short lists that are replaced as a whole.

import { fill, tick } from "./cells.js";

/** Whether the pointer or the focus is in this element: then nothing in it may move. */
export function inUse(element) {
  return element.matches(":hover") || element.contains(document.activeElement);
}

/** A copy of the page's template of a row. */
function newRow(name) {
  const template = document.querySelector(`template[data-row="${name}"]`);
  return template.content.firstElementChild.cloneNode(true);
}

function depthOf(row) {
  return Number(row?.className.match(/depth(\d)/)?.[1] ?? 0);
}

/** Rows by key: changed cells are shown immediately, rows keep their places. */
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

  add(key, record, prepare, { first, below = null }) {
    const row = newRow(this.name);
    row.dataset.key = key;
    prepare?.(row, record);
    fill(row, record);
    const above = this.lastBelow(below);
    if (above) {
      row.className = `depth${Math.min(3, depthOf(this.rows.get(below)) + 1)}`;
      above.after(row);
    } else if (first) this.body.prepend(row);
    else this.body.append(row);
    this.rows.set(key, row);
  }

  /** The last row that belongs to the row of this key; null: there is no such row. */
  lastBelow(key) {
    let last = this.rows.get(key) ?? null;
    const depth = depthOf(last);
    while (last?.nextElementSibling && depthOf(last.nextElementSibling) > depth) last = last.nextElementSibling;
    return last;
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

const CATCH_UP_MS = 10000;
const ROWS_PER_FRAME = 20;
const MARGIN_ROWS = 5;

/** A long table, in which each change costs a layout of all rows. Changes of rows that are not
 *  visible wait: they are shown when the rows are scrolled to, or some at a time. */
export class LongTable extends Table {
  constructor(element) {
    super(element);
    this.late = new Map();
    this.list = [...this.rows.keys()];
    this.places = new Map(this.list.map((key, place) => [key, place]));
    this.findVisible();
    let isScheduled = false;
    addEventListener("scroll", () => {
      if (isScheduled) return;
      isScheduled = true;
      requestAnimationFrame(() => {
        isScheduled = false;
        this.findVisible();
        this.runClocks();
      });
    }, { passive: true });
    setInterval(() => requestAnimationFrame(() => this.catchUp()), CATCH_UP_MS);
  }

  // All rows have the same height, so the visible ones follow from that of the table.
  findVisible() {
    const { top, height } = this.body.getBoundingClientRect();
    const rowHeight = height / this.list.length;
    this.from = Math.floor(-top / rowHeight) - MARGIN_ROWS;
    this.to = Math.ceil((innerHeight - top) / rowHeight) + MARGIN_ROWS;
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
    for (const key of [...this.late.keys()].slice(0, ROWS_PER_FRAME)) this.showLate(key);
    if (this.late.size) requestAnimationFrame(() => this.catchUp());
  }

  showLate(key) {
    const record = this.late.get(key);
    this.late.delete(key);
    if (record) fill(this.rows.get(key), record, { quietly: true });
  }

  runClocks() {
    for (const key of this.list.slice(Math.max(0, this.from), this.to + 1)) {
      this.showLate(key);
      for (const cell of this.rows.get(key).querySelectorAll("[data-at]")) tick(cell);
    }
  }
}

/** A list whose rows are all replaced; it waits while the pointer or the focus is in it. */
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
