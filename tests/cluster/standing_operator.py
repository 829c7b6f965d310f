"""Operators that serve the tests of many modules, and are suspended between these."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

from cluster.operator_process import OperatorProcess


class StandingOperator:
    """An operator that starts once, because a start costs seconds of a processor.

    While it is suspended, tests can act in its place, or start operators of their own on its cluster. When it
    goes on, its watches show it the changes, as after a pause of its machine.
    """

    def __init__(self, process: OperatorProcess) -> None:
        self._process = process

    @contextmanager
    def at_work(self) -> Iterator[OperatorProcess]:
        """Let the operator work while the context lasts. It starts if it does not run.

        Its log then begins with the context, and must contain no traceback at the end.
        """
        process = self._process
        process.begin_log()
        if process.running:
            process.signal(signal.SIGCONT)
        else:
            process.start()
        process.ready()
        try:
            yield process
        finally:
            if process.running:
                process.signal(signal.SIGSTOP)
        assert "Traceback" not in process.log

    def stop(self) -> None:
        """End the operator, which must stop with status 0, if it has been started and was not ended."""
        process = self._process
        if process.running:
            process.signal(signal.SIGCONT)
            assert process.stop() == 0
            assert "Traceback" not in process.log

    def kill(self) -> None:
        """End the operator at once, if it runs."""
        if self._process.running:
            self._process.kill()
