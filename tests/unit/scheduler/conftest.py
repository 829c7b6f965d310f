import asyncio

import pytest


@pytest.fixture
def naps(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds that were slept for, which pass at once."""
    sleep, slept = asyncio.sleep, list[float]()

    async def nap(seconds: float) -> None:
        if seconds:
            slept.append(seconds)
        await sleep(0)

    monkeypatch.setattr(asyncio, "sleep", nap)
    return slept
