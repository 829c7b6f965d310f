"""Sleeps that return at once, for handlers with controllers that pause."""

from unit.scheduler.conftest import sleeps

__all__ = ["sleeps"]
