"""Takes the pictures of the dashboard for the documentation, from an invented installation."""

from __future__ import annotations

import argparse
import io
import tempfile
from pathlib import Path
from typing import Literal, NamedTuple

from PIL import Image
from playwright.sync_api import Browser, StorageState

from bench.browser import Serving, browser, serving
from bench.installation import fill

COLOURS = 256


class Shot(NamedTuple):
    """One picture."""

    name: str
    path: str
    scheme: Literal["light", "dark"] = "light"
    language: str = "en"
    width: int = 1180
    height: int = 900


SHOTS = (
    Shot("overview", "/"),
    Shot("customers", "/customers", "dark", height=560),
    Shot("customer", "/customer?name=Initech", height=720),
    Shot("documents", "/documents", height=640),
    Shot("document", "first waiting", height=560),
    Shot("phone", "/", "dark", "de", 390, 844),
    Shot("polish", "/customers", "light", "pl", height=560),
)


def log_in(opened: Browser, server: Serving) -> StorageState:
    """The session of the login link, which works once."""
    context = opened.new_context()
    context.new_page().goto(server.login)
    session = context.storage_state()
    context.close()
    return session


def take(opened: Browser, server: Serving, session: StorageState, shot: Shot) -> bytes:
    """The picture as PNG."""
    context = opened.new_context(
        storage_state=session,
        color_scheme=shot.scheme,
        locale=shot.language,
        viewport={"width": shot.width, "height": shot.height},
    )
    page = context.new_page()
    path = shot.path
    if path == "first waiting":
        page.goto(f"{server.url}/documents?state=waiting")
        path = str(page.locator("tbody th a").first.get_attribute("href"))
    page.goto(server.url + path)
    page.locator("#link.live").wait_for()
    picture = page.screenshot()
    context.close()
    return picture


def small(picture: bytes) -> bytes:
    """The same with few colours, in a fraction of the bytes."""
    packed = io.BytesIO()
    image = Image.open(io.BytesIO(picture)).convert("RGB")
    image.quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(
        packed, "PNG", optimize=True
    )
    return packed.getvalue()


def main() -> None:
    """Take all pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("docs/dashboard"))
    folder: Path = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        data = Path(place) / "data"
        fill(data)
        with serving(data, "--workers", "0", lease=3600) as server, browser() as opened:
            session = log_in(opened, server)
            for shot in SHOTS:
                content = small(take(opened, server, session, shot))
                (folder / f"{shot.name}.png").write_bytes(content)
                print(f"{shot.name}.png  {len(content):,} bytes")


if __name__ == "__main__":
    main()
