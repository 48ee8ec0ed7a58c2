// Uploads files from the button or dropped on the page, one request for each, one after another.

const box = document.getElementById("upload");
const bar = box.querySelector("progress");
const status = box.querySelector("[role=status]");
const failures = box.querySelector("ul");
const picker = box.querySelector("input");
const queue = [];
let done = 0, number = 0, isRunning = false, depth = 0;

function add(files) {
  if (!isRunning) [done, number] = [0, 0], failures.replaceChildren();
  queue.push(...files);
  number += files.length;
  if (!isRunning && queue.length) run();
}

async function run() {
  isRunning = true;
  bar.hidden = false;
  while (queue.length) {
    const file = queue.shift();
    showProgress(0);
    try {
      await send(file);
      done += 1;
    } catch (error) {
      const line = document.createElement("li");
      line.textContent = `${file.name}: ${error.message}`;
      failures.append(line);
    }
  }
  isRunning = false;
  bar.hidden = true;
  showProgress(0);
}

function showProgress(fraction) {
  bar.max = number;
  bar.value = number - queue.length - (isRunning ? 1 - fraction : 0);
  status.textContent = box.dataset.progress.replace("{done}", done).replace("{number}", number);
}

function send(file) {
  const form = new FormData();
  if (box.dataset.customer) form.append("customer", box.dataset.customer);
  form.append("file", file, file.name);
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", "/v1/documents");
    request.setRequestHeader("Accept-Language", document.documentElement.lang);
    request.upload.addEventListener("progress", (event) => showProgress(event.loaded / event.total));
    request.addEventListener("error", () => reject(new Error(box.dataset.lost)));
    request.addEventListener("load", () => {
      if (request.status === 202) resolve();
      else reject(new Error(detail(request)));
    });
    request.send(form);
  });
}

function detail(request) {
  try {
    return JSON.parse(request.responseText).detail;
  } catch {
    return `${request.status}`;
  }
}

const hasFiles = (event) => event.dataTransfer?.types.includes("Files");

function mark(isOver) {
  document.body.classList.toggle("dropping", isOver);
}

addEventListener("dragenter", (event) => {
  if (hasFiles(event)) mark((depth += 1) > 0);
});
addEventListener("dragleave", (event) => {
  if (hasFiles(event)) mark((depth -= 1) > 0);
});
addEventListener("dragover", (event) => {
  if (hasFiles(event)) event.preventDefault();
});
addEventListener("drop", (event) => {
  if (!hasFiles(event)) return;
  event.preventDefault();
  mark((depth = 0) > 0);
  add([...event.dataTransfer.files]);
});
picker.addEventListener("change", () => {
  add([...picker.files]);
  picker.value = "";
});
addEventListener("beforeunload", (event) => {
  if (isRunning) event.preventDefault();
});
box.hidden = false;
