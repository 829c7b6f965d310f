"""Sleeps that pass at once, for handlers whose controllers pause."""

from unit.scheduler.conftest import naps

__all__ = ["naps"]
