"""Windows of a schedule begin at the instants of its expression, and each is created once."""

import asyncio
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from zoneinfo import ZoneInfo

from cronsim import CronSim
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import NOW
from tidelock.kube.errors import Unreachable
from tidelock.model.cron import Timetable, read_expression, read_zone
from unit.scheduler.scheduled import KEY, ScheduleScene

ZONES = [
    "Etc/UTC",
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Africa/Cairo",
    "Asia/Kolkata",
]
MINUTES = st.sampled_from(["0", "30", "*/20", "45", "7,37", "*"])
HOURS = st.sampled_from(["*", "1", "2", "1-3", "*/6", "0,23"])
DAYS = st.sampled_from(["*", "*/2", "1-7", "?"])
WEEKDAYS = st.sampled_from(["*", "SUN", "0,6", "1-5"])
# Around the days on which clocks are put forward and back.
MOMENTS = st.sampled_from(
    [
        datetime(year, month, day, hour, tzinfo=UTC)
        for year in (2026, 2027)
        for month, days in ((3, (7, 13, 27, 28)), (4, (3, 4, 23)), (10, (3, 24, 29, 31)), (11, (1, 6)))
        for day in days
        for hour in (0, 12, 23)
    ]
)


def shown_by(schedule: str, moment: datetime) -> bool:
    """Return whether an expression names a local time, by its fields alone."""
    minute, hour, day, _, weekday = schedule.replace("?", "*").split()
    values = (moment.minute, moment.hour, moment.day, moment.isoweekday() % 7)
    fits = [named(field, value) for field, value in zip((minute, hour, day, weekday), values, strict=True)]
    either = "*" not in (day, weekday)
    return fits[0] and fits[1] and (fits[2] or fits[3] if either else fits[2] and fits[3])


def named(field: str, value: int) -> bool:
    """Return whether a field names a value, where days with a step count from 1, as there is no day 0."""
    if "," in field:
        return any(named(each, value) for each in field.split(","))
    if field in ("*", "SUN"):
        return field == "*" or value == 0
    if field.startswith("*/"):
        step = int(field[2:])
        return value % step == (1 if step == 2 else 0)  # only the field of days has steps of two here
    first, _, last = field.partition("-")
    return int(first) <= value <= int(last or first)


@given(
    st.builds(lambda *fields: " ".join((*fields[:3], "*", fields[3])), MINUTES, HOURS, DAYS, WEEKDAYS),
    st.sampled_from(ZONES),
    MOMENTS,
    st.integers(0, 59),
)
@settings(deadline=None, max_examples=60)
def test_an_instant_is_on_the_schedule_if_the_expression_names_its_local_time(
    schedule: str, zone: str, begin: datetime, minute: int
) -> None:
    start = begin + timedelta(minutes=minute)
    table = Timetable(read_expression(schedule), read_zone(zone))
    minutes = (start + timedelta(minutes=each) for each in range(1, 2 * 24 * 60))
    expected = [each.timestamp() for each in minutes if shown_by(schedule, each.astimezone(ZoneInfo(zone)))]
    found = list(islice(table.after(start.timestamp()), len(expected)))
    assert found == expected
    for earlier, later in pairwise(found[-12:]):
        assert table.latest(later - 1, start.timestamp()) == earlier


@given(st.text("0123456789*/,-?LWJANSU# ", max_size=20), st.text(max_size=12))
def test_an_unreadable_expression_or_zone_raises_a_value_error(schedule: str, zone: str) -> None:
    for read, text in ((read_expression, schedule), (read_zone, zone)):
        try:
            read(text)
        except ValueError as error:
            assert repr(text) in str(error)  # noqa: PT017 -- it may be readable as well


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("pass"), st.integers(1, 1500)),
        st.tuples(st.just("away"), st.integers(0, 3000)),
        st.tuples(st.just("crash"), st.integers(0, 3000)),
        st.tuples(st.just("take"), st.just(0)),
        st.tuples(st.just("untold"), st.integers(0, 3000)),
    ),
    max_size=8,
)


@given(
    st.sampled_from(["*/10 * * * *", "30 * * * *", "5,8 * * * *"]),
    st.integers(1, 3),
    st.sampled_from([120, 600, 1500]),
    STEPS,
)
@settings(deadline=None, max_examples=30)
def test_each_window_is_created_once_despite_crashes_and_pauses(
    schedule: str, ahead: int, duration: int, steps: list[tuple[str, int]]
) -> None:
    asyncio.run(run_steps(schedule, ahead, duration, steps))


async def run_steps(schedule: str, ahead: int, duration: int, steps: list[tuple[str, int]]) -> None:
    scene = ScheduleScene()
    scene.ask(schedule=schedule, ahead=ahead, durationSeconds=duration)
    await scene.go_on()
    begun: set[float] = set()
    for step, amount in steps:
        made = await do(scene, step, amount)
        begun |= {start for start in made if start <= scene.clock.now() - NOW}
        there = set(scene.windows)
        await scene.go_on()

        now = scene.clock.now() - NOW
        to_come = CronSim(schedule, datetime.fromtimestamp(NOW + now, UTC))
        wanted = [each.timestamp() - NOW for each in islice(to_come, ahead)]
        assert [start for start in scene.windows if start > now] == wanted
        late = {start for start in scene.windows if start <= now} - there
        last = CronSim(schedule, datetime.fromtimestamp(NOW + now + 1, UTC), reverse=True)
        assert late <= {next(last).timestamp() - NOW}
        assert all(start > now - duration for start in late)
        assert not late & begun, "a window was created twice"
        begun |= late | {start for start in there if start <= now}


async def do(scene: ScheduleScene, step: str, amount: int) -> list[float]:
    """Apply a step: time passes, the process is away or crashes, or reservations are consumed.

    Returns:
        the windows that a process created before it crashed without a status write.

    """
    if step == "take":
        await scene.take(*(start for start in scene.windows if NOW + start <= scene.clock.now()))
        return []
    scene.clock.advance(amount)
    made: list[float] = []
    if step == "untold":
        await scene.go_untold()
        made = [float(each.removeprefix("nightly-")) * 60 - NOW for each in scene.posted]
    if step == "crash":
        await crash(scene)
    if step in ("crash", "away", "untold"):
        scene.restart()
    return made


async def crash(scene: ScheduleScene) -> None:
    """End the process during a write: the first request is carried out, and its answer is lost."""
    scene.api.loses(Unreachable("crashed", outcome_unknown=True))
    scene.controller.reconcile(KEY)
    await asyncio.sleep(0)
    await scene.shell.tasks.drain(0.0)
