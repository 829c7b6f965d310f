import asyncio

import pytest


@pytest.fixture
def sleeps(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Make `asyncio.sleep` return at once, and return the seconds of each call."""
    sleep, slept = asyncio.sleep, list[float]()

    async def record(seconds: float) -> None:
        if seconds:
            slept.append(seconds)
        await sleep(0)

    monkeypatch.setattr(asyncio, "sleep", record)
    return slept
