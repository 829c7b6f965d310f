"""A real browser, and tabs in it that tolerate no error."""

import os
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Page, expect

from webview.browser import chromium, find_chromium

PATIENCE = 60_000.0  # milliseconds, long for a busy machine
expect.set_options(timeout=PATIENCE)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    """Yield a real browser, with long time-outs for a busy machine."""
    program = find_chromium()
    if program is None:
        reason = "no chromium is found: hack/chromium installs Debian's"
        if "CI" in os.environ:
            pytest.fail(reason)
        pytest.skip(reason)
    async with chromium(program) as made:
        yield made


@pytest_asyncio.fixture(loop_scope="module")
async def context(browser: Browser) -> AsyncIterator[BrowserContext]:
    made = await browser.new_context(locale="en-GB", timezone_id="America/New_York")
    made.set_default_timeout(PATIENCE)
    yield made
    await made.close()


@pytest_asyncio.fixture(loop_scope="module")
async def page(context: BrowserContext) -> AsyncIterator[Page]:
    """Yield a tab, and check at the end that no unexpected error occurred in it."""
    troubles: list[str] = []

    def note(message: ConsoleMessage) -> None:
        # The browser itself logs requests that were refused or got no answer.
        if message.type == "error" and "Failed to load resource" not in message.text:
            troubles.append(message.text)

    made = await context.new_page()
    made.on("console", note)
    made.on("pageerror", lambda error: troubles.append(str(error)))
    yield made
    assert troubles == []
