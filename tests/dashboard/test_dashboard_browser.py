"""The dashboard in a real browser: live updates, accessibility, and reconnection."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import httpx
import pytest
from apikit import Served, served, upload
from axe_playwright_python.sync_playwright import Axe
from dashkit import TcpProxy, open_page
from playwright.sync_api import Browser, Dialog, Page, expect
from resultkit import end_with_parts

from fairlead import Fairlead
from fairlead.i18n import LANGUAGES
from fairlead.model.engines import StepUse

pytestmark = pytest.mark.services

WAIT = 1000 * 20
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
PATHS = ("/", "/customers", "/documents", "/customer?name=Initech", "/customer/set?name=Initech")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One server; each test has a customer of its own."""
    with served(tmp_path_factory.mktemp("live") / "data", "--workers", "0") as running:
        yield running


def test_a_document_appears_by_itself_within_a_second(page: Page, server: Served) -> None:
    swift = server.customer("swift")
    upload(swift, b"first")
    open_page(page, server, "/documents?customer=swift")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.evaluate("document.body.dataset.untouched = 'yes'")
    # The best of three, as this computer may be busy.
    assert min(milliseconds_until_seen(page, swift, number) for number in range(3)) < 1000
    assert page.locator("body").get_attribute("data-untouched") == "yes"
    expect(page.locator("tbody tr")).to_have_count(4)
    expect(page.locator("tbody tr").first).to_contain_text("waiting")
    link = page.locator("tbody tr a").first
    assert (link.get_attribute("href") or "").startswith("/document/")


def test_attachments_appear_below_their_document_and_are_counted(
    page: Page, server: Served
) -> None:
    with Fairlead(server.data) as fairlead:
        fairlead.submit("live-mail", b"older", name="older.txt")
        mail = fairlead.submit("live-mail", b"From: someone", name="mail.eml")
        fairlead.submit("live-mail", b"newer", name="newer.txt")
        open_page(page, server, "/documents?customer=live-mail")
        names = page.locator("tbody th.name")
        expect(names).to_have_text(["newer.txt", "mail.eml", "older.txt"])
        end_with_parts(fairlead, mail, ["items.csv"])
        expect(names).to_have_text(
            ["newer.txt", "mail.eml", "mail.eml › items.csv", "older.txt"], timeout=WAIT
        )
        row = page.locator(f"tr[data-key='{mail.id}']")
        expect(row).to_contain_text("Attachments 0/1")
        expect(page.locator("tr.depth1")).to_have_count(1)
        (part,) = fairlead.documents(parent=mail.id)
        fairlead.cancel(part.id)
        expect(row).to_contain_text("Attachments 1/1", timeout=WAIT)


def milliseconds_until_seen(page: Page, customer: httpx.Client, number: int) -> int:
    page.evaluate(
        """() => { delete document.body.dataset.seen; new MutationObserver((_, self) => {
             document.body.dataset.seen = Date.now(); self.disconnect(); })
           .observe(document.querySelector('tbody'), { childList: true }) }"""
    )
    began: int = page.evaluate("Date.now()")
    upload(customer, f"document {number}".encode())
    page.locator("body[data-seen]").wait_for(timeout=WAIT)
    return int(page.locator("body").get_attribute("data-seen") or 0) - began


@pytest.mark.full
def test_cells_change_in_place_and_new_rows_wait_while_somebody_points(
    page: Page, server: Served
) -> None:
    acme = server.customer("steady")
    first = upload(acme, b"first").json()["id"]
    open_page(page, server, "/documents?customer=steady")
    row = page.locator(f"tr[data-key='{first}']")
    row.hover()
    before = row.bounding_box()
    upload(acme, b"second")
    acme.post(f"/v1/documents/{first}/cancel")
    expect(row.locator("[data-f=state]")).to_have_text("cancelled", timeout=WAIT)
    expect(page.locator("#news")).to_be_visible()
    assert row.bounding_box() == before
    page.locator("#news").click()
    expect(page.locator("tbody tr")).to_have_count(2)


def test_the_overview_of_an_empty_house_fills_itself(page: Page, data: Path) -> None:
    with served(data, "--workers", "0") as server:
        open_page(page, server, "/")
        expect(page.locator("main")).to_contain_text("No documents yet")
        upload(server.customer("acme"), b"first")
        expect(page.locator(".figures [data-f=waiting]")).to_have_text("1", timeout=WAIT)
        expect(page.locator("[data-list=waits]")).to_contain_text("acme", timeout=WAIT)


def test_the_use_of_steps_changes_by_itself(page: Page, server: Served) -> None:
    upload(server.customer("acme"), b"first")
    with Fairlead(server.data) as fairlead:
        fairlead.store.attend("elsewhere:1.1#1", 4, ["default"], [StepUse("read", 4, 1)])
        open_page(page, server, "/")
        steps = page.locator("[data-list=steps] tbody")
        expect(steps).to_have_text(re.compile(r"read\s*1 / 4"))
        uses = [StepUse("read", 4, 2), StepUse("classify", 8, 3)]
        fairlead.store.attend("elsewhere:1.1#1", 4, ["default"], uses)
        expect(steps).to_have_text(re.compile(r"read\s*2 / 4\s*classify\s*3 / 8"), timeout=WAIT)
        fairlead.store.leave("elsewhere:1.1#1")
        expect(page.locator("[data-when-empty=steps]")).to_be_visible(timeout=WAIT)


@pytest.mark.full
def test_customers_change_and_join_by_themselves(page: Page, server: Served) -> None:
    acme = server.customer("joiner")
    open_page(page, server, "/customers")
    for number in range(4):
        upload(acme, str(number).encode())
    row = page.locator("tr[data-key=joiner]")
    expect(row.locator("[data-f=pending]")).to_have_text("4", timeout=WAIT)
    expect(row.locator("[data-f=count]")).to_have_text("−3", timeout=WAIT)
    expect(row.locator("[data-f=priority]")).to_have_text("2", timeout=WAIT)
    upload(server.customer("newcomer"), b"x")
    expect(page.locator("tr[data-key=newcomer]")).to_be_visible(timeout=WAIT)
    server.operator.post("/v1/customers/joiner/pause")
    expect(row.locator("[data-f=paused]")).to_be_visible(timeout=WAIT)


def test_a_lost_connection_shows_and_heals(page: Page, data: Path) -> None:
    with served(data, "--workers", "0") as server:
        upload(server.customer("acme"), b"first")
        open_page(page, server, "/documents")
        port = server.port
        server.stop()
        expect(page.locator("#link.lost")).to_contain_text("connection lost", timeout=WAIT)
    with Fairlead(data) as fairlead:
        fairlead.submit("acme", b"meanwhile", name="meanwhile.txt")
    with served(data, "--workers", "0", "--port", str(port)) as server:
        # The session outlives the restart: the page shows what it missed.
        expect(page.locator("tbody")).to_contain_text("meanwhile.txt", timeout=WAIT)
        expect(page.locator("#link.live")).to_be_visible(timeout=WAIT)


@pytest.mark.full
@pytest.mark.parametrize("shared", [True, False])
def test_a_line_that_breaks_goes_on_without_a_gap(
    chromium: Browser, server: Served, *, shared: bool
) -> None:
    name = f"broken-{shared}"
    with TcpProxy(server.port) as proxy:
        acme = server.customer(name)
        upload(acme, b"first")
        context = chromium.new_context()
        page = context.new_page()
        if not shared:
            page.add_init_script("delete window.SharedWorker")  # the stream is the tab's own
        page.goto(server.login.replace(server.url, proxy.url))
        page.goto(f"{proxy.url}/documents?customer={name}")
        expect(page.locator("#link.live")).to_be_visible(timeout=WAIT)
        proxy.cut()
        expect(page.locator("#link.lost")).to_contain_text("connection lost", timeout=WAIT)
        upload(acme, b"second")
        proxy.restore()
        expect(page.locator("#link.live")).to_be_visible(timeout=WAIT)
        expect(page.locator("tbody tr")).to_have_count(2, timeout=WAIT)
        context.close()


@pytest.mark.full
def test_ten_tabs_are_live_at_once_over_one_stream(chromium: Browser, server: Served) -> None:
    acme = server.customer("tabs")
    upload(acme, b"first")
    context = chromium.new_context()
    tabs = [context.new_page() for _ in range(10)]
    tabs[0].goto(server.login)
    for tab in tabs:
        open_page(tab, server, "/documents?customer=tabs")
    end = time.monotonic() + WAIT / 1000
    while streams(server) != 1:  # streams of pages just left end a moment later
        assert time.monotonic() < end, f"{streams(server)} streams for ten tabs"
        tabs[0].wait_for_timeout(50)
    upload(acme, b"second")
    for tab in tabs:
        expect(tab.locator("tbody tr")).to_have_count(2, timeout=WAIT)
    context.close()


def streams(server: Served) -> int:
    """The number of open streams of the server."""
    match = re.search(r"^fairlead_http_streams (\d+)", server.operator.get("/metrics").text, re.M)
    assert match is not None
    return int(match[1])


@pytest.mark.full
def test_logging_out_ends_the_streams_of_other_tabs(chromium: Browser, server: Served) -> None:
    context = chromium.new_context()
    first, second = context.new_page(), context.new_page()
    first.goto(server.login)
    for tab in (first, second):
        open_page(tab, server, "/customers")
    first.locator(".out button").click()
    expect(first.locator("#key")).to_be_visible(timeout=WAIT)
    expect(second.locator("#key")).to_be_visible(timeout=WAIT)
    context.close()


def test_decisions_are_asked_in_a_dialog(page: Page, server: Served) -> None:
    acme = server.customer("decided")
    for number in range(3):
        upload(acme, str(number).encode())
    open_page(page, server, "/customer?name=decided")
    page.get_by_role("link", name="Pause").click()
    dialog = page.locator("dialog[open]")
    expect(dialog).to_contain_text("Pause decided?")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    page.get_by_role("link", name="Pause").click()
    dialog.get_by_role("button", name="Pause").click()
    expect(page.locator(".notice")).to_have_text("The customer is paused.")
    open_page(page, server, "/documents?customer=decided")
    page.get_by_role("button", name="Cancel all").click()
    expect(dialog).to_contain_text("Cancel 3 documents?")
    dialog.get_by_role("button", name="Cancel 3 documents").click()
    expect(page.locator(".notice")).to_have_text("3 documents were cancelled.")
    expect(page.locator("tbody .state.cancelled")).to_have_count(3)


def test_one_box_selects_all_and_they_are_deleted(page: Page, server: Served) -> None:
    acme = server.customer("selected")
    for number in range(3):
        upload(acme, str(number).encode())
    open_page(page, server, "/documents?customer=selected")
    boxes = page.locator("td.tick input")
    boxes.first.check()
    expect(page.locator("[data-selected]")).to_have_text(" (1)")
    page.get_by_label("Select all").check()
    expect(page.locator("[data-selected]")).to_have_text(" (3)")
    boxes.last.uncheck()
    assert not page.get_by_label("Select all").is_checked()
    page.get_by_role("button", name="Delete", exact=True).click()
    page.locator("dialog[open]").get_by_role("button", name="Delete 2 documents").click()
    expect(page.locator(".notice")).to_have_text("2 documents were deleted.")
    expect(boxes).to_have_count(1)


def test_the_id_of_a_document_is_copied(page: Page, server: Served) -> None:
    id_ = upload(server.customer("copied"), b"1").json()["id"]
    open_page(page, server, f"/document/{id_}")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=server.url)
    page.get_by_role("button", name="Copy").click()
    expect(page.locator("[data-copy]")).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == id_


@pytest.mark.parametrize("language", ["en", "es", "pt", "pl", "de"])
@pytest.mark.parametrize("width", [1280, 1920])
def test_no_card_of_the_overview_is_cut_off(
    chromium: Browser, full: Served, language: str, width: int
) -> None:
    context = chromium.new_context(
        viewport={"width": width, "height": 900},
        extra_http_headers={"Accept-Language": language},
    )
    page = context.new_page()
    open_page(page, full, "/")
    cut = page.eval_on_selector_all(
        ".card", "cards => cards.filter(c => c.scrollWidth > c.clientWidth).map(c => c.textContent)"
    )
    context.close()
    assert cut == []


def test_everything_is_reached_by_keyboard(page: Page, full: Served) -> None:
    open_page(page, full, "/customers")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    reached = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.outerHTML.slice(0, 200)"))
    for wanted in ('name="text"', 'name="show"', "sort=pending", "/customer?name=Initech"):
        assert any(wanted in name for name in reached), wanted


def test_nothing_runs_and_nothing_breaks_on_hostile_names(page: Page, full: Served) -> None:
    messages: list[str] = []

    def note(dialog: Dialog) -> None:
        messages.append(dialog.message)
        dialog.dismiss()

    page.on("dialog", note)
    open_page(page, full, "/documents?text=script")
    expect(page.locator("tbody")).to_contain_text('<script>alert("x")</script>')
    page.locator("tbody th a").first.click()
    expect(page.locator("h1")).to_contain_text('<script>alert("x")</script>')
    assert messages == []


@pytest.mark.full
def test_pages_are_accessible_in_light_and_dark(
    chromium: Browser, full: Served, empty: Served
) -> None:
    for server, paths in ((full, PATHS), (empty, PATHS[:3])):
        context = chromium.new_context()
        page = context.new_page()
        page.goto(server.url + "/login")
        assert violations(page) == []
        page.goto(server.login)
        for path in paths:
            open_page(page, server, path)
            assert violations(page) == [], path
        if server is full:
            for state in ("waiting", "failed", "done"):
                open_page(page, server, f"/documents?state={state}")
                open_page(
                    page, server, page.locator("tbody th a").first.get_attribute("href") or ""
                )
                assert violations(page) == [], state
            open_page(page, server, "/documents/retry?all=true")
            assert violations(page) == []
        context.close()


def violations(page: Page) -> list[str]:
    nodes = []
    for scheme in SCHEMES:
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        seen = Axe().run(page).response["violations"]
        nodes += [
            f"{scheme} {violation['id']}: {node['html']}"
            for violation in seen
            for node in violation["nodes"]
        ]
    return nodes


@pytest.mark.full
@pytest.mark.parametrize("language", LANGUAGES)
def test_pages_fit_a_phone_in_every_language(
    chromium: Browser, full: Served, language: str
) -> None:
    context = chromium.new_context(locale=language, viewport={"width": 390, "height": 800})
    page = context.new_page()
    for path in PATHS:
        open_page(page, full, path)
        assert page.evaluate("document.documentElement.lang") == language
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, path
    context.close()


@pytest.mark.full
def test_a_page_costs_little(page: Page, full: Served) -> None:
    open_page(page, full, "/")
    sizes = page.evaluate(
        """() => [...performance.getEntriesByType('resource'),
                 ...performance.getEntriesByType('navigation')]
             .filter((entry) => !entry.name.includes('/live'))
             .reduce((sum, entry) => sum + entry.encodedBodySize, 0)"""
    )
    assert sizes < 43_000


@pytest.mark.full
def test_clocks_run(page: Page, server: Served) -> None:
    upload(server.customer("clocked"), b"first")
    open_page(page, server, "/documents?customer=clocked")
    age = page.locator("tbody [data-f=at]")
    expect(age).not_to_have_text(age.inner_text(), timeout=WAIT)


def test_a_phone_shows_states_and_a_reader_sees_times_of_the_own_zone(
    chromium: Browser, server: Served
) -> None:
    """Regression: on a phone the state is off-screen; UTC only."""
    context = chromium.new_context(
        viewport={"width": 390, "height": 844}, timezone_id="Asia/Kolkata", locale="en-GB"
    )
    page = context.new_page()
    file = {"file": (40 * "long" + ".txt", b"x")}
    id_ = server.customer("phone").post("/v1/documents", files=file).json()["id"]
    open_page(page, server, "/documents?customer=phone")
    box = page.locator("tbody .state").first.bounding_box()
    assert box is not None
    assert box["x"] + box["width"] <= 390
    open_page(page, server, f"/document/{id_}")
    time_ = page.locator(".history time").first
    expect(time_).to_have_attribute("title", re.compile("UTC$"))
    minutes = [
        re.findall(r"\d+:(\d\d)", text or "")[0]
        for text in (time_.text_content(), time_.get_attribute("title"))
    ]
    assert (int(minutes[0]) - int(minutes[1])) % 60 == 30
    expect(page.locator("#utc")).to_be_hidden()
    context.close()
