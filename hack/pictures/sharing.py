"""Pictures of reservations beside others: races, moves, groups, quotas, devices, the queue, quotes, use."""

from pictures.canvas import Canvas, Kind, Segment

_NODE = 63  # pixels for a core of a small node


def race() -> Canvas:
    """Draw two managers that race for the last capacity of a node, without and with reservations."""
    picture = Canvas(
        760, 330, "Two managers race for the last capacity of a node, without and with reservations"
    )
    picture.line((380, 20), (380, 310), style="dashes")
    halves = (
        (0, "Both look, both send", ("2 cpu free", "pod a: 2 cpu"), ("2 cpu free", "pod b: 2 cpu")),
        (380, "Both reserve, one sends", ("Reservation", "a: 2 cpu"), ("Reservation", "b: 2 cpu")),
    )
    for x, title, first, second in halves:
        picture.text(x + 190, 30, title, anchor="middle", size=16, style="bold")
        picture.box((x + 30, 48, 120, 40), Kind.PART, "manager A")
        picture.box((x + 230, 48, 120, 40), Kind.PART, "manager B")
        picture.line((x + 90, 88), (x + 140, 172), style="arrow")
        picture.line((x + 290, 88), (x + 240, 172), style="arrow")
        for number in range(2):
            picture.text(x + 100, 122 + 18 * number, first[number], anchor="end")
            picture.text(x + 282, 122 + 18 * number, second[number])
        picture.box((x + 70, 176, 120, 40), Kind.POD, "taken: 2 cpu")
    picture.box((190, 176, 120, 40), Kind.POD, "pod a")
    picture.box((30, 238, 320, 36), Kind.REFUSED, "pod b: Pending, in the wrong cluster")
    picture.text(190, 302, "B notices after it has sent the pod.", anchor="middle")
    picture.box((570, 176, 120, 40), Kind.RESERVED, "reserved for a")
    picture.box((400, 238, 160, 36), Kind.RESERVED, "A: Active=True")
    picture.box((580, 238, 160, 36), Kind.PREPARED, "B: needs 2, 0 free")
    picture.text(570, 302, "A sends its pod. B asks the next cluster.", anchor="middle")
    return picture


def moves() -> Canvas:
    """Draw two nodes before and after one pod is moved."""
    picture = Canvas(760, 246, "Moves: one pod goes to another node, and the waiting reservation fits")
    pod, core = Kind.POD, 58
    picture.text(216, 26, "free, but on two nodes", anchor="middle", style="bold")
    picture.text(600, 26, "after the approved move", anchor="middle", style="bold")
    two = (Segment(1, pod, "web"), Segment(1, pod, "web"))
    picture.bar((100, 44), core, (*two, Segment(2, Kind.FREE, "2 free")), "worker-1")
    picture.bar((100, 98), core, (*two, Segment(2, Kind.FREE, "2 free")), "worker-2")
    picture.box((100, 160, 3 * core, 34), Kind.PREPARED, "large-0 waits for 3")
    picture.text(290, 182, "fits on neither")
    picture.line((350, 88), (480, 88), style="arrow")
    picture.text(415, 76, "move one web", anchor="middle")
    picture.bar((490, 44), core, (Segment(1, pod, "web"), Segment(3, Kind.RESERVED, "large-0: Active")))
    picture.bar((490, 98), core, (*two, Segment(1, pod, "web"), Segment(1, Kind.FREE, "free")))
    picture.text(
        20, 228, "The plan names each pod. Nothing moves before its token is approved.", style="faint"
    )
    return picture


def groups() -> Canvas:
    """Draw a group of five members that does not fit, and one that does."""
    picture = Canvas(760, 236, "Groups: all members get capacity in one step, or none holds any")
    free, worker = Segment(4, Kind.FREE, "4 free"), Segment(2, Kind.RESERVED, "worker")
    picture.text(226, 26, "four of five would fit", anchor="middle", style="bold")
    picture.text(606, 26, "all five fit", anchor="middle", style="bold")
    busy = Segment(4, Kind.POD, "other pods")
    for number, segment in enumerate((free, free, busy), start=1):
        picture.bar((100, 44 * number), _NODE, (segment,), f"worker-{number}")
    driver = (Segment(1, Kind.RESERVED, "driver"), worker, Segment(1, Kind.FREE))
    for number, segments in enumerate((driver, (worker, worker), (worker, Segment(2, Kind.FREE))), start=1):
        picture.bar((480, 44 * number), _NODE, segments)
    picture.text(226, 194, "none holds anything, so others may use it", anchor="middle")
    picture.text(606, 194, "all become Active together", anchor="middle")
    picture.text(20, 224, "The group train: a driver of 1 core, and four workers of 2 cores.", style="faint")
    return picture


def quotas() -> Canvas:
    """Draw the use of a namespace's quota, and a request beyond it."""
    picture = Canvas(760, 186, "A quota: a request beyond the limit of its namespace waits")
    core, start = 12, 110
    picture.text(20, 64, "shop, cpu")
    picture.box((start, 40, 38 * core, 40), Kind.RESERVED, "held by all reservations: 38")
    picture.box((start + 38 * core, 40, 4 * core, 40), Kind.REFUSED)
    limit = start + 40 * core
    picture.line((limit, 26), (limit, 100))
    picture.text(limit, 20, "hard: 40", anchor="middle")
    picture.text(limit + 32, 64, "4 more: waits")
    picture.text(20, 124, "wares, cpu")
    picture.box((start, 104, 8 * core, 34), Kind.RESERVED, "8 held")
    picture.text(start + 8 * core + 12, 126, "has no quota: no limit, no priority above 0, no preemption")
    picture.text(
        20,
        170,
        "Even if the cluster has capacity, the request waits. It is tried again when quota comes free.",
        size=12,
        style="faint",
    )
    return picture


def devices() -> Canvas:
    """Draw the devices of a node while one is reserved, and when its owner has come."""
    picture = Canvas(760, 176, "Devices: the owner's claim gets exactly the device that is reserved for it")
    other = Segment(2, Kind.POD, "gpu-1: claim of web-0")
    rows = (
        ("before", (Segment(2, Kind.RESERVED, "gpu-0: for train-0"), other)),
        ("train-0 comes", (Segment(2, Kind.POD, "gpu-0: claim of train-0"), other)),
    )
    for number, (name, segments) in enumerate(rows):
        picture.bar((140, 24 + number * 62), 95, segments, name)
    picture.line((235, 60), (235, 84), style="arrow")
    picture.box((552, 24, 186, 34), Kind.REFUSED, "web-1: no device left")
    picture.box((552, 86, 186, 34), Kind.REFUSED, "web-1: no device left")
    picture.text(
        20, 156, "The reservation holds cpu and the device of one node, in one decision.", style="faint"
    )
    return picture


def queue() -> Canvas:
    """Draw the reservation queue, with an earmark for its first reservation."""
    picture = Canvas(
        760, 262, "The queue: what comes free goes to the first that fits, and an earmark keeps one node"
    )
    picture.text(20, 28, "the reservation queue", style="bold")
    rows = (("1/3", "web-1", "8 cores", Kind.PREPARED), ("2/3", "job-1", "4 cores", Kind.PREPARED))
    for number, (place, name, size, kind) in enumerate((*rows, ("3/3", "job-2", "2 cores", Kind.PREPARED))):
        picture.text(20, 66 + 48 * number, place)
        picture.box((60, 44 + 48 * number, 150, 36), kind, f"{name}: {size}")
    picture.text(470, 28, "nodes of 8 cores", style="bold")
    core = 42
    picture.bar((410, 44), core, (Segment(6, Kind.POD, "pods"), Segment(2, Kind.FREE, "2 free")), "worker-1")
    earmarked = (Segment(5, Kind.POD, "pods that end"), Segment(3, Kind.REFUSED, "kept for web-1"))
    picture.bar((410, 108), core, earmarked, "worker-2")
    picture.line((210, 62), (250, 62), (250, 125), (330, 125), style="arrow")
    picture.line((210, 158), (285, 158), (285, 61), (330, 61), style="arrow")
    picture.text(218, 180, "fits now: starts first", size=12, style="faint")
    picture.text(410, 166, "earmark: kept until web-1 fits", size=12, style="faint")
    picture.text(
        20, 226, "A reservation that does not fit blocks none behind it. After a minute, the first one"
    )
    picture.text(20, 246, "gets an earmark: what comes free on that node is kept for it.")
    return picture


def quotes() -> Canvas:
    """Draw a manager that asks three clusters, and reserves in one."""
    picture = Canvas(760, 238, "Quotes: a manager asks all clusters, and reserves in one")
    picture.box((20, 84, 110, 50), Kind.PART, "manager")
    answers = (
        (Kind.RESERVED, "east", "Feasible: worker-3, count 4"),
        (Kind.PREPARED, "west", "not yet: fits in 12 minutes"),
        (Kind.REFUSED, "north", "no: 2 of 3 nodes lack cpu"),
    )
    for number, (kind, cluster, answer) in enumerate(answers):
        y = 24 + 64 * number
        picture.box((220, y, 100, 44), Kind.PART, cluster)
        picture.line((130, 109), (218, y + 22), style="arrow")
        picture.line((320, y + 22), (360, y + 22), style="arrow")
        picture.box((362, y, 250, 44), kind, answer)
    picture.line((612, 46), (650, 46), style="arrow")
    picture.box((652, 24, 96, 44), Kind.RESERVED, "reserve")
    picture.text(
        20,
        226,
        "A quote holds nothing: until the reservation is Active, another client may be first.",
        style="faint",
    )
    return picture


def water_levels() -> Canvas:
    """Draw the way of a measurement from its source to a decision."""
    picture = Canvas(
        760, 196, "Water levels: measured use goes to annotations, and from there into decisions"
    )
    steps = (
        (20, "Prometheus or\nmetrics-server", Kind.PART),
        (206, "WaterLevel\n15 min, 1 h, 1 d", Kind.PREPARED),
        (392, "annotations of\nnodes, workloads", Kind.PART),
        (578, "score of each node\nfor a new pod", Kind.RESERVED),
    )
    for x, text, kind in steps:
        picture.box((x, 30, 150, 56), kind, text)
    for x in (170, 356, 542):
        picture.line((x, 58), (x + 34, 58), style="arrow")
    for x, text in ((188, "read"), (374, "write"), (560, "use")):
        picture.text(x, 48, text, anchor="middle", size=11, style="faint")
    core = 40
    for y, name, used, level in ((104, "worker-1", 6.0, 2.0), (148, "worker-2", 3.0, 6.4)):
        picture.bar((110, y), core, (Segment(used, Kind.POD, "requests"), Segment(8 - used, Kind.FREE)), name)
        picture.line((110 + level * core, y - 4), (110 + level * core, y + 38))
        picture.text(450, y + 22, f"measured: {level / 8:.0%}")
    picture.text(570, 126, "goes here", style="bold")
    return picture
