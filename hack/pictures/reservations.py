"""Pictures of one reservation: its phases, two phases, borrowing, windows and schedules."""

from pictures.canvas import Canvas, Kind, Scale, Segment

_CORE = 62  # pixels for a core of a node


def phases() -> Canvas:
    """Draw the phases of a reservation, and the events between them."""
    picture = Canvas(760, 250, "Phases of a reservation, from its creation to its end")
    size = 118, 40
    picture.box((30, 40, *size), Kind.PREPARED, "Pending")
    picture.box((190, 110, *size), Kind.PREPARED, "Planned")
    picture.box((330, 40, *size), Kind.RESERVED, "Active")
    picture.box((480, 40, *size), Kind.RESERVED, "Bound")
    picture.box((620, 40, *size), Kind.POD, "Consumed")
    picture.box((30, 190, *size), Kind.REFUSED, "Rejected")
    picture.box((330, 190, *size), Kind.POD, "Expired")
    picture.box((480, 190, *size), Kind.REFUSED, "Lost")
    picture.line((148, 55), (328, 55), style="arrow")
    picture.text(240, 48, "capacity", anchor="middle", size=12, style="faint")
    picture.line((328, 68), (150, 68), style="arrow")
    picture.text(240, 84, "capacity lost", anchor="middle", size=12, style="faint")
    picture.line((110, 80), (110, 130), (188, 130), style="arrow")
    picture.text(116, 124, "startAt", size=12, style="faint")
    picture.line((308, 130), (370, 130), (370, 82), style="arrow")
    picture.text(376, 126, "begins", size=12, style="faint")
    picture.line((448, 55), (478, 55), style="arrow")
    picture.line((478, 68), (450, 68), style="arrow")
    picture.text(464, 34, "owner / binding fails", anchor="middle", size=12, style="faint")
    picture.line((598, 60), (618, 60), style="arrow")
    picture.text(679, 34, "pod is bound", anchor="middle", size=12, style="faint")
    picture.line((60, 80), (60, 188), style="arrow")
    picture.text(66, 176, "deadline", size=12, style="faint")
    picture.line((345, 80), (345, 188), style="arrow")
    picture.text(352, 176, "time over", size=12, style="faint")
    picture.line((440, 80), (440, 150), (530, 150), (530, 188), style="arrow")
    picture.text(538, 168, "node is gone", size=12, style="faint")
    return picture


def two_phase() -> Canvas:
    """Draw one hold that is committed, and one that is released."""
    picture = Canvas(
        760, 262, "Two phases: prepared in two clusters, committed in one, released in the other"
    )
    events = (
        (150, 170, "create both"),
        (330, 100, "commit east"),
        (440, 170, "delete west"),
        (590, 100, "pod arrives"),
    )
    for x, end, text in events:
        picture.line((x, 36), (x, end), style="dashes")
        picture.text(x, 26, text, anchor="middle")
    picture.text(20, 76, "cluster east")
    picture.box((150, 52, 180, 40), Kind.PREPARED, "prepared: Active")
    picture.box((330, 52, 260, 40), Kind.RESERVED, "Committed=True")
    picture.box((590, 52, 150, 40), Kind.POD, "pod web-0")
    picture.text(20, 146, "cluster west")
    picture.box((150, 122, 290, 40), Kind.PREPARED, "prepared: Active")
    picture.box((440, 122, 300, 40), Kind.FREE)
    picture.text(490, 147, "free", anchor="middle")
    picture.line((540, 112), (540, 174), style="dashes")
    picture.text(540, 190, "dueAt", anchor="middle", size=12, style="faint")
    picture.text(
        20,
        228,
        "A manager that crashes before its commit deletes nothing: both holds end at dueAt, by themselves.",
    )
    picture.text(20, 248, "A commit with the token of an earlier hold has no effect.", style="faint")
    return picture


def borrowing() -> Canvas:
    """Draw a node while its reservation is unused, lent, and taken by its owner."""
    picture = Canvas(760, 214, "Borrowing: a batch pod uses reserved capacity until the owner comes")
    rows = (
        ("reserved", (Segment(2, Kind.POD, "other pods"), Segment(4, Kind.RESERVED, "reserved for web-0"))),
        (
            "batch-0 borrows",
            (
                Segment(2, Kind.POD, "other pods"),
                Segment(3, Kind.LENT, "batch-0"),
                Segment(1, Kind.RESERVED, "rest"),
            ),
        ),
        ("web-0 comes", (Segment(2, Kind.POD, "other pods"), Segment(4, Kind.POD, "web-0"))),
    )
    for number, (name, segments) in enumerate(rows):
        picture.bar((170, 24 + number * 62), _CORE, segments, name)
    picture.text(560, 46, "no other pod fits")
    picture.text(560, 108, "declared evictable")
    picture.text(560, 170, "batch-0 was evicted")
    picture.line((356, 60), (356, 84), style="arrow")
    picture.line((356, 122), (356, 146), style="arrow")
    return picture


def windows() -> Canvas:
    """Draw the cores of a node over time, with a planned window."""
    picture = Canvas(
        760, 250, "A window: capacity that is planned from two o'clock on, and usable until then"
    )
    hour, top, core = Scale(110, 105), 30, 20
    bottom = top + 8 * core
    for value in range(7):
        picture.line((hour(value), bottom), (hour(value), bottom + 5))
        picture.text(hour(value), bottom + 20, f"{value}:00", anchor="middle", size=12, style="faint")
    picture.text(98, top + 12, "8 cores", anchor="end", size=12, style="faint")
    picture.line((hour(0), top), (hour(0), bottom), (hour(6), bottom))
    picture.box((hour(0), top, hour(1.75) - hour(0), 8 * core), Kind.POD, "batch pod\nends by 1:45")
    picture.box((hour(2), top, hour(2.5) - hour(2), 8 * core), Kind.RESERVED)
    picture.text(hour(2.25), top + 76, "held", anchor="middle")
    picture.text(hour(2.25), top + 94, "for it", anchor="middle")
    picture.box((hour(2.5), top, hour(4.5) - hour(2.5), 8 * core), Kind.POD, "nightly: at most\nrunSeconds")
    picture.box((hour(4.55), top, hour(6) - hour(4.55), 8 * core), Kind.FREE, "free again")
    picture.text(
        20, 234, "A pod without a known end does not fit here: it might still run at two.", style="faint"
    )
    return picture


def schedules() -> Canvas:
    """Draw a week of windows of a schedule, of which two are planned ahead."""
    picture = Canvas(760, 176, "A schedule plans its next two windows, and skips the weekend")
    day = Scale(40, 100)
    windows = (
        (0, Kind.POD, "Mon\nconsumed"),
        (1, Kind.RESERVED, "Tue\nActive"),
        (2, Kind.PREPARED, "Wed\nPlanned"),
        (3, Kind.PREPARED, "Thu\nPlanned"),
        (4, Kind.FREE, "Fri\nlater"),
    )
    for number, kind, text in windows:
        picture.box((day(number), 30, 90, 52), kind, text)
    picture.text(day(5) + 45, 60, "Sat", anchor="middle", style="faint")
    picture.text(day(6) + 45, 60, "Sun", anchor="middle", style="faint")
    picture.line((20, 102), (740, 102), style="arrow")
    picture.line((day(1) + 45, 94), (day(1) + 45, 112))
    picture.text(day(1) + 45, 130, "now, Tue 2:00", anchor="middle")
    picture.line((day(2), 122), (day(2), 132), (day(4) - 10, 132), (day(4) - 10, 122))
    picture.text(day(3) - 5, 152, "ahead: 2", anchor="middle")
    picture.text(day(4) + 10, 130, "created when its turn comes", style="faint")
    return picture
