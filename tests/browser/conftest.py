import os
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser

from webview.browser import chromium, find_chromium


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
