from __future__ import annotations

import email
import email.policy
import io
import sys
from collections.abc import Callable

import docx
import pypdfium2
import pytest
from lxml import html

from fairlead.demo.samples import SampleDocument, samples
from fairlead.errors import MissingExtra


@pytest.fixture(scope="module")
def documents() -> list[SampleDocument]:
    return list(samples(25, seed=7))


def pdf_text(content: bytes) -> str:
    with pypdfium2.PdfDocument(content) as pdf:
        assert 1 <= len(pdf) <= 12
        texts = []
        for page in pdf:
            text_page = page.get_textpage()
            texts.append(text_page.get_text_bounded())
            text_page.close()
            page.close()
    return "\n".join(texts)


def docx_text(content: bytes) -> str:
    document = docx.Document(io.BytesIO(content))
    assert len(document.tables) == 1
    assert any("Heading" in str(p.style and p.style.name) for p in document.paragraphs)
    return "\n".join(paragraph.text for paragraph in document.paragraphs)


def html_text(content: bytes) -> str:
    return "".join(map(str, html.fromstring(content).itertext()))


def email_text(content: bytes) -> str:
    message = email.message_from_bytes(content, policy=email.policy.default)
    assert [part.get_filename() for part in message.iter_attachments()] == ["items.csv"]
    body = message.get_body(("plain",))
    assert body is not None
    return str(body.get_content())


READERS: dict[str, Callable[[bytes], str]] = {
    "pdf": pdf_text,
    "docx": docx_text,
    "html": html_text,
    "eml": email_text,
    "txt": bytes.decode,
}


def test_kinds_take_turns(documents: list[SampleDocument]) -> None:
    kinds = [sample.name.rpartition(".")[2] for sample in documents]
    assert kinds == list(READERS) * 5


def test_each_text_holds_its_own_reference_and_no_other(documents: list[SampleDocument]) -> None:
    references = {sample.reference for sample in documents}
    assert len(references) == len(documents)
    for sample in documents:
        text = READERS[sample.name.rpartition(".")[2]](sample.content)
        assert {reference for reference in references if reference in text} == {sample.reference}


def test_the_same_seed_gives_the_same_bytes(documents: list[SampleDocument]) -> None:
    assert list(samples(10, seed=7)) == documents[:10]
    assert list(samples(5, seed=8)) != documents[:5]


def test_the_number_of_pages_can_be_set() -> None:
    (sample,) = samples(1, seed=1, pages=(3, 3))
    with pypdfium2.PdfDocument(sample.content) as pdf:
        assert len(pdf) == 3


def test_a_missing_library_is_named_with_its_install_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "reportlab.pdfgen.canvas", None)
    with pytest.raises(MissingExtra, match=r"reportlab.*pip install .*\[demo\]'"):
        next(samples(1, seed=1))
