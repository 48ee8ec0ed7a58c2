"""The page of the priority system, and uploads in the browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from apikit import Served, served
from dashkit import customer, operator, text, tree
from playwright.sync_api import Page, expect

from fairlead import Fairlead
from fairlead.i18n import LANGUAGES

pytestmark = pytest.mark.services

TITLES = {
    "en": "Our document priority system",
    "es": "Nuestro sistema de prioridad de documentos",
    "pt": "Nosso sistema de prioridade de documentos",
    "pl": "Nasz system priorytetów dokumentów",
    "de": "Unser Dokumenten-Prioritätssystem",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server without workers; acme has sent five documents, bolt a secret one."""
    data = tmp_path_factory.mktemp("page") / "data"
    data.mkdir()
    (data / "fairlead.toml").write_text('frame_ancestors = ["http://localhost:*"]\n')
    with Fairlead(data) as fairlead:
        fairlead.submit_many("acme", [(b"%d" % n, f"letter {n}.txt") for n in range(5)])
        fairlead.submit("bolt", b"secret", name="secret.txt")
        fairlead.customers.set("bolt", reset_interval=600, thresholds=(-1, -3))
    with served(data, "--workers", "0") as running:
        yield running


def test_the_page_is_made_from_the_settings_in_force(server: Served) -> None:
    acme = text(customer(server, "acme").get("/priority"))
    assert "25 min" in acme
    assert "letter 4.txt" in acme
    assert "secret.txt" not in acme
    assert "bolt" not in acme
    page = tree(customer(server, "bolt").get("/priority"))
    bounds = [cell.text_content().strip() for cell in page.xpath("//tbody//td[2]")]
    assert [bound.replace("−", "-") for bound in bounds] == ["≥ -1", "< -1", "< -3"]
    assert "10 min" in page.text_content()
    assert "acme" not in page.text_content()


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_page_speaks_five_languages(server: Served, language: str) -> None:
    answer = customer(server, "acme").get("/priority", headers={"Accept-Language": language})
    assert TITLES[language] in text(answer)


def test_operators_see_the_rule_and_the_page_of_a_customer(server: Served) -> None:
    browser = operator(server)
    assert "Where you stand" not in text(browser.get("/priority"))
    assert "letter 4.txt" in text(browser.get("/priority?customer=acme"))
    assert "secret.txt" not in text(customer(server, "acme").get("/priority?customer=bolt"))


def test_a_customer_uploads_files_in_the_browser(
    server: Served, page: Page, tmp_path: Path
) -> None:
    files = [tmp_path / name for name in ("one.txt", "two.txt", "empty.txt")]
    for file in files[:2]:
        file.write_text(f"text of {file.name}")
    files[2].write_text("")
    page.goto(f"{server.url}/login")
    page.fill("input[name=key]", server.key("uploader"))
    page.click("main button")
    expect(page.locator("#upload")).to_be_visible()  # its script runs
    page.set_input_files("#upload input", files)
    expect(page.locator("#upload [role=status]")).to_have_text("Uploaded: 2 of 3")
    expect(page.locator("#upload li")).to_contain_text("empty.txt")
    with Fairlead(server.data) as fairlead:
        names = {document.name for document in fairlead.documents(customer="uploader")}
    assert names == {"one.txt", "two.txt"}


def test_an_operator_drops_files_as_a_customer(server: Served, page: Page) -> None:
    page.goto(server.login)
    page.goto(f"{server.url}/documents")
    expect(page.locator("#upload")).to_have_count(0)
    page.goto(f"{server.url}/customer?name=bolt")
    expect(page.locator("#upload")).to_be_visible()
    page.evaluate(
        """() => {
          const files = new DataTransfer();
          files.items.add(new File(["dropped"], "dropped.txt"));
          const options = { dataTransfer: files, bubbles: true, cancelable: true };
          document.body.dispatchEvent(new DragEvent("drop", options));
        }"""
    )
    expect(page.locator("#upload [role=status]")).to_have_text("Uploaded: 1 of 1")
    with Fairlead(server.data) as fairlead:
        assert fairlead.documents(customer="bolt").items[0].name == "dropped.txt"


def test_a_blocked_customer_is_marked_with_the_reason(server: Served) -> None:
    server.operator.post("/v1/customers", json={"name": "dock", "pending_cap": 0})
    server.operator.post("/v1/customers/dock/block", json={"reason": "unpaid since May"})
    row = tree(operator(server).get("/customers")).xpath("//tr[@data-key='dock']//th")[0]
    shown = row.xpath(".//span[contains(@class, 'state') and not(@hidden)]")
    assert [span.text_content() for span in shown] == ["blocked"]
    for browser, path in (
        (operator(server), "/customer?name=dock"),
        (customer(server, "dock"), "/"),
    ):
        assert "New documents are refused: unpaid since May" in text(browser.get(path))
    warning = tree(operator(server).get("/customer?name=dock")).xpath("//p[@class='warn']")
    assert len(warning) == 1, "not in the colour of what went well"
    server.operator.post("/v1/customers/dock/unblock")
    assert "are refused" not in text(operator(server).get("/customer?name=dock"))


def test_a_cap_of_zero_is_shown_as_one(server: Served) -> None:
    server.operator.post("/v1/customers", json={"name": "ebb", "pending_cap": 0})
    page = tree(operator(server).get("/customer?name=ebb"))
    shown = page.xpath("//dt[.='Cap on pending documents']/following-sibling::dd[1]")
    assert shown[0].text_content() == "0"


def test_an_operator_makes_a_link_and_a_shop_embeds_it(server: Served, page: Page) -> None:
    page.goto(f"{server.url}/login")
    page.fill("input[name=key]", (server.data / "operator.key").read_text())
    page.click("main button")
    page.goto(f"{server.url}/customer?name=acme")
    page.get_by_role("link", name="Links to the page").click()
    page.get_by_role("button", name="Create a link").click()
    url = page.locator("#new-link").inner_text()
    page.context.clear_cookies()
    frame = page.frame_locator("iframe")
    embed(page, server.url.replace("127.0.0.1", "localhost"), f"{url}?language=de")
    expect(frame.get_by_role("heading", level=1)).to_have_text(TITLES["de"])
    frame.get_by_role("link", name="English").click()
    expect(frame.get_by_role("heading", level=1)).to_have_text(TITLES["en"])
    expect(frame.get_by_text("letter 4.txt")).to_be_visible()
    expect(frame.get_by_text("secret.txt")).to_have_count(0)
    with page.expect_event("console", lambda message: "frame-ancestors" in message.text):
        embed(page, server.url, url)
    expect(frame.get_by_text("letter 4.txt")).to_have_count(0)


def embed(page: Page, site: str, url: str) -> None:
    """Show the address in a frame of a page of the site."""
    page.goto(f"{site}/livez")
    page.evaluate(
        "url => document.body.append(Object.assign(document.createElement('iframe'), {src: url}))",
        url,
    )
