from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from unit.client.fake_api import Members, counts, prepared, serving


@pytest.fixture
async def members(tmp_path: Path) -> AsyncIterator[Members]:
    async with AsyncExitStack() as stack:
        found: Members = {}
        for name in ("east", "west"):
            api, cluster = await stack.enter_async_context(serving(tmp_path, name))
            api.decide, api.on_patch = prepared, counts
            found[name] = api, cluster
        yield found
