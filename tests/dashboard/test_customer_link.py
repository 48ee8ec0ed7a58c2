"""Links to a customer's page: that page only, read-only, until they expire."""

from __future__ import annotations

import io
import logging
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from apikit import problem
from click.testing import CliRunner
from dashkit import text
from inprocess import InProcess, in_process
from resultkit import add_done

from fairlead import Fairlead
from fairlead.cli import main
from fairlead.errors import InvalidSetting, UnknownCustomer, UnknownKey, UsageError
from fairlead.i18n import LANGUAGES
from fairlead.model.keys import Role
from fairlead.server.app import create_inner
from fairlead.server.request_log import log_handler

HTML = {"Accept": "text/html"}
DAY = 86_400
TITLES = {
    "en": "Our document priority system",
    "es": "Nuestro sistema de prioridad de documentos",
    "pt": "Nosso sistema de prioridade de documentos",
    "pl": "Nasz system priorytetów dokumentów",
    "de": "Unser Dokumenten-Prioritätssystem",
}


class Site:
    """A server with documents of acme and bolt, and a link to the page of acme."""

    def __init__(self, server: InProcess) -> None:
        self.server, self.fairlead = server, server.fairlead
        add_done(self.fairlead, "acme", ["read"])
        self.waiting = self.fairlead.submit("acme", b"waits", name="letter.txt")
        self.fairlead.submit("bolt", b"secret", name="secret.txt")
        self.link = self.fairlead.customers.link("acme")
        self.key = self.link.path.rpartition("/")[2]

    async def open(self, path: str | None = None, **headers: str) -> httpx.Response:
        return await self.server.http().get(path or self.link.path, headers=HTML | headers)


def at_site(
    data: Path,
    test: Callable[[Site], Awaitable[None]],
    settings: Mapping[str, Any] | None = None,
) -> None:
    async def run(server: InProcess) -> None:
        await test(Site(server))

    in_process(data, run, settings)


def test_a_link_shows_the_rules_the_standing_and_the_documents_of_one_customer(
    tmp_path: Path,
) -> None:
    async def look(site: Site) -> None:
        site.fairlead.customers.set("acme", reset_interval=600)
        answer = await site.open()
        assert answer.status_code == 200
        page = text(answer)
        assert "10 min" in page, "the customer's own interval"
        assert "Where you stand" in page
        assert "letter.txt" in page
        assert "priority 1" in page, "why it has its place"
        assert "Your last results" in page
        assert "bolt" not in page
        assert "secret.txt" not in page
        assert "set-cookie" not in answer.headers

    at_site(tmp_path, look)


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_page_of_a_link_is_in_five_languages(tmp_path: Path, language: str) -> None:
    async def look(site: Site) -> None:
        for answer in (
            await site.open(**{"Accept-Language": language}),
            await site.open(f"{site.link.path}?language={language}"),
        ):
            assert TITLES[language] in text(answer)
            assert answer.headers["content-language"] == language

    at_site(tmp_path, look)


def test_the_key_of_a_link_opens_no_other_address(tmp_path: Path) -> None:
    async def ask(site: Site) -> None:
        client = site.server.http(site.key)
        open_to_all = ("/login", "/language", "/static", "/livez", "/readyz", "/metrics", "/docs")
        app = create_inner(site.server.context)
        for route in app.routes:
            path = getattr(route, "path", "")
            if path.startswith((*open_to_all, "/openapi.json", "/priority/{")):
                continue
            for parameter in ("id_", "document"):
                path = path.replace(f"{{{parameter}}}", site.waiting.id)
            path = path.replace("{name}", "acme").replace("{decision}", "pause")
            for method in getattr(route, "methods", None) or {"GET"}:
                answer = await client.request(method, path, params={"name": "acme"})
                assert answer.status_code == 403, (method, path, answer.text)
                assert "letter.txt" not in answer.text
        answer = await site.server.http().post("/login", data={"key": site.key})
        assert answer.status_code == 403
        assert "set-cookie" not in answer.headers

    at_site(tmp_path, ask)


def test_no_other_key_opens_the_address_of_a_link(tmp_path: Path) -> None:
    async def ask(site: Site) -> None:
        add = site.fairlead.keys.add
        for key, _ in (add("acme"), add(), add(service="shop"), add(viewer="eyes")):
            answer = await site.open(f"/priority/{key}")
            assert answer.status_code == 404
            assert "letter.txt" not in answer.text
        assert (await site.open(site.link.path[:-1] + "x")).status_code == 404

    at_site(tmp_path, ask)


def test_a_link_ends_after_30_days(tmp_path: Path) -> None:
    async def ask(site: Site) -> None:
        now = site.fairlead.clock()
        site.fairlead.clock = lambda: now + 29 * DAY
        assert (await site.open()).status_code == 200
        site.fairlead.clock = lambda: now + 30 * DAY + 1
        answer = await site.open()
        assert answer.status_code == 404
        assert "this link has expired or was revoked" in answer.text
        assert "letter.txt" not in answer.text

    at_site(tmp_path, ask)


def test_a_link_is_revoked_at_once(tmp_path: Path) -> None:
    async def ask(site: Site) -> None:
        service = site.server.client(site.fairlead.keys.add(service="shop")[0])
        assert [link.id for link in await service.customers.links("acme")] == [site.link.id]
        with pytest.raises(UnknownKey):
            await service.customers.revoke_link("bolt", site.link.id)
        assert (await site.open()).status_code == 200
        await service.customers.revoke_link("acme", site.link.id)
        assert (await site.open()).status_code == 404
        assert await service.customers.links("acme") == []

    at_site(tmp_path, ask)


def test_a_link_revokes_no_key_of_the_customer(tmp_path: Path) -> None:
    with Fairlead(tmp_path) as fairlead:
        _, key = fairlead.keys.add("acme")
        with pytest.raises(UnknownKey):
            fairlead.customers.revoke_link("acme", key.id)
        assert not fairlead.keys.list("acme")[0].is_revoked


def test_a_deleted_customer_takes_its_links_along(tmp_path: Path) -> None:
    async def ask(site: Site) -> None:
        operator = site.server.client(site.fairlead.keys.add()[0])
        await operator.customers.delete("acme")
        assert (await site.open()).status_code == 404

    at_site(tmp_path, ask)


def test_only_operators_and_services_make_links(tmp_path: Path) -> None:
    async def ask(site: Site) -> None:
        add, path = site.fairlead.keys.add, "/v1/customers/acme/links"
        for key, _ in (add(), add(service="shop")):
            answer = await site.server.http(key).post(path)
            assert answer.status_code == 201
            assert answer.headers["cache-control"] == "no-store"
            assert (await site.open(answer.json()["path"])).status_code == 200
        link = await site.server.client(add()[0]).customers.link("acme", days=1)
        assert link.expires_at - link.created_at == DAY
        for key, _ in (add("acme"), add("bolt"), add(viewer="eyes"), add(worker="gpu")):
            problem(await site.server.http(key).post(path), "forbidden", 403)
        operator = site.server.http(add()[0])
        problem(await operator.post(path, json={"days": 0}), "invalid-request", 400)
        problem(await operator.post("/v1/customers/nobody/links"), "unknown-customer", 404)

    at_site(tmp_path, ask)


def test_links_are_for_known_customers_and_a_bounded_time(tmp_path: Path) -> None:
    with Fairlead(tmp_path) as fairlead:
        with pytest.raises(UnknownCustomer):
            fairlead.customers.link("nobody")
        fairlead.customers.add("acme")
        for days in (0, 3651):
            with pytest.raises(UsageError, match="1 to 3,650 days"):
                fairlead.customers.link("acme", days=days)


# --- embedding and secrecy ---


def test_no_site_may_embed_the_page_by_default(tmp_path: Path) -> None:
    async def look(site: Site) -> None:
        headers = (await site.open()).headers
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert headers["x-frame-options"] == "DENY"

    at_site(tmp_path, look)


def test_the_sites_of_the_setting_may_embed_links_and_no_other_page(tmp_path: Path) -> None:
    async def look(site: Site) -> None:
        for path in (site.link.path, "/priority/revoked"):
            headers = (await site.open(path)).headers
            policy = headers["content-security-policy"]
            assert policy.endswith("frame-ancestors https://shop.example.com 'self'")
            assert "x-frame-options" not in headers
        login = (await site.open("/login")).headers
        assert "frame-ancestors 'none'" in login["content-security-policy"]
        assert login["x-frame-options"] == "DENY"

    at_site(tmp_path, look, {"frame_ancestors": ("https://shop.example.com", "'self'")})


@pytest.mark.parametrize("site", ["shop.example.com", "https://a.b; script-src *", "a b"])
def test_a_site_that_is_no_origin_is_refused(tmp_path: Path, site: str) -> None:
    with pytest.raises(InvalidSetting, match="frame_ancestors"):
        Fairlead(tmp_path, settings={"frame_ancestors": (site,)})


def test_the_address_of_a_link_goes_into_no_referer_and_no_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = io.StringIO()
    handler = log_handler(log)

    def fail(_name: str) -> None:
        raise RuntimeError("broken")

    async def look(site: Site) -> None:
        answer = await site.open()
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert site.key not in answer.text
        monkeypatch.setattr(site.fairlead.customers, "standing", fail)
        assert (await site.open()).status_code == 500
        assert "/priority/{link}" in log.getvalue()
        assert site.key not in log.getvalue()

    logging.getLogger().addHandler(handler)
    try:
        at_site(tmp_path, look)
    finally:
        logging.getLogger().removeHandler(handler)


def test_visitors_of_a_link_take_no_requests_from_the_customer(tmp_path: Path) -> None:
    async def ask(site: Site) -> None:
        answers = [(await site.open()).status_code for _ in range(3)]
        assert answers == [200, 200, 429]
        own = site.server.http(site.fairlead.keys.add("acme")[0])
        assert (await own.get("/v1/me")).status_code == 200

    at_site(tmp_path, ask, {"requests_a_second": 0.001, "requests_burst": 2})


# --- dashboard and command line ---


def test_operators_make_and_revoke_links_in_the_dashboard(tmp_path: Path) -> None:
    async def ask(site: Site) -> None:
        browser = site.server.http(site.fairlead.keys.add()[0])
        assert "/customer/links?name=acme" in (await browser.get("/customer?name=acme")).text
        response = await browser.post("/customer/link", data={"name": "acme", "days": "7"})
        url = text(response).split("http://")[1].split()[0]
        assert (await site.open("/" + url.partition("/")[2])).status_code == 200
        assert url.rpartition("/")[2] not in (await browser.get("/customer/links?name=acme")).text
        for id_ in [link.id for link in site.fairlead.customers.links("acme")]:
            assert id_ in (await browser.get("/customer/links?name=acme")).text
            await browser.post("/customer/unlink", data={"name": "acme", "id": id_})
        assert (await site.open()).status_code == 404
        assert site.fairlead.customers.links("acme") == []
        answer = await browser.post("/customer/link", data={"name": "acme", "days": "many"})
        assert answer.status_code == 400

    at_site(tmp_path, ask)


def test_a_viewer_and_a_customer_make_no_links_in_the_dashboard(tmp_path: Path) -> None:
    async def ask(site: Site) -> None:
        form = {"name": "acme", "days": "7", "id": site.link.id}
        for key, _ in (site.fairlead.keys.add(viewer="eyes"), site.fairlead.keys.add("acme")):
            browser = site.server.http(key)
            for path in ("/customer/link", "/customer/unlink"):
                assert (await browser.post(path, data=form)).status_code == 403
        viewer = site.server.http(site.fairlead.keys.add(viewer="eyes")[0])
        page = await viewer.get("/customer/links?name=acme")
        assert page.status_code == 200
        assert '/customer/link"' not in page.text
        assert "unlink" not in page.text
        assert [link.id for link in site.fairlead.customers.links("acme")] == [site.link.id]

    at_site(tmp_path, ask)


def test_the_command_line_makes_lists_and_revokes_links(tmp_path: Path) -> None:
    def run(*arguments: str) -> str:
        result = CliRunner().invoke(main, ["customers", *arguments, "--data", str(tmp_path)])
        assert result.exit_code == 0, result.output
        return result.stdout

    with Fairlead(tmp_path) as fairlead:
        fairlead.customers.add("acme")
    path = run("link", "acme", "--days", "7").strip()
    assert path.startswith("/priority/fl_")
    with Fairlead(tmp_path) as fairlead:
        (key,) = fairlead.keys.list("acme")
    assert (key.role, key.customer) == (Role.LINK, "acme")
    assert run("links", "acme", "--quiet").split() == [key.id]
    assert key.id in run("unlink", "acme", path)
    assert run("links", "acme", "--quiet") == ""
