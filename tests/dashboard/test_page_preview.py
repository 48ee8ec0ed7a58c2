"""The dashboard shows the picture of a page beside its text."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
from dashkit import text, tree
from inprocess import URL, InProcess, in_process
from resultkit import claim_all, done_with

from fairlead import Fairlead
from fairlead.model.documents import Document, ResultFile
from fairlead.model.results import Content
from fairlead.server.dashboard.page_preview import page_preview

PNG = "image/png"


def add_paged(fairlead: Fairlead, words: str, names: Sequence[str]) -> Document:
    document = fairlead.submit("acme", b"scan", name="scan.pdf")
    (claim,) = claim_all(fairlead, 1)
    sha256 = hashlib.sha256(b"png").hexdigest()
    files = tuple(Content(3, sha256, name, PNG, content=b"png") for name in names)
    fairlead.store.finish(claim, done_with(words)._replace(files=files))
    return fairlead.document(document.id)


def pictures(*names: str) -> list[ResultFile]:
    return [ResultFile(name, PNG, 3, "0" * 64) for name in names]


@asynccontextmanager
async def logged_in(
    server: InProcess, customer: str, language: str = "en"
) -> AsyncIterator[httpx.AsyncClient]:
    key, _ = server.fairlead.keys.add(customer)
    async with server.http() as browser:
        browser.headers.update({"Accept": "text/html", "Accept-Language": language, "Origin": URL})
        assert (await browser.post("/login", data={"key": key})).status_code == 303
        yield browser


def test_each_page_has_its_own_text() -> None:
    files = pictures("page-002.png", "page-001.png", "page-003.png", "page-1.png")
    shown = [page_preview("\fsecond\n\fthird", files, number) for number in (1, 2, 3)]
    assert [(view.picture, view.text) for view in shown if view] == [
        ("page-001.png", ""),
        ("page-002.png", "second"),
        ("page-003.png", "third"),
    ]


def test_a_page_that_is_not_there_is_the_nearest_one() -> None:
    files = pictures("page-001.png", "page-003.png")
    assert [view.number for n in (-5, 0, 9) if (view := page_preview("a", files, n))] == [1, 1, 2]
    last = page_preview("a\fb\fc", files, 2)
    assert last is not None
    assert last.text == "c"
    assert page_preview("a", pictures("stamped.png"), 1) is None


def test_the_picture_of_a_page_is_beside_its_text(tmp_path: Path) -> None:
    async def test(server: InProcess) -> None:
        names = ["page-001.png", "page-002.png", "searchable.pdf"]
        scan = add_paged(server.fairlead, "first words\n\fsecond words", names)
        async with logged_in(server, "acme") as own:
            first = tree(await own.get(f"/document/{scan.id}"))
            (image,) = first.xpath("//div[@class='sheet']//img")
            assert image.get("alt") == "Page 1 of 2"
            assert (await own.get(image.get("src"))).content == b"png"
            assert first.xpath("string(//div[@class='sheet']//pre)") == "first words"
            assert first.xpath("//a[@rel='prev']") == []
            (following,) = first.xpath("//a[@rel='next']/@href")
            second = tree(await own.get(f"/document/{scan.id}{following}"))
            assert second.xpath("string(//div[@class='sheet']//pre)") == "second words"
            assert second.xpath("//a[@rel='next']") == []
            files = first.xpath("//section[@aria-labelledby='h-result']//li/a/text()")
            assert files == ["searchable.pdf", "page-001.png", "page-002.png"]
        async with logged_in(server, "other") as other:
            assert (await other.get(f"/document/{scan.id}")).status_code == 404
            assert (await other.get(image.get("src"))).status_code == 404

    in_process(tmp_path, test)


def test_without_pictures_the_text_is_shown_as_before(tmp_path: Path) -> None:
    async def test(server: InProcess) -> None:
        plain = add_paged(server.fairlead, "first words\n\fsecond words", [])
        async with logged_in(server, "acme") as own:
            page = tree(await own.get(f"/document/{plain.id}?page=2"))
        assert page.xpath("//div[@class='sheet']") == []
        shown = page.xpath("string(//section[@aria-labelledby='h-text']//pre)")
        assert shown.split() == ["first", "words", "second", "words"]

    in_process(tmp_path, test)


def test_the_words_around_a_page_are_translated(tmp_path: Path) -> None:
    async def test(server: InProcess) -> None:
        scan = add_paged(server.fairlead, "", ["page-001.png", "page-002.png"])
        for language, expected in (
            ("de", "Seite 2 von 2"),
            ("es", "Página 2 de 2"),
            ("pl", "Strona 2 z 2"),
            ("pt", "Página 2 de 2"),
        ):
            async with logged_in(server, "acme", language) as browser:
                shown = text(await browser.get(f"/document/{scan.id}?page=2"))
            assert expected in shown
            assert "Page" not in shown

    in_process(tmp_path, test)
