// Shows confirmations in a dialog; without scripts they are pages of their own.

const dialog = document.getElementById("confirmation");

export function confirmInDialog() {
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-confirm]");
    if (link && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
      event.preventDefault();
      openDialog(link.href);
    } else if (event.target.closest("dialog [data-back]")) {
      event.preventDefault();
      dialog.close();
    }
  });
  document.addEventListener("submit", (event) => {
    const button = event.submitter;
    if (!button?.hasAttribute("data-confirm-form")) return;
    event.preventDefault();
    const fields = new FormData(event.target, button);
    openDialog(`${button.formAction}?${new URLSearchParams(fields)}`);
  });
  const choice = document.getElementById("language");
  choice.addEventListener("change", () => choice.form.submit());
}

async function openDialog(url) {
  let form = null;
  try {
    const response = await fetch(url, { headers: { Accept: "text/html" } });
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    form = page.querySelector("[data-confirmation]");
  } catch {
    // Open the page instead, as without scripts.
  }
  if (!form) {
    location.href = url;
    return;
  }
  dialog.replaceChildren(form);
  dialog.showModal();
}
