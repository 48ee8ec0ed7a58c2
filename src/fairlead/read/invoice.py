"""Reads the embedded XML of electronic invoices in a PDF (ZUGFeRD, Factur-X)."""

from __future__ import annotations

from collections.abc import Iterator

from lxml import etree

from fairlead.read.base import JSON, clean_line
from fairlead.read.dates import from_compact
from fairlead.read.xml import local_name, xml_parser

_MAX_BYTES = 5_000_000
_ROOT = b"CrossIndustry"
# The names since version 2, then those of version 1.
_DOCUMENT = ("ExchangedDocument", "HeaderExchangedDocument")
_SUM = (
    "SpecifiedTradeSettlementHeaderMonetarySummation",
    "SpecifiedTradeSettlementMonetarySummation",
)
_SETTLEMENT = ("ApplicableHeaderTradeSettlement", "ApplicableSupplyChainTradeSettlement")


def invoice_in(content: bytes) -> dict[str, JSON] | None:
    """Return number, date, total, due amount, currency, seller and buyer; None: no invoice."""
    if len(content) > _MAX_BYTES or _ROOT not in content:
        return None
    try:
        root = etree.fromstring(content, xml_parser())
    except etree.XMLSyntaxError:
        return None
    if not local_name(str(root.tag)).startswith(_ROOT.decode()):
        return None
    fields = dict(_fields(root))
    return {name: value for name, value in fields.items() if value} if fields["number"] else None


def _fields(root: etree._Element) -> Iterator[tuple[str, JSON]]:
    document, sums = _first(root, _DOCUMENT), _first(root, _SUM)
    issued = _first(document, ("IssueDateTime",))
    yield "number", _text(_child(document, "ID"))
    yield "date", from_compact(_text(_child(issued, "DateTimeString")))
    yield "total", _text(_child(sums, "GrandTotalAmount"))
    yield "due", _text(_child(sums, "DuePayableAmount"))
    yield "currency", _currency(root, sums)
    yield "seller", _text(_child(_first(root, ("SellerTradeParty",)), "Name"))
    yield "buyer", _text(_child(_first(root, ("BuyerTradeParty",)), "Name"))


def _currency(root: etree._Element, sums: etree._Element | None) -> str:
    declared = _text(_child(_first(root, _SETTLEMENT), "InvoiceCurrencyCode"))
    total = _child(sums, "GrandTotalAmount")
    return declared or clean_line((total.get("currencyID") or "") if total is not None else "")


def _first(root: etree._Element | None, names: tuple[str, ...]) -> etree._Element | None:
    elements = root.iter("{*}*") if root is not None else ()
    return next((e for e in elements if local_name(str(e.tag)) in names), None)


def _child(parent: etree._Element | None, name: str) -> etree._Element | None:
    children = parent if parent is not None else ()
    return next((e for e in children if local_name(str(e.tag)) == name), None)


def _text(element: etree._Element | None) -> str:
    return clean_line(element.text or "") if element is not None else ""
