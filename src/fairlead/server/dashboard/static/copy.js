// Buttons that copy the text of an element.

export function copyOnClick() {
  document.addEventListener("click", async ({ target }) => {
    const button = target.closest("[data-copy]");
    if (!button) return;
    const source = document.getElementById(button.dataset.copy);
    try {
      await navigator.clipboard.writeText(source.textContent);
    } catch { // no permission, or no HTTPS
      getSelection().selectAllChildren(source);
      document.execCommand("copy");
    }
    button.textContent = button.dataset.done;
  });
}

export function showCopyButtons() {
  for (const button of document.querySelectorAll("[data-copy]")) button.hidden = false;
}
