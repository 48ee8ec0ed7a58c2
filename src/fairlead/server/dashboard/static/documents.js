// A list of documents: rows change in place, and new rows are added on top, or below their document,
// while nobody uses the list.

import { Table, inUse } from "./tables.js";

export class Documents {
  constructor(element) {
    this.table = new Table(element);
    this.box = element.closest("[data-filter]");
    this.filter = JSON.parse(this.box.dataset.filter);
    this.most = Number(this.box.dataset.most);
    this.button = document.getElementById("news");
    this.waiting = new Map();
    this.button.addEventListener("click", () => this.insert());
  }

  runClocks() {
    this.table.runClocks();
  }

  show(record) {
    if (this.table.set(record.id, view(record))) return;
    if (!this.most || record.only_update || !this.matches(record) || !this.isNewer(record)) return;
    this.waiting.set(record.id, record);
    if (inUse(this.box) || scrollY > 200) this.offer();
    else this.insert();
  }

  matches({ customer, state, priority, name }) {
    const filter = this.filter;
    return (!filter.customer || filter.customer === customer)
      && (!filter.state || filter.state === state)
      && (!filter.priority || filter.priority === priority)
      && (!filter.text || name.toLowerCase().includes(filter.text.toLowerCase()));
  }

  // Ids are in the order of submission, but documents enter the state of a filter in any order.
  isNewer({ id }) {
    const first = this.table.body.rows[0]?.dataset.key ?? "";
    return Boolean(this.filter.state) || id > first;
  }

  offer() {
    this.button.textContent = `${this.button.dataset.one} (${this.waiting.size})`;
    this.button.hidden = false;
  }

  insert() {
    for (const record of this.waiting.values()) {
      this.table.add(record.id, view(record), prepare, { first: true, below: record.parent });
    }
    this.waiting.clear();
    this.table.keep(this.most);
    this.button.hidden = true;
  }
}

function view(record) {
  return { ...record, error: record.error ?? "", wait: [record.wait_from, record.waited] };
}

function prepare(row, record) {
  const box = row.querySelector("input");
  if (box) {
    box.value = record.id;
    box.setAttribute("aria-label", record.full_name);
  }
  const link = row.querySelector("a.full");
  link.href = `/document/${encodeURIComponent(record.id)}`;
  link.title = record.full_name;
  const customer = row.querySelector('[data-f="customer"]');
  if (customer) customer.href = "/customer?" + new URLSearchParams({ name: record.customer });
}
