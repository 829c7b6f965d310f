from unit.scheduler.conftest import sleeps

__all__ = ["sleeps"]
