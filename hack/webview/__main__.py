"""A command that takes pictures of the web view of a simulated cluster, serves it, or measures it.

    python -m webview docs/images          # web-view-light.png, web-view-dark.png and web-view-node.png
    python -m webview --port 8080          # for a browser, until Ctrl-C
    python -m webview --port 8080 --varied # with a reservation in each state, and objects of all kinds
    python -m webview --cost               # the cost of a page with thousands of nodes and reservations

Pictures need Chromium, see hack/chromium.
"""

import argparse
import asyncio
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

from playwright.async_api import Browser

from webview.browser import chromium, find_chromium
from webview.cost import measure
from webview.scene import Scene, ordinary
from webview.variety import EKS, varied

_SIZE = 1240, 860  # CSS pixels
_COLOURS = 256  # colours in a picture, for a smaller file


async def take(browser: Browser, address: str, scheme: Literal["light", "dark"], file: Path) -> None:
    """Take one picture of a page."""
    width, height = _SIZE
    context = await browser.new_context(
        color_scheme=scheme,
        viewport={"width": width, "height": height},
        locale="en-GB",
        timezone_id="UTC",
    )
    page = await context.new_page()
    await page.goto(address)
    await page.locator("#main").wait_for()
    await page.screenshot(path=file, full_page=True)
    await context.close()
    shrink(file)


def shrink(file: Path) -> None:
    """Write a picture with fewer colours."""
    from PIL import Image  # noqa: PLC0415 -- comes with matplotlib, and only this function uses it

    with Image.open(file) as picture:
        small = picture.convert("RGB").quantize(_COLOURS, dither=Image.Dither.NONE)
    small.save(file, optimize=True)


async def pictures(program: str, folder: Path) -> None:
    """Take pictures of the overview in light and in dark colours, and one of a node."""
    async with chromium(program) as browser:
        async with ordinary().stage.served() as address:
            await take(browser, address, "light", folder / "web-view-light.png")
            await take(browser, address, "dark", folder / "web-view-dark.png")
        async with varied().stage.served() as address:
            await take(browser, f"{address}#/nodes/{EKS}", "light", folder / "web-view-node.png")


async def serve(scene: Scene, port: int) -> None:
    """Serve until the end of the process."""
    async with scene.stage.served(port=port) as address:
        print(address)
        await asyncio.Event().wait()


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return the exit status."""
    parser = argparse.ArgumentParser(prog="webview", description=__doc__.split("\n", 1)[0])
    parser.add_argument("folder", nargs="?", type=Path, help="folder for the pictures")
    parser.add_argument("--port", type=int, default=0, help="serve here instead")
    parser.add_argument("--varied", action="store_true", help="serve all states and kinds of objects")
    parser.add_argument("--cost", action="store_true", help="measure instead")
    options = parser.parse_args(argv)
    if options.cost:
        measure()
        return 0
    if options.folder is None:
        with suppress(KeyboardInterrupt):
            asyncio.run(serve(varied() if options.varied else ordinary(), options.port))
        return 0
    program = find_chromium()
    if program is None:
        sys.stderr.write("webview: no chromium is found: install it by hack/chromium\n")
        return 1
    asyncio.run(pictures(program, options.folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
