// Questions before a decision come in a dialog; without scripts they are pages of their own.

const dialog = document.getElementById("asking");

export function askInPlace() {
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-ask]");
    if (link && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
      event.preventDefault();
      ask(link.href);
    } else if (event.target.closest("dialog [data-back]")) {
      event.preventDefault();
      dialog.close();
    }
  });
  document.addEventListener("submit", (event) => {
    const button = event.submitter;
    if (!button?.hasAttribute("data-ask-form")) return;
    event.preventDefault();
    const fields = new FormData(event.target, button);
    ask(`${button.formAction}?${new URLSearchParams(fields)}`);
  });
  const choice = document.getElementById("language");
  choice.addEventListener("change", () => choice.form.submit());
}

async function ask(address) {
  let question = null;
  try {
    const answer = await fetch(address, { headers: { Accept: "text/html" } });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    question = page.querySelector("[data-asking]");
  } catch {
    // Then as without scripts.
  }
  if (!question) {
    location.href = address;
    return;
  }
  dialog.replaceChildren(question);
  dialog.showModal();
}
