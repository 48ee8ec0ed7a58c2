"""Every page in every language, without scripts: content, permissions and refusals."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import httpx
import pytest
from apikit import Served, problem, served, upload
from bench.installation import BURSTS, HOSTILE, STEADY
from dashkit import client, customer, operator, text, tree

from fairlead import Fairlead
from fairlead.i18n import LANGUAGES
from fairlead.i18n.catalogue import catalogue

pytestmark = pytest.mark.services

OWN_WORDS = "UTC HTTP SHA-256 Fairlead Webhook webhook JSON"
DATA = (
    *STEADY,
    *BURSTS,
    HOSTILE,
    "application/pdf image/tiff classic/1 damaged timeout invoice scan host pdf tif made-up acme",
)


def paths(browser: httpx.Client) -> Iterator[str]:
    """Every page there is: lists, filters, confirmations, a document in each state."""
    yield from ("/login", "/", "/customers", "/customers?show=paused", "/customers?text=nobody")
    yield from (
        "/documents",
        "/documents?text=nothing+has+this",
        "/documents?state=waiting&priority=9",
    )
    yield from ("/priority", "/priority?customer=Globex")
    for decision in ("pause", "resume", "reset", "set", "links"):
        yield f"/customer/{decision}?name=Globex"
    yield from ("/customer?name=Globex&done=pause", "/customer?name=Vandelay+Imports")
    for decision in ("cancel", "retry"):
        yield f"/documents/{decision}?all=true&customer=Initech"
        yield f"/documents/{decision}?all=true&text=nothing+has+this"
        yield f"/documents?done={decision}&number=22&left=5"
    for state in ("waiting", "processing", "done", "failed", "cancelled"):
        listing = tree(browser.get(f"/documents?state={state}"))
        yield str(listing.xpath("//tbody//th/a/@href")[0])


@cache
def foreign(language: str) -> frozenset[str]:
    """Words of the English texts that neither the language nor the data use."""
    ours = " ".join(" ".join(forms) for forms in catalogue(language).values())
    english = " ".join(catalogue(language))
    known = {word.lower() for word in words(" ".join([ours, OWN_WORDS, *DATA]))}
    return frozenset(word.lower() for word in words(english)) - known


def words(content: str) -> list[str]:
    return re.findall(r"[^\W\d_]{2,}", re.sub(r"\{\w+\}", " ", content))


@pytest.mark.parametrize("language", LANGUAGES[1:])
def test_no_page_has_an_untranslated_word(full: Served, language: str) -> None:
    browser = operator(full, language)
    number = 0
    for path in paths(browser):
        page = tree(browser.get(path))
        assert page.get("lang") == language
        for element in page.xpath(
            "//*[@lang][not(self::html)] | //pre | //code | //script | //time"
        ):
            element.drop_tree()
        texts = [page.find("body").text_content(), *page.xpath("//@aria-label | //@placeholder")]
        assert set(words(" ".join(texts).lower())) & foreign(language) == set(), path
        number += 1
    assert number > 20


@pytest.mark.parametrize("language", LANGUAGES)
def test_an_empty_house_says_what_to_do_next(empty: Served, language: str) -> None:
    browser = operator(empty, language)
    for path in ("/", "/documents"):
        page = tree(browser.get(path))
        assert page.get("lang") == language
        assert "curl" in page.xpath("string(//pre)")
    assert "fairlead keys add" in text(browser.get("/customers"))


def test_the_language_can_be_chosen(full: Served) -> None:
    browser = operator(full, "de")
    answer = browser.post("/language", data={"language": "pl", "next": "/customers?show=all"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/customers?show=all")
    assert "Klienci" in text(browser.get("/customers"))


@pytest.mark.parametrize(
    "onward", ["//evil.example", "https://evil.example", "/\\evil", "x", "/\n"]
)
def test_nobody_is_sent_to_other_sites(empty: Served, onward: str) -> None:
    answer = operator(empty).post("/language", data={"language": "de", "next": onward})
    assert answer.headers["location"] == "/"


def test_numbers_are_written_as_the_language_does(full: Served) -> None:
    path = "/customers?sort=share&limit=3"
    shares = {
        language: tree(operator(full, language).get(path)).xpath("//*[@data-f='share']/text()")
        for language in ("en", "de")
    }
    assert any("." in share for share in shares["en"])
    assert [share.replace(".", ",") for share in shares["en"]] == shares["de"]


# --- hostile names ---


def test_names_are_escaped_everywhere(full: Served) -> None:
    browser = operator(full)
    listed = browser.get("/documents", params={"text": "<script>"})
    assert "<script>alert" not in listed.text
    (path,) = tree(listed).xpath("//tbody//th/a/@href")
    for answer in (browser.get(path), browser.get("/documents/retry", params={"id": path[10:]})):
        assert "<script>alert" not in answer.text
    assert tree(browser.get(path)).xpath("normalize-space(//h1/text()[1])") == HOSTILE


def test_customers_with_hostile_names_have_pages_and_buttons(data: Path) -> None:
    name = "..x?a=b&c='\"<b>#ü pause"
    with Fairlead(data) as fairlead:
        fairlead.submit(name, b"hello", name='"><img src=x onerror=alert(1)>.txt')
    with served(data, "--workers", "0") as server:
        browser = operator(server)
        (path,) = tree(browser.get("/customers")).xpath("//tbody//a/@href")
        page = tree(browser.get(path))
        assert page.xpath("normalize-space(//h1/text()[1])") == name
        ask = tree(browser.get(page.xpath("//a[contains(@href, '/customer/pause')]/@href")[0]))
        fields = {field.get("name"): field.get("value") for field in ask.xpath("//main//input")}
        assert browser.post("/customer/pause", data=fields).status_code == 303
        assert server.operator.get("/v1/customers").json()["customers"][0]["paused"] is True
        for path in ("/", "/customers", "/documents"):
            assert "<img" not in browser.get(path).text
            assert "<b>" not in browser.get(path).text


def test_pages_forbid_what_they_do_not_need(full: Served) -> None:
    browser = operator(full)
    for path in paths(browser):
        headers = browser.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert headers["cache-control"] == "no-store"
        page = tree(browser.get(path))
        assert (
            page.xpath("//@style | //style | //script[not(@src)] | //@*[starts-with(name(), 'on')]")
            == []
        )
        links = page.xpath("//@src | //link/@href")
        assert all(link.startswith("/static/") for link in links)


def test_originals_are_downloads_and_texts_are_no_pages(full: Served) -> None:
    browser = operator(full)
    page = tree(
        browser.get(tree(browser.get("/documents?state=done")).xpath("//tbody//th/a/@href")[0])
    )
    for link in page.xpath("//main//a[starts-with(@href, '/v1/')]/@href"):
        answer = browser.get(link)
        assert answer.status_code == 200
        assert answer.headers["x-content-type-options"] == "nosniff"
        disposition = answer.headers.get("content-disposition", "")
        is_text = answer.headers["content-type"].startswith("text/plain")
        assert disposition.startswith("attachment") or is_text


# --- login and logout ---


def test_who_is_not_logged_in_is_asked_to(full: Served) -> None:
    browser = client(full)
    answer = browser.get("/documents?state=done")
    assert answer.status_code == 303
    assert answer.headers["location"] == "/login?next=%2Fdocuments%3Fstate%3Ddone"
    form = tree(browser.get(answer.headers["location"]))
    assert form.xpath("string(//input[@name='next']/@value)") == "/documents?state=done"
    problem(full.client(None).get("/documents"), "unauthorised", 401)


def test_a_link_from_another_site_is_asked_for_once_more(full: Served) -> None:
    answer = client(full).get("/documents", headers={"Sec-Fetch-Site": "cross-site"})
    assert tree(answer).xpath("//meta[@http-equiv='refresh']")


def test_a_wrong_key_opens_nothing(full: Served) -> None:
    browser = client(full)
    answer = browser.post("/login", data={"key": "fl_000000000000_" + "x" * 43})
    assert answer.status_code == 401
    assert "Invalid API key" in answer.text
    assert "set-cookie" not in answer.headers
    assert browser.get("/login?token=wrong").status_code == 401


def test_a_revoked_key_ends_its_session(data: Path) -> None:
    with served(data, "--workers", "0") as server:
        browser = customer(server, "acme")
        assert browser.get("/").status_code == 200
        key_id = server.operator.get("/v1/customers/acme/keys").json()["keys"][0]["id"]
        server.operator.delete(f"/v1/customers/acme/keys/{key_id}")
        assert browser.get("/").status_code == 303


def test_logging_out_ends_the_session(full: Served) -> None:
    browser = operator(full)
    cookie = browser.cookies["fairlead_session"]
    assert browser.post("/logout").headers["location"] == "/login"
    browser.cookies.set("fairlead_session", cookie)
    assert browser.get("/").status_code == 303


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
    ],
)
def test_other_sites_decide_nothing(full: Served, headers: dict[str, str]) -> None:
    browser = operator(full)
    for path, form in (
        ("/customer/pause", {"name": "Globex"}),
        ("/customer/set", {"name": "Globex", "weight": "9"}),
        ("/documents/cancel", {"all": "true"}),
        ("/logout", {}),
    ):
        assert browser.post(path, data=form, headers=headers).status_code == 403
    stranger = client(full)
    key = full.key("Globex")
    assert stranger.post("/login", data={"key": key}, headers=headers).status_code == 403
    customer = full.operator.get("/v1/customers/Globex").json()
    assert (customer["paused"], customer["weight"]) == (False, 1.0)


# --- decisions, without scripts ---


@pytest.fixture
def idle_server(data: Path) -> Iterator[Served]:
    with served(data, "--workers", "0") as server:
        yield server


def test_documents_of_a_paused_customer_say_so(idle_server: Served) -> None:
    """Regression: the list showed their wait without the word."""
    upload(idle_server.customer("stopped"), b"hello")
    browser = operator(idle_server)
    browser.post("/customer/pause", data={"name": "stopped"})
    for page in ("/documents?customer=stopped", "/customer?name=stopped"):
        assert 'data-f="paused" data-as="flag">paused<' in browser.get(page).text
    browser.post("/customer/resume", data={"name": "stopped"})
    for page in ("/documents?customer=stopped", "/customer?name=stopped"):
        assert 'data-f="paused" data-as="flag">paused<' not in browser.get(page).text


def test_a_customer_is_paused_resumed_reset_and_set(idle_server: Served) -> None:
    acme, browser = idle_server.customer("acme"), operator(idle_server)
    for number in range(4):
        upload(acme, str(number).encode())

    def known() -> dict[str, object]:
        customer: dict[str, object] = idle_server.operator.get("/v1/customers/acme").json()
        return customer

    for decision in ("pause", "resume", "reset"):
        before = known()
        assert "acme?" in text(browser.get(f"/customer/{decision}?name=acme"))
        assert known()["paused"] == before["paused"]  # a confirmation changes nothing
        answer = browser.post(f"/customer/{decision}", data={"name": "acme"})
        assert f"done={decision}" in answer.headers["location"]
        assert "notice" in browser.get(answer.headers["location"]).text
        assert known()["paused"] is (decision == "pause")
    assert known()["count"] is None
    form = {"name": "acme", "weight": "2,5", "processing_cap": "3", "pending_cap": ""}
    assert browser.post("/customer/set", data=form).status_code == 303
    assert (known()["weight"], known()["processing_cap"]) == (2.5, 3)
    assert known()["pending_cap"] is None
    for wrong in (
        {"weight": "many"},
        {"weight": "0"},
        {"processing_cap": "-1"},
        {"weight": "1e999"},
    ):
        answer = browser.post("/customer/set", data=form | wrong)
        assert answer.status_code == 400
        assert "Nothing was changed" in answer.text
    assert known()["weight"] == 2.5
    actors = {entry["actor"] for entry in idle_server.operator.get("/v1/audit").json()["entries"]}
    assert len(actors - {"first-start", None}) == 1  # the operator's key


def fields_of(page: httpx.Response, status: int = 200) -> dict[str, str]:
    """The fields of a form with their present values."""
    inputs = tree(page, status).findall(".//main//input")
    return {field.get("name", ""): field.get("value", "") for field in inputs}


def test_an_old_form_changes_only_what_its_user_changed(idle_server: Served) -> None:
    idle_server.customer("acme")
    browser = operator(idle_server)

    def saved(form: dict[str, str], **changes: str) -> httpx.Response:
        return browser.post("/customer/set", data=form | changes)

    def known() -> tuple[object, ...]:
        customer = idle_server.operator.get("/v1/customers/acme").json()
        return customer["weight"], customer["processing_cap"], customer["pending_cap"]

    first, second = (fields_of(browser.get("/customer/set?name=acme")) for _ in range(2))
    saved(first, weight="3", processing_cap="2")
    assert saved(second, pending_cap="7").status_code == 303
    assert known() == (3.0, 2, 7)
    wrong = saved(second, pending_cap="none")
    saved(fields_of(wrong, 400), pending_cap="8")  # corrected, it is still the old form
    assert known() == (3.0, 2, 8)
    newest = fields_of(browser.get("/customer/set?name=acme"))
    saved(newest, processing_cap="", weight="")
    assert known() == (1.0, None, 8)


def test_all_that_match_are_cancelled_and_retried_together(idle_server: Served) -> None:
    acme, browser = idle_server.customer("acme"), operator(idle_server)
    upload(acme, *(str(number).encode() for number in range(5)))
    upload(idle_server.customer("globex"), b"stays")
    confirmation = browser.get("/documents/cancel?all=true&customer=acme")
    assert "Cancel 5 documents?" in text(confirmation)
    fields = [
        (field.get("name"), field.get("value"))
        for field in tree(confirmation).xpath("//main//input")
    ]
    upload(acme, b"after the question")
    answer = browser.post("/documents/cancel", data=dict(fields))
    assert "5 documents were cancelled." in text(browser.get(answer.headers["location"]))
    states = [
        document["state"]
        for document in idle_server.operator.get("/v1/documents").json()["documents"]
    ]
    assert sorted(states) == ["cancelled"] * 5 + ["waiting"] * 2
    answer = browser.post("/documents/retry", data={"all": "true", "customer": "acme"})
    assert "5 documents were queued again." in text(browser.get(answer.headers["location"]))
    assert "can be retried now" in text(browser.get("/documents/retry?all=true"))


def test_chosen_ones_are_cancelled_and_others_are_left(idle_server: Served) -> None:
    acme, browser = idle_server.customer("acme"), operator(idle_server)
    ids = [upload(acme, str(number).encode()).json()["id"] for number in range(3)]
    acme.post(f"/v1/documents/{ids[0]}/cancel")
    confirmation = browser.get("/documents/cancel", params={"id": ids[:2]})
    assert "Cancel 1 document?" in text(confirmation)
    answer = browser.post("/documents/cancel", data={"id": ids[:2]})
    shown = text(browser.get(answer.headers["location"]))
    assert "1 document was cancelled." in shown
    assert "1 was left as it is" in shown
    states = [
        document["state"]
        for document in idle_server.operator.get("/v1/documents").json()["documents"]
    ]
    assert states == ["waiting", "cancelled", "cancelled"]


def test_deciding_about_one_document_leads_back_to_it(idle_server: Served) -> None:
    id_ = upload(idle_server.customer("acme"), b"x").json()["id"]
    browser = operator(idle_server)
    page = tree(browser.get(f"/document/{id_}"))
    (link,) = page.xpath("//a[contains(@href, '/documents/cancel')]/@href")
    confirmation = tree(browser.get(link))
    fields = {
        field.get("name"): field.get("value") for field in confirmation.xpath("//main//input")
    }
    answer = browser.post("/documents/cancel", data=fields)
    assert answer.headers["location"] == f"/document/{id_}"
    assert "was cancelled" in text(browser.get(answer.headers["location"]))


# --- lists ---


def test_customers_are_sorted_and_filtered_by_the_address(full: Served) -> None:
    browser = operator(full)

    def names(query: str) -> list[str]:
        keys = tree(browser.get("/customers" + query)).xpath("//tbody/tr/@data-key")
        return [str(key) for key in keys]

    assert names("?sort=name") == sorted(names(""), key=str.casefold)
    assert names("?sort=name&down=true") == names("?sort=name")[::-1]
    assert names("?sort=pending")[0] == "Initech"
    assert names("?show=paused") == ["Vandelay Imports"]
    assert names("?text=MÜLLER") == ["Müller Spedition"]
    assert names("?sort=name&limit=4&page=2") == names("?sort=name")[4:8]
    assert browser.get("/customers?sort=weight").status_code == 400


def test_documents_are_filtered_by_the_address(full: Served) -> None:
    browser = operator(full)

    def rows(query: str) -> list[str]:
        return [
            str(key)
            for key in tree(browser.get("/documents" + query)).xpath("//tbody/tr/@data-key")
        ]

    assert len(rows("")) == 100
    older = tree(browser.get("/documents")).xpath("string(//a[@rel='next']/@href)")
    following = [str(key) for key in tree(browser.get(older)).xpath("//tbody/tr/@data-key")]
    assert following
    assert set(following).isdisjoint(rows(""))
    failed = full.operator.get("/v1/documents?state=failed&customer=Initech").json()["documents"]
    assert rows("?customer=Initech&state=failed") == [document["id"] for document in failed]
    assert rows("?text=SCAN-0001") == rows("?text=scan-0001") != []
    assert browser.get("/documents?state=lost").status_code == 400
    assert browser.get("/documents?priority=x").status_code == 400


# --- a customer's own view ---


def test_a_customer_sees_its_own_and_nothing_else(full: Served) -> None:
    browser = customer(full, "Globex")
    for path in ("/", "/documents", "/documents?customer=Initech"):
        page = tree(browser.get(path))
        page.xpath("//footer")[0].drop_tree()  # has the requested URL
        shown = page.text_content()
        assert "Globex" in shown
        assert not any(name in shown for name in ("Initech", "Northwind", "Acme"))
    for path in ("/customers", "/customer?name=Globex", "/customer/pause?name=Globex"):
        assert browser.get(path).status_code == 403
    others = full.operator.get("/v1/documents?customer=Initech").json()["documents"][0]["id"]
    for path in (f"/document/{others}", "/document/" + "0" * 26):
        answer = browser.get(path)
        assert answer.status_code == 404
        assert "Unknown document" in answer.text
    for decision in ("cancel", "retry"):
        assert browser.get(f"/documents/{decision}?id={others}").status_code == 404
        assert browser.post(f"/documents/{decision}", data={"id": others}).status_code == 404


def test_a_customer_reads_the_same_why_without_names_of_others(full: Served) -> None:
    waiting = full.operator.get("/v1/documents?state=waiting&customer=Initech").json()["documents"]
    path = f"/document/{waiting[0]['id']}"
    mine, theirs = (
        tree(browser.get(path)).xpath("//ul[@class='reasons']/li[1]/text()")
        for browser in (customer(full, "Initech"), operator(full))
    )
    assert mine == theirs != []
    shown = text(customer(full, "Initech").get(path))
    assert "Northwind" not in shown
    assert "host:" not in shown  # nor which worker


def test_the_life_of_a_document_is_told(full: Served) -> None:
    browser = operator(full)
    path = str(tree(browser.get("/documents?state=done")).xpath("//tbody//th/a/@href")[0])
    page = tree(browser.get(path))
    kinds = page.xpath("//ol[@class='history']/li/@class")
    assert [kinds[0], kinds[-1]] == ["submitted", "done"]
    assert "claimed" in kinds
    assert "Invoice 2041" in page.xpath("string(//pre)")


def test_a_part_of_a_deleted_document_names_it_without_leading_there(data: Path) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("one.txt", "one")
    with Fairlead(data) as fairlead:
        whole = fairlead.submit("acme", packed.getvalue())
        fairlead.run_until_idle()
        (part,) = fairlead.documents(parent=whole.id)
        with served(data, "--workers", "0") as server:
            browser = operator(server)
            link = f'href="/document/{whole.id}"'
            assert link in browser.get(f"/document/{part.id}").text
            fairlead.delete(whole.id)
            page = browser.get(f"/document/{part.id}")
            assert link not in page.text
            assert f"{whole.id} (deleted)" in text(page)


def test_a_customers_stairs_are_drawn_with_its_resets(data: Path) -> None:
    now = [1_000_000.0]
    with Fairlead(data, clock=lambda: now[0]) as fairlead:
        for gap in (0, 10, 10, 10, 2000, 10):
            now[0] += gap
            fairlead.submit("acme", b"x")
    with served(data, "--workers", "0") as server:
        page = tree(operator(server).get("/customer?name=acme"))
        assert len(page.xpath("//svg//path[@class='count']")) == 1
        assert len(page.xpath("//svg//path[@class='reset']")) == 1


def test_more_levels_than_nine_are_shown_and_chosen_by_whom_they_concern(data: Path) -> None:
    with Fairlead(data) as fairlead:
        fairlead.customers.add("many", thresholds=tuple(range(0, -150, -1)))
        fairlead.submit_many("many", [(b"x", None)] * 152)
        fairlead.submit("few", b"x")
    with served(data, "--workers", "0") as server:
        ours, many, few = operator(server), customer(server, "many"), customer(server, "few")
        for browser, last in ((ours, "151"), (many, "151"), (few, "9")):
            page = tree(browser.get("/documents"))
            assert page.xpath("//select[@name='priority']/option/text()")[-1] == last
        assert ours.get("/").text.count("9+ ") == 1
        assert many.get("/").text.count("9+ ") == 1
        assert "9+ " not in few.get("/").text
        listing = tree(ours.get("/documents?priority=151"))
        assert listing.xpath("//select[@name='priority']/option[@selected]/text()") == ["151"]
        assert set(listing.xpath("//tbody//*[@data-f='priority']/text()")) == {"151"}
        assert ours.get(f"/documents?priority={2**31 + 1}").status_code == 400


def test_static_files_are_kept_by_browsers_until_they_change(empty: Served) -> None:
    browser = operator(empty)
    (script,) = tree(browser.get("/")).xpath("//script/@src")
    answer = browser.get(script)
    assert answer.headers["content-type"].startswith("text/javascript")
    assert "immutable" in answer.headers["cache-control"]
    problem(server_get(empty, "/static/x/../page.py"), "not-found", 404)
    problem(server_get(empty, "/static/x/page.py"), "not-found", 404)


def server_get(server: Served, path: str) -> httpx.Response:
    return server.client(None).get(path)


# --- findings of first-time users ---


def test_a_bulk_retry_keeps_the_filter(idle_server: Served) -> None:
    """Regression: bulk retry loses the filter; "Cancel 0 documents?"."""
    acme, browser = idle_server.customer("acme"), operator(idle_server)
    id_ = upload(acme, b"x").json()["id"]
    nothing = tree(browser.get("/documents/retry", params={"id": id_}))
    assert nothing.findtext(".//h1") == "Nothing to retry"
    confirmation = tree(browser.get("/documents/cancel", params={"id": id_, "state": "waiting"}))
    fields = {field.name: field.value for field in confirmation.xpath("//main//input")}
    assert fields == {"id": id_, "state": "waiting"}
    location = browser.post("/documents/cancel", data=fields).headers["location"]
    assert "state=waiting" in location


def test_an_empty_dashboard_shows_its_own_address(empty: Served) -> None:
    """Regression: onboarding hard-codes port 8321."""
    assert f"{empty.url}/v1/documents" in text(operator(empty).get("/"))


def test_an_unknown_address_is_a_page_for_browsers(empty: Served) -> None:
    """Regression: raw JSON for unknown addresses."""
    answer = client(empty).get("/nothing/here")
    assert "Not found" in tree(answer, 404).findtext(".//h1")
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    problem(empty.client(None).get("/nothing/here"), "not-found", 404)


def test_workers_and_a_new_documents_priority_are_named_plainly(full: Served) -> None:
    """Regression: "1 workers", "2 / 1 workers"; "next priority" misread."""
    page = tree(operator(full).get("/"))
    figures = {div.findtext("dt"): div.find("dd").text_content() for div in page.xpath("//dl/div")}
    assert figures["Workers"].isdigit()
    assert figures["Processing"].isdigit()
    assert "A new document would get priority" in page.text_content()
    assert "Vandelay Imports" not in page.xpath("//*[@data-list='waits']")[0].text_content()
