// The box that selects all rows of a list, and the number of selected rows. Without scripts, boxes are
// selected one by one.

export function followSelection() {
  document.addEventListener("change", ({ target }) => {
    if (target.matches("[data-select-all]")) {
      for (const box of boxes()) box.checked = target.checked;
    }
    if (target.matches("[data-select-all], td.tick input")) showSelection();
  });
  showSelection();
}

const boxes = () => [...document.querySelectorAll("td.tick input")];

export function showSelection() {
  const all = document.querySelector("[data-select-all]");
  if (!all) return;
  const number = boxes().filter((box) => box.checked).length;
  all.hidden = false;
  all.checked = number > 0 && number === boxes().length;
  all.indeterminate = number > 0 && !all.checked;
  document.querySelector("[data-selected]").textContent = number ? ` (${number})` : "";
}
