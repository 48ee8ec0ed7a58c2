"""Attachments, members of archives, Markdown and passwords, through real workers."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from email.message import EmailMessage
from pathlib import Path

import pytest

from fairlead import Fairlead
from fairlead.errors import UnknownDocument
from fairlead.model.documents import Document
from fairlead.model.states import State

pytestmark = pytest.mark.services


@pytest.fixture
def fairlead(tmp_path: Path) -> Iterator[Fairlead]:
    with Fairlead(tmp_path / "data") as installation:
        yield installation


def mail(text: str, *attachments: tuple[str, bytes]) -> bytes:
    message = EmailMessage()
    message["From"], message["To"] = "a@example.com", "b@example.com"
    message["Subject"] = "Papers"
    message.set_content(text)
    for name, content in attachments:
        message.add_attachment(
            content, maintype="application", subtype="octet-stream", filename=name
        )
    return bytes(message)


def archive(members: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as target:
        for name, content in members.items():
            target.writestr(name, content)
    return stream.getvalue()


def depth(fairlead: Fairlead, document: Document) -> int:
    return fairlead.store.stored_document(document.id).depth


def nested(depth: int) -> bytes:
    inner = b"the innermost letter"
    for _ in range(depth):
        inner = archive({"inner.zip" if inner.startswith(b"PK") else "letter.txt": inner})
    return inner


def family(fairlead: Fairlead, top: Document) -> dict[str, Document]:
    """All documents that came out of one, by name."""
    by_name: dict[str, Document] = {}
    to_look_at = [top.id]
    while to_look_at:
        parts = fairlead.documents(parent=to_look_at.pop()).items
        by_name |= {part.name: part for part in parts}
        to_look_at += [part.id for part in parts]
    return by_name


def test_a_deleted_document_still_leads_to_its_parts(fairlead: Fairlead) -> None:
    top = fairlead.submit("acme", archive({"a.txt": b"a", "b.txt": b"b"}), name="both.zip")
    fairlead.run_until_idle()
    fairlead.delete(top.id)
    parts = fairlead.documents(parent=top.id).items
    assert sorted((part.name, part.parent) for part in parts) == [
        ("a.txt", top.id),
        ("b.txt", top.id),
    ]
    fairlead.delete(parts[0].id)
    assert fairlead.documents(cursor=parts[0].id).items == [parts[1]], "a page goes on after it"
    with pytest.raises(UnknownDocument):
        fairlead.documents(parent="nothing")


def test_attachments_become_documents_of_the_same_customer(fairlead: Fairlead) -> None:
    top = fairlead.submit(
        "acme", mail("See below.", ("bill.txt", b"42 euros"), ("x.bin", b"\x00\x01"))
    )
    fairlead.run_until_idle(workers=1)
    assert "See below." in fairlead.text(top.id)
    parts = family(fairlead, top)
    assert set(parts) == {"bill.txt", "x.bin"}
    assert fairlead.text(parts["bill.txt"].id) == "42 euros"
    assert fairlead.original(parts["bill.txt"].id) == b"42 euros"
    assert {part.customer for part in parts.values()} == {"acme"}
    assert fairlead.store.customer("acme").counter is not None
    assert sorted(part.count for part in [top, *parts.values()]) == [-2, -1, 0]
    assert fairlead.document(parts["x.bin"].id).error == "unsupported"


def test_an_archive_in_a_mail_in_an_archive(fairlead: Fairlead) -> None:
    inner = mail("Inside.", ("more.zip", archive({"a.txt": b"alpha", "sub/b.txt": b"beta"})))
    top = fairlead.submit("acme", archive({"letter.eml": inner, "c.txt": b"gamma"}), name="all.zip")
    fairlead.run_until_idle(workers=2)
    parts = family(fairlead, top)
    assert set(parts) == {"letter.eml", "c.txt", "more.zip", "a.txt", "b.txt"}
    assert fairlead.text(parts["b.txt"].id) == "beta"
    assert depth(fairlead, parts["b.txt"]) == 3


def test_nothing_is_unpacked_beyond_the_depth_allowed(tmp_path: Path) -> None:
    with Fairlead(tmp_path, settings={"max_depth": 2}) as fairlead:
        top = fairlead.submit("acme", nested(5), name="deep.zip")
        fairlead.run_until_idle(workers=1)
        assert max(depth(fairlead, document) for document in fairlead.documents()) == 2
        deepest = next(
            document for document in fairlead.documents() if depth(fairlead, document) == 2
        )
        assert fairlead.document(deepest.id).facts["parts_left_out"] == 1
        assert fairlead.document(top.id).state is State.DONE


def test_a_family_stays_within_its_number(tmp_path: Path) -> None:
    many = archive({f"{n}.txt": f"letter {n}".encode() for n in range(30)})
    with Fairlead(tmp_path, settings={"max_members": 40}) as fairlead:
        fairlead.submit("acme", archive({"a.zip": many, "b.zip": many}), name="twice.zip")
        fairlead.run_until_idle(workers=2)
        documents = fairlead.documents(limit=100).items
        assert len(documents) == 1 + 40
        assert all(document.state is State.DONE for document in documents)


def test_markdown_is_there_where_the_document_has_a_layout(fairlead: Fairlead) -> None:
    page = b"<html><body><h1>Offer</h1><ul><li>tea</li><li>rice</li></ul></body></html>"
    document = fairlead.submit("acme", page)
    plain = fairlead.submit("acme", b"just a line")
    fairlead.run_until_idle(workers=1)
    assert "# Offer" in fairlead.markdown(document.id)
    assert "#" not in fairlead.text(document.id)
    assert fairlead.markdown(plain.id) == fairlead.text(plain.id) == "just a line"
    assert fairlead.store.stored_document(plain.id).markdown_key is None
    facts = fairlead.document(document.id).facts
    assert facts["kind"] == "html"
    assert facts["seconds"] > 0


def locked_pdf(tmp_path: Path) -> bytes:
    from reportlab.lib import pdfencrypt  # noqa: PLC0415 (no stubs, and only here)
    from reportlab.pdfgen import canvas  # noqa: PLC0415

    stream = io.BytesIO()
    page = canvas.Canvas(stream, encrypt=pdfencrypt.StandardEncryption("open sesame"))
    page.drawString(100, 700, "A secret of forty thieves")
    page.save()
    return stream.getvalue()


@pytest.mark.parametrize(
    ("password", "state"), [("open sesame", "done"), ("wrong", "failed"), (None, "failed")]
)
def test_a_locked_document_opens_with_its_password_only(
    fairlead: Fairlead, tmp_path: Path, password: str | None, state: str
) -> None:
    document = fairlead.submit("acme", locked_pdf(tmp_path), password=password)
    fairlead.run_until_idle(workers=1)
    current = fairlead.document(document.id)
    assert current.state == state
    if state == "done":
        assert "forty thieves" in fairlead.text(document.id)
    else:
        assert current.error == "encrypted"


def test_a_swept_folder_keeps_the_parts_and_their_texts(
    fairlead: Fairlead, monkeypatch: pytest.MonkeyPatch
) -> None:
    top = fairlead.submit("acme", archive({"a.html": b"<h1>Alpha</h1>"}), name="one.zip")
    fairlead.run_until_idle(workers=1)
    monkeypatch.setattr("fairlead.app.fairlead.time.time", lambda: 4e9)
    assert fairlead.services.sweep() == 0
    part = family(fairlead, top)["a.html"]
    assert "Alpha" in fairlead.markdown(part.id)
    assert fairlead.original(part.id) == b"<h1>Alpha</h1>"
