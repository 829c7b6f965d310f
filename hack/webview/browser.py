"""Debian's Chromium without a screen, driven by Playwright."""

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from playwright.async_api import Browser, async_playwright

_PATIENCE = 60_000  # milliseconds
_FLAGS = (
    "--no-sandbox",  # a root user in a container has no sandbox
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def find_chromium() -> str | None:
    """Return the program's path, or None if it is not installed, see hack/chromium."""
    return shutil.which("chromium")


@asynccontextmanager
async def chromium(program: str) -> AsyncIterator[Browser]:
    """Run the browser while the context lasts."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=program, headless=True, args=_FLAGS, timeout=_PATIENCE
        )
        try:
            yield browser
        finally:
            await browser.close()
