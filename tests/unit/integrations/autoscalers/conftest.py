from unit.scheduler.conftest import naps

__all__ = ["naps"]
