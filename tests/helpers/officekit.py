"""Office packages, small and made here."""

from __future__ import annotations

import io
import zipfile

ODF = "application/vnd.oasis.opendocument."
NAMES = "xmlns:office='o' xmlns:text='t' xmlns:table='tb' xmlns:draw='d' xmlns:presentation='p'"


def packed(members: dict[str, str], mimetype: str = "") -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        if mimetype:
            file.writestr("mimetype", mimetype)
        for name, content in members.items():
            file.writestr(name, content)
    return buffer.getvalue()


def relations(*targets: tuple[str, str, str]) -> str:
    inner = "".join(
        f'<Relationship Id="{key}" Type="http://x/{role}" Target="{target}"/>'
        for key, role, target in targets
    )
    return f"<Relationships>{inner}</Relationships>"


def types(main: str) -> str:
    kind = f"application/vnd.openxmlformats-officedocument.{main}.main+xml"
    return f'<Types><Override PartName="/m.xml" ContentType="{kind}"/></Types>'


def odf(kind: str, body: str) -> bytes:
    content = f"<office:document {NAMES}><office:body>{body}</office:body></office:document>"
    return packed({"content.xml": content}, ODF + kind)
