"""PDFs: invoices, attachments, forms, and hostile ones."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pypdfium2
import pytest
from reportlab.lib.pdfencrypt import StandardEncryption
from reportlab.pdfgen.canvas import Canvas

from fairlead.read import CannotRead, Extracted, extract

Read = Callable[..., Extracted]
Refuse = Callable[..., CannotRead]

INVOICE = """<?xml version="1.0"?><!DOCTYPE x [<!ENTITY e SYSTEM "/etc/passwd">]>
<r:{root} xmlns:r="urn:r" xmlns:a="urn:a">
<r:{document}><a:ID>RE-7</a:ID><a:IssueDateTime><u>x</u><DateTimeString format="102">20240131
</DateTimeString></a:IssueDateTime></r:{document}><t><a:SellerTradeParty><a:ID>1</a:ID>
<a:Name>Seller &amp; Co &e;</a:Name></a:SellerTradeParty><a:BuyerTradeParty><a:Name>Buyer</a:Name>
</a:BuyerTradeParty><a:{settlement}><a:InvoiceCurrencyCode>EUR</a:InvoiceCurrencyCode><a:{sum}>
<a:GrandTotalAmount>119.00</a:GrandTotalAmount><a:DuePayableAmount>19.00</a:DuePayableAmount>
</a:{sum}></a:{settlement}></t></r:{root}>"""
NAMES = {
    2: {
        "root": "CrossIndustryInvoice",
        "document": "ExchangedDocument",
        "settlement": "ApplicableHeaderTradeSettlement",
        "sum": "SpecifiedTradeSettlementHeaderMonetarySummation",
    },
    1: {
        "root": "CrossIndustryDocument",
        "document": "HeaderExchangedDocument",
        "settlement": "ApplicableSupplyChainTradeSettlement",
        "sum": "SpecifiedTradeSettlementMonetarySummation",
    },
}


def with_attachments(data: bytes, **files: bytes) -> bytes:
    document = pypdfium2.PdfDocument(data)
    for name, content in files.items():
        document.new_attachment(name).set_data(content)
    buffer = io.BytesIO()
    document.save(buffer)
    document.close()
    return buffer.getvalue()


@pytest.mark.parametrize("version", [1, 2])
def test_an_invoice_tells_its_fields(read: Read, pdf: Callable[..., bytes], version: int) -> None:
    xml = INVOICE.format(**NAMES[version]).encode()
    extracted = read(with_attachments(pdf("Rechnung"), **{"any.xml": xml, "terms.txt": b"words"}))
    assert extracted.facts["invoice"] == {
        "number": "RE-7",
        "date": "2024-01-31",
        "total": "119.00",
        "due": "19.00",
        "currency": "EUR",
        "seller": "Seller & Co",
        "buyer": "Buyer",
    }
    assert extracted.facts["attachments"] == ["any.xml", "terms.txt"]
    assert [(part.name, part.content) for part in extracted.parts] == [("terms.txt", b"words")]


def test_xml_that_is_no_invoice_is_a_part(read: Read, pdf: Callable[..., bytes]) -> None:
    for xml in (b"<CrossIndustryInvoice>", b"<note>CrossIndustry</note>"):
        extracted = read(with_attachments(pdf("x"), a=xml))
        assert "invoice" not in extracted.facts
        assert [part.content for part in extracted.parts] == [xml]


def test_the_right_password_opens_it(read: Read, refuse: Refuse) -> None:
    buffer = io.BytesIO()
    canvas = Canvas(buffer, encrypt=StandardEncryption("secret"))
    canvas.drawString(72, 700, "hidden words")
    canvas.save()
    assert read(buffer.getvalue(), password="secret").text == "hidden words"
    assert refuse(buffer.getvalue(), password="other").code == "encrypted"


def test_what_was_typed_into_a_form_is_read(read: Read) -> None:
    buffer = io.BytesIO()
    canvas = Canvas(buffer)
    canvas.drawString(72, 700, "Your name:")
    canvas.acroForm.textfield(name="n", x=150, y=690, width=200, height=20, value="Grace Hopper")
    canvas.save()
    assert "Grace Hopper" in read(buffer.getvalue()).text


def test_pages_beyond_the_limit_are_cut(read: Read, pdf: Callable[..., bytes]) -> None:
    extracted = read(pdf("one", "two", "three"), pages=2)
    assert extracted.text == "one\n\ftwo"
    assert extracted.facts["pages"] == 3
    assert extracted.facts["warnings"] == ["only the first 2 of 3 pages were read"]


def test_progress_is_reported_after_each_page(tmp_path: Path, pdf: Callable[..., bytes]) -> None:
    progress: list[tuple[int, int]] = []
    path = tmp_path / "x"
    path.write_bytes(pdf("one", "two"))
    extract(path, on_progress=lambda done, pages: progress.append((done, pages)))
    assert progress == [(1, 2), (2, 2)]


def forms(levels: int, width: int) -> bytes:
    """A PDF whose forms each draw the next one so many times."""
    draw = b"/F Do " * width
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 99 99]/Contents 4 0 R"
        b"/Resources<</XObject<</F 5 0 R>>>>>>",
        b"<</Length %d>>stream\n%s\nendstream" % (len(draw), draw),
    ]
    objects += [
        b"<</Type/XObject/Subtype/Form/BBox[0 0 9 9]/Resources<</XObject<</F %d 0 R>>>>"
        b"/Length %d>>stream\n%s\nendstream" % (6 + level, len(draw), draw)
        for level in range(levels)
    ]
    objects.append(b"<</Type/XObject/Subtype/Form/BBox[0 0 9 9]/Length 2>>stream\nq \nendstream")
    data = b"%PDF-1.4\n"
    for number, content in enumerate(objects, start=1):
        data += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    return data + b"trailer<</Root 1 0 R/Size %d>>\n%%%%EOF" % (len(objects) + 1)


def test_forms_that_draw_forms_without_end_are_refused(read: Read, refuse: Refuse) -> None:
    error = refuse(forms(9, 10))
    assert (error.code, error.kind) == ("too-large", "pdf")
    assert read(forms(2, 3)).kind == "pdf"


def test_pages_without_text_count_as_pages(read: Read, pdf: Callable[..., bytes]) -> None:
    """The form feeds of a cover without text were left out, so pages had wrong numbers."""
    assert read(pdf("", "", "third", "", "fifth", "")).text == "\f\n\fthird\n\f\n\ffifth"
    assert read(pdf("", "")).text == ""
