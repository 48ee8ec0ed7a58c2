// Keeps a page without a session up to date: fetches it again while it is visible.
const EVERY_MS = 20_000;

async function refresh() {
  if (document.hidden) return;
  const response = await fetch(location.href, { cache: "no-store" }).catch(() => null);
  if (!response?.ok) return;
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  document.querySelector("main").replaceWith(page.querySelector("main"));
}

setInterval(refresh, EVERY_MS);
document.addEventListener("visibilitychange", refresh);
