"""Each kind's text and facts, from documents made here; hostile ones too."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from contextlib import suppress
from email.message import EmailMessage

import docx
import pypdfium2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis_profiles import examples
from reportlab.lib.pdfencrypt import StandardEncryption
from reportlab.pdfgen.canvas import Canvas

from fairlead.read import CannotRead, Extracted
from fairlead.read.base import clean, clean_line
from fairlead.read.draft import NO_TEXT, count_words

Read = Callable[..., Extracted]
Refuse = Callable[..., CannotRead]


def repacked(data: bytes, change: Callable[[str, bytes], bytes], **options: int) -> bytes:
    """The same archive with changed members."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(buffer, "w", **options) as new:  # type: ignore[call-overload]
        for name in old.namelist():
            new.writestr(name, change(name, old.read(name)))
    return buffer.getvalue()


class TestPdf:
    def test_text_and_facts(self, read: Read, pdf: Callable[..., bytes]) -> None:
        extracted = read(pdf("first page", "second page", title="Title", author="Ada"))
        assert extracted.text == "first page\n\fsecond page"
        assert extracted.facts.pop("created")
        assert extracted.facts == {
            "pages": 2,
            "title": "Title",
            "author": "Ada",
            "words": 4,
            "warnings": [],
            "extractor": f"pypdfium2 {pypdfium2.version.PYPDFIUM_INFO}",
        }

    def test_no_text_is_never_silent(self, read: Read, pdf: Callable[..., bytes]) -> None:
        extracted = read(pdf(""))
        assert extracted.text == ""
        assert extracted.facts["warnings"] == [NO_TEXT]

    def test_the_text_ends_at_the_limit(self, read: Read, pdf: Callable[..., bytes]) -> None:
        extracted = read(pdf("abcdef", "ghi"), characters=4)
        assert extracted.text == "abcd"
        assert extracted.facts["warnings"] == ["the text was cut after 4 characters"]

    def test_a_password_means_encrypted(self, refuse: Refuse) -> None:
        buffer = io.BytesIO()
        canvas = Canvas(buffer, encrypt=StandardEncryption("secret"))
        canvas.drawString(72, 700, "hidden")
        canvas.save()
        error = refuse(buffer.getvalue())
        assert (error.code, error.kind) == ("encrypted", "pdf")

    def test_junk_before_the_signature_is_skipped(
        self, read: Read, pdf: Callable[..., bytes]
    ) -> None:
        assert read(b"some junk\n" + pdf("hello")).text == "hello"

    def test_a_broken_one_is_damaged(self, refuse: Refuse, pdf: Callable[..., bytes]) -> None:
        for data in (b"%PDF-1.4\n", pdf("x")[:200], b"%PDF-1.7\n" + bytes(range(256)) * 9):
            assert (refuse(data).code, refuse(data).kind) == ("damaged", "pdf")


class TestDocx:
    def test_text_and_facts(self, read: Read, word: bytes) -> None:
        extracted = read(word)
        assert extracted.kind == "docx"
        assert extracted.text == "Letterhead\n\nbefore the table\na\tb\tc\nd\t\tf\nafter\tit"
        assert (extracted.facts["title"], extracted.facts["author"]) == ("The offer", "Ada")
        assert str(extracted.facts["extractor"]).startswith("lxml ")

    def test_content_controls_and_deleted_text(self, read: Read, word: bytes) -> None:
        def change(name: str, content: bytes) -> bytes:
            if name != "word/document.xml":
                return content
            chosen = b"<w:p><w:r><w:t>chosen</w:t></w:r></w:p>"
            shown = b"<w:sdt><w:sdtContent>" + chosen + b"</w:sdtContent></w:sdt>"
            gone = b"<w:p><w:del><w:r><w:delText>gone</w:delText></w:r></w:del></w:p>"
            return content.replace(b"<w:body>", b"<w:body>" + shown + gone)

        text = read(repacked(word, change)).text
        assert "chosen\nbefore" in text
        assert "gone" not in text

    def test_the_text_ends_at_the_limit(self, read: Read, word: bytes) -> None:
        assert read(word, characters=12).text == "Letterhead"

    def test_an_empty_one_says_so(self, read: Read) -> None:
        buffer = io.BytesIO()
        docx.Document().save(buffer)
        assert read(buffer.getvalue()).facts["warnings"] == [NO_TEXT]

    def test_a_bomb_is_refused_by_its_ratio(self, refuse: Refuse, word: bytes) -> None:
        bomb = repacked(
            word,
            lambda name, content: content + b" " * 3_000_000 * (name == "word/document.xml"),
            compression=zipfile.ZIP_DEFLATED,
        )
        assert refuse(bomb).code == "too-large"

    def test_a_bomb_is_refused_by_its_size(self, refuse: Refuse, word: bytes) -> None:
        assert refuse(word, unpacked_bytes=1_000).code == "too-large"

    def test_entities_are_not_expanded(self, read: Read, word: bytes) -> None:
        start = b"<!DOCTYPE x [<!ENTITY f SYSTEM 'file:///etc/passwd'>]>"

        def change(name: str, content: bytes) -> bytes:
            if name != "word/document.xml":
                return content
            body = content.replace(b"before the table", b"&f;")
            return start + body.partition(b"?>")[2]

        with suppress(CannotRead):
            assert "root:" not in read(repacked(word, change)).text

    def test_a_part_that_is_no_xml_is_damaged(self, refuse: Refuse, word: bytes) -> None:
        broken = repacked(word, lambda n, c: b"<w:doc" if n == "word/document.xml" else c)
        assert (refuse(broken).code, refuse(broken).kind) == ("damaged", "docx")

    def test_flipped_bytes_are_damaged(self, refuse: Refuse, word: bytes) -> None:
        at = word.index(b"word/document.xml") + 200
        broken = word[:at] + bytes(byte ^ 255 for byte in word[at : at + 50]) + word[at + 50 :]
        assert refuse(broken).code == "damaged"


class TestHtml:
    def test_what_is_visible_stays(self, read: Read) -> None:
        extracted = read(
            b"<!doctype html><html><head><title>The title</title><style>p {color: red}</style>"
            b"<script>alert('no')</script></head><body><h1>Head</h1><p>one  \n <b>t</b>wo<br>three"
            b"</p><!-- hidden --><ul><li>x<li>y</ul><table><tr><th>a</th><td><p>b</p></td></tr>"
            b"<tr><td></td><td>d</td></tr></table><pre>  k\n   l</pre></body></html>"
        )
        assert extracted.text == (
            "The title\n\nHead\n\none two\nthree\n\nx\ny\n\na\tb\n\td\n\n  k\n   l"
        )
        assert extracted.facts["title"] == "The title"
        assert extracted.facts["warnings"] == []

    @pytest.mark.parametrize(
        ("declaration", "encoding"),
        [
            ("<meta charset=iso-8859-2>", "iso-8859-2"),
            ("<meta http-equiv=Content-Type content='text/html; charset=koi8-r'>", "koi8-r"),
            ("<meta charset='utf-8'>", "utf-8"),
            ("", "utf-8"),
            ("", "utf-16"),
            ("<meta charset=nonsense>", "utf-8"),
            ("<meta charset=zlib>", "utf-8"),
            ("<meta charset=utf-16>", "utf-8"),
        ],
    )
    def test_charset(self, read: Read, declaration: str, encoding: str) -> None:
        word = "жук" if encoding == "koi8-r" else "dří"
        page = f"<html><head>{declaration}</head><body>{word}</body></html>"
        assert read(page.encode(encoding)).text == word

    def test_missing_text_and_deep_nesting_are_warnings(self, read: Read) -> None:
        assert read(b"<html><script>1</script></html>").facts["warnings"] == [NO_TEXT]
        deep = read(b"<html>start" + b"<div>" * 100_000 + b"lost")
        assert deep.text == "start"
        assert "nested too deeply" in str(deep.facts["warnings"])

    def test_the_text_ends_at_the_limit(self, read: Read) -> None:
        assert read(b"<html><p>abc<p>def<p>ghi", characters=6).text == "abc\n\nd"

    def test_no_element_at_all(self, read: Read) -> None:
        assert read(b"<!doctype html>").text == ""


class TestMail:
    def make(self) -> EmailMessage:
        message = EmailMessage()
        message["Subject"] = "Grüße"
        message["From"] = "Ada <ada@example.org>"
        message["To"] = "bob@example.org"
        message["Date"] = "Mon, 01 Jan 2024 10:00:00 +0000"
        return message

    def test_plain_is_preferred_and_attachments_are_named(self, read: Read) -> None:
        message = self.make()
        message.set_content("Hällo Bob")
        message.add_alternative("<p>Hello <b>HTML</b></p>", subtype="html")
        message.add_attachment(b"%PDF", maintype="application", subtype="pdf", filename="ä.pdf")
        message.add_attachment("inner text", filename="notes.txt")
        extracted = read(message.as_bytes())
        assert extracted.text == (
            "Subject: Grüße\nFrom: Ada <ada@example.org>\nTo: bob@example.org\n"
            "Date: Mon, 01 Jan 2024 10:00:00 +0000\n\nHällo Bob"
        )
        assert extracted.facts["title"] == "Grüße"
        assert extracted.facts["attachments"] == ["ä.pdf", "notes.txt"]
        assert [(part.name, part.content.strip()) for part in extracted.parts] == [
            ("ä.pdf", b"%PDF"),
            ("notes.txt", b"inner text"),
        ]

    def test_html_alone_becomes_text(self, read: Read) -> None:
        message = self.make()
        message.set_content("<style>x</style><p>one<p>two", subtype="html")
        assert read(message.as_bytes()).text.endswith("\n\none\n\ntwo")

    def test_a_forwarded_message_is_an_attachment(self, read: Read) -> None:
        inner = self.make()
        inner.set_content("the inner words")
        message = self.make()
        message.set_content("see below")
        message.add_attachment(inner)
        extracted = read(message.as_bytes())
        assert "inner" not in extracted.text
        assert [part.name for part in extracted.parts] == ["Grüße.eml"]
        again = read(extracted.parts[0].content)
        assert (again.kind, "the inner words" in again.text) == ("email", True)

    @pytest.mark.parametrize(
        "tail",
        [
            b"Content-Type: multipart/mixed\n\nno boundary here",
            b"Content-Type: text/plain; charset=unheard-of\n\nno boundary here",
            b"Content-Type: text/plain; charset=utf-8\n\nno boundary here \xff\xfe",
            b"Content-Type: ; ; =\nContent-Disposition: =?x?=\n\nno boundary here",
            b"Content-Transfer-Encoding: base64\n\nbm8gYm91bmRhcnkgaGVyZQ==",
        ],
    )
    def test_malformed_ones_still_give_their_words(self, read: Read, tail: bytes) -> None:
        extracted = read(b"From: <<ada@example.org\nTo: ;;,<\nSubject: =?utf-8?q?a\n" + tail)
        assert extracted.kind == "email"
        assert "no boundary here" in extracted.text

    def test_giant_headers_take_no_time(self, read: Read) -> None:
        extracted = read(b"From: a@example.org\nTo: " + b"b@example.org, " * 100_000 + b"\n\nbody")
        assert extracted.text.endswith("\n\nbody")

    def test_deep_nesting_is_damage_not_a_crash(self, refuse: Refuse) -> None:
        parts = (
            b'Content-Type: multipart/mixed; boundary="b%d"\n\n--b%d\n' % (n, n)
            for n in range(2_000)
        )
        error = refuse(b"From: a@example.org\nTo: b@example.org\n" + b"".join(parts))
        assert (error.code, error.kind) == ("damaged", "email")


class TestText:
    @pytest.mark.parametrize(
        "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"]
    )
    def test_unicode(self, read: Read, encoding: str) -> None:
        assert read("naïve 日本 😀\r\nnext".encode(encoding)).text == "naïve 日本 😀\nnext"

    @pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
    @pytest.mark.parametrize("text", ["Total: 7 €", "Договор № 12 от мая", "σύνολο 9,50"])
    def test_utf_16_without_a_mark(self, read: Read, encoding: str, text: str) -> None:
        extracted = read(text.encode(encoding))
        assert (extracted.kind, extracted.text) == ("text", text)
        assert extracted.facts["encoding"] == encoding

    def test_a_guessed_encoding_is_a_warning(self, read: Read) -> None:
        text = "Zażółć gęślą jaźń, proszę bardzo, to jest zwykły polski tekst o niczym. " * 5
        extracted = read(text.encode("cp1250"))
        assert extracted.text == text.strip()
        assert "guessed" in str(extracted.facts["warnings"])

    def test_a_foreign_byte_far_behind_the_start(self, read: Read) -> None:
        extracted = read(b"plain words here. " * 5_000 + "Grüße aus München".encode("cp1252"))
        assert extracted.text.endswith("Grüße aus München")

    def test_the_text_ends_at_the_limit_within_a_character(self, read: Read) -> None:
        extracted = read("ä😀".encode() * 1_000, characters=501)
        assert extracted.text == ("ä😀" * 300)[:501]
        assert extracted.facts["warnings"] == ["the text was cut after 501 characters"]

    def test_blanks_alone_are_no_text(self, read: Read) -> None:
        assert read(b" \n\t\n ").facts["warnings"] == [NO_TEXT]


def test_nothing_unwanted_survives() -> None:
    assert clean("a\x00b\ud800c\r\nd\re\x02f\tg\fh\ufffe") == "abc\nd\nef\tg\fh"
    assert clean_line("  a\n b" + "c" * 9_999) == "a b" + "c" * 297


def test_words_are_counted_across_slices() -> None:
    for text in ("", "a", "abcd", "abc def", "ab cdefghi j", "  a  b  "):
        assert count_words(text, at_once=3) == len(text.split())


starts = st.sampled_from(
    [
        b"",
        b"%PDF-1.4\n",
        b"PK\x03\x04",
        b"<html>",
        b"From: a@b.c\nTo: d\n\n",
        b"\xff\xfe",
        b"{\\rtf",
    ]
)


@settings(max_examples=examples(150), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(start=starts, rest=st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(read: Read, start: bytes, rest: bytes) -> None:
    with suppress(CannotRead):
        extracted = read(start + rest)
        assert extracted.text.strip() or NO_TEXT in str(extracted.facts["warnings"])
