from tidelock.kube.correlation import Correlator


def test_a_repetition_is_refused_for_five_minutes() -> None:
    correlator = Correlator()

    assert correlator.admits("pod", "no room", 0.0)
    assert not correlator.admits("pod", "no room", 299.0)
    assert correlator.admits("pod", "no room", 300.0)


def test_other_contents_and_other_subjects_are_admitted() -> None:
    correlator = Correlator()

    assert correlator.admits("pod", "no room", 0.0)
    assert correlator.admits("pod", "no node", 0.0)
    assert correlator.admits("other", "no room", 0.0)


def test_a_subject_has_a_burst_of_events_and_then_a_slow_rate() -> None:
    correlator = Correlator(burst=25, refill_seconds=300.0)

    admitted = [correlator.admits("pod", number, 0.0) for number in range(30)]
    assert admitted == [True] * 25 + [False] * 5
    assert correlator.admits("other", "x", 0.0)
    assert not correlator.admits("pod", "later", 299.0)
    assert correlator.admits("pod", "later", 300.0)
    assert not correlator.admits("pod", "even later", 301.0)


def test_the_bucket_never_holds_more_than_a_burst() -> None:
    correlator = Correlator(burst=2, refill_seconds=1.0, repeat_seconds=0.0)

    assert correlator.admits("pod", "first", 0.0)
    assert [correlator.admits("pod", "again", 1000.0) for _ in range(3)] == [True, True, False]


def test_the_least_recently_used_subject_is_forgotten() -> None:
    correlator = Correlator(subjects=2)
    for subject in ("a", "b", "a", "c"):
        correlator.admits(subject, "x", 0.0)

    assert not correlator.admits("a", "x", 1.0)
    assert not correlator.admits("c", "x", 1.0)
    assert correlator.admits("b", "x", 1.0)
