"""The API server's part in answers to creations: it asks the webhook, and stores the object with the answer.

Every run has an operator of its own, so it can't be the API server that calls a webhook here. The reviews,
the answers, and the rules for a failing webhook and for answers of former leaders are those of `manifests`.
"""

import asyncio
import base64
import json
import uuid
from collections.abc import Awaitable, Callable, Coroutine
from copy import deepcopy
from typing import Any, NamedTuple

from faults.exceptions import PlantedError
from faults.history import Json
from faults.operator_instance import OperatorInstance
from faults.proxy import Proxy
from tidelock.binders.reviews import BadReviewError
from tidelock.kube.errors import AlreadyExists, ApiError
from tidelock.model.answer import ANSWER, SIGNATURE

# Seconds after which the API server gives up a review (timeoutSeconds of the webhook).
_TIME_OUT = 1.0
_PREFIX = "/metadata/annotations"


class Granted(NamedTuple):
    """An object that was stored with the answer to its creation. `at` is the loop's time of the answer."""

    uid: str
    at: float


class RefusedCreationError(ApiError):
    """The API server does not store the reservation."""


class Creations:
    """Creates reservations that ask for an answer.

    Args:
        proxy: has the faults.
        instance: returns the instance of the operator, if one runs.
        leadership: returns the number of the present leadership.
        store: posts a reservation, and returns the stored object.

    Attributes:
        granted: objects that were stored with an answer.
        fence: held while an answer of the present leadership is stored. No other one begins meanwhile.

    """

    def __init__(
        self,
        proxy: Proxy,
        instance: Callable[[], OperatorInstance | None],
        leadership: Callable[[], int],
        store: Callable[[Json], Awaitable[Json]],
    ) -> None:
        self._proxy = proxy
        self._instance = instance
        self._leadership = leadership
        self._store = store
        self._under_way: set[asyncio.Task[None]] = set()
        self.granted: list[Granted] = []
        self.fence = asyncio.Lock()

    async def create(self, body: Json, *, fate: str = "stored", seconds: float = 0.0) -> None:
        """Create a reservation.

        Args:
            body: the reservation.
            fate: what becomes of the creation after its answer: `stored` at once, `delayed` by some seconds,
                `denied` by another admission, `dry` run, or `twice` for two creations of one name.
            seconds: the delay.

        """
        if fate == "delayed":
            self._spawn(self._create_late(body, seconds))
        elif fate == "twice":
            ends = await asyncio.gather(self._create(body), self._create(body), return_exceptions=True)
            errors = [end for end in ends if end is not None]
            if len(errors) == len(ends) or not all(isinstance(error, AlreadyExists) for error in errors):
                raise errors[0]
        elif fate == "stored":
            await self._create(body)
        else:
            await self._ask(body, dry_run=fate == "dry")

    async def done(self) -> None:
        """Wait until all creations have ended."""
        while self._under_way:
            await asyncio.wait(self._under_way)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _create(self, body: Json, seconds: float = 0.0) -> None:
        answers = await self._ask(body)
        at = asyncio.get_running_loop().time()
        await asyncio.sleep(seconds)
        body = deepcopy(body)
        body["metadata"].setdefault("annotations", {}).update(answers)
        async with self.fence:
            if answers and int(answers[SIGNATURE].split(".")[0]) < self._leadership():
                raise RefusedCreationError("the answer is of a former leadership")
            made = await self._store(body)
        if answers:
            self.granted.append(Granted(made["metadata"]["uid"], at))

    async def _create_late(self, body: Json, seconds: float) -> None:
        try:
            await self._create(body, seconds)
        except ApiError as error:
            self._proxy.fired.append(f"a delayed creation was refused: {error}")

    async def _ask(self, body: Json, *, dry_run: bool = False) -> dict[str, str]:
        """Ask the webhook, and return the annotations that it adds.

        Without an answer nothing is added, and a reservation that brings annotations is refused.
        """
        brought = {ANSWER, SIGNATURE} & body["metadata"].get("annotations", {}).keys()
        answer = await self._call(_review(body, dry_run=dry_run))
        if answer is None and brought:
            raise RefusedCreationError("the webhook has not answered")
        if answer is None:
            return {}
        if not answer["allowed"]:
            raise RefusedCreationError(answer["status"]["message"])
        return _added(answer)

    async def _call(self, review: bytes) -> Json | None:
        """Deliver a review, and return the response unless it is lost or late."""
        fault = self._proxy.next_fault("creation")
        what = fault.what if fault is not None else ""
        if what in {"refused", "reset"}:
            return None
        if what == "crash before":
            self._proxy.crash.set()
            return None
        if fault is not None and what in {"hang", "late"}:
            if what == "late":  # it reaches the operator when the API server has given up
                self._spawn(self._deliver_late(review, _TIME_OUT + fault.seconds))
            await asyncio.sleep(_TIME_OUT)
            return None
        answer = None
        try:
            async with asyncio.timeout(_TIME_OUT):
                answer = await self._deliver(review)
        except TimeoutError:
            return None
        if what == "crash after":
            self._proxy.crash.set()
        if what == "slow":
            await asyncio.sleep(_TIME_OUT)
        return None if what in {"lost", "broken", "slow"} else answer

    async def _deliver_late(self, review: bytes, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await self._deliver(review)

    async def _deliver(self, review: bytes) -> Json | None:
        """Have the operator answer a review, if it lives until it has done so and knows the cluster."""
        instance = self._instance()
        if instance is None or not instance.event_handlers.ready:
            return None
        try:
            text, _ = await instance.creations.review(review)
        except (BadReviewError, PlantedError):  # the object is stored without an answer
            return None
        if self._instance() is not instance or self._proxy.crash.is_set():
            return None
        response: Json = json.loads(text)["response"]
        return response


def _review(body: Json, *, dry_run: bool) -> bytes:
    request = {
        "uid": str(uuid.uuid4()),
        "resource": {"group": "tidelock.dev", "version": "v1alpha1", "resource": "reservations"},
        "operation": "CREATE",
        "namespace": body["metadata"]["namespace"],
        "object": body,
        "dryRun": dry_run,
    }
    return json.dumps({"request": request}).encode()


def _added(answer: Json) -> dict[str, str]:
    """Return the annotations that the JSON patch of a response adds."""
    added: dict[str, str] = {}
    for each in json.loads(base64.b64decode(answer["patch"])) if "patch" in answer else ():
        assert each["op"] == "add"
        if each["path"] == _PREFIX:
            added |= each["value"]
        else:
            added[each["path"].removeprefix(f"{_PREFIX}/").replace("~1", "/")] = each["value"]
    return added
