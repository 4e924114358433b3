"""What every store must do; a second store joins by one line in `log`."""

import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing import Pipe
from pathlib import Path

import numpy as np
import pytest

from olrank.errors import (
    LogDamagedError,
    LogRefusedError,
    LogUnavailableError,
    StaleEpochError,
    UnknownRankerError,
)
from olrank.service.log import (
    CloseEntry,
    Event,
    Kind,
    Log,
    Outcome,
    RankingEntry,
    Status,
    clicks_of,
)
from olrank.service.remote import connect, serve
from olrank.service.sqlite import SqliteLog, SqliteReader

NEVER_MS = 10**15


@dataclass
class Clock:
    now_ms: int = 1_000_000

    def __call__(self) -> int:
        return self.now_ms


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["sqlite", "remote"])
def log(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Iterator[Log]:
    whole = SqliteLog(tmp_path, clock_ms=clock)
    if request.param == "sqlite":
        yield whole
    else:
        here, there = Pipe()
        thread = threading.Thread(target=serve, args=(whole, here))
        thread.start()
        remote = connect(there, SqliteReader(tmp_path))
        yield remote
        remote.close()
        thread.join()
        here.close()
    whole.close()


def born(log: Log, name: str = "shop") -> int:
    return log.create_ranker(name, {"n_features": 2}).result().record.position


def show(log: Log, birth: int, ranking_id: str, name: str = "shop") -> None:
    entry = RankingEntry(name, birth, ranking_id, f"request {ranking_id}", ["a", "b", "c"])
    assert log.append_ranking(entry).result().outcome == Outcome.STORED


def tell(log: Log, *events: Event, name: str = "shop") -> list[Status]:
    return log.append_feedback(name, events).result()


def close(log: Log, epoch: int, *ranking_ids: str, name: str = "shop") -> None:
    log.append_batch(epoch, name, [CloseEntry(one, "client") for one in ranking_ids]).result()


def test_positions_count_from_one_and_times_never_go_back(log: Log, clock: Clock) -> None:
    birth = born(log)
    for number, shift_ms in enumerate([5, -100, 30]):
        clock.now_ms += shift_ms
        show(log, birth, str(number))
    records = log.read(0)
    assert [one.position for one in records] == [1, 2, 3, 4]
    start = 1_000_000
    assert [one.at_ms for one in records] == [start, start + 5, start + 5, start + 5]
    assert log.head().position == 4
    assert log.head().chain == records[-1].chain
    assert log.verify() == log.head()


def test_what_was_appended_is_read_back_to_the_bit(log: Log) -> None:
    birth = born(log)
    rows = np.array([[0.1, np.nan], [-0.0, np.inf]], np.float32)
    flags = np.array(True)
    header = {"answer": {"items": ["ä", "\x00"], "score": 0.1}}
    entry = RankingEntry("shop", birth, "ü/1", "d", ["a"], header, {"rows": rows, "flag": flags})
    log.append_ranking(entry).result()
    stored = log.ranking("shop", "ü/1")
    assert stored is not None
    assert stored.record.header["answer"] == header["answer"]
    assert stored.record.arrays["rows"].tobytes() == rows.tobytes()
    assert stored.record.arrays["rows"].shape == (2, 2)
    assert stored.record.arrays["flag"].shape == ()
    assert stored.record.arrays["flag"].dtype == bool


def test_the_same_ranking_id_gets_the_stored_answer_and_another_request_conflicts(log: Log) -> None:
    birth = born(log)
    first = RankingEntry("shop", birth, "r", "same request", ["a"], {"answer": "first draw"})
    again = RankingEntry("shop", birth, "r", "same request", ["b"], {"answer": "second draw"})
    other = RankingEntry("shop", birth, "r", "other request", ["c"], {"answer": "third draw"})
    outcomes = [log.append_ranking(one).result() for one in (first, again, other)]
    assert [one.outcome for one in outcomes] == ["stored", "existing", "conflict"]
    assert [one.record.header["answer"] for one in outcomes] == ["first draw"] * 3
    assert log.head().position == 2


def test_a_ranker_is_created_once_and_its_configuration_cannot_change(log: Log) -> None:
    made = [log.create_ranker("shop", {"k": k}).result() for k in (3, 3, 4)]
    assert [one.outcome for one in made] == ["stored", "existing", "conflict"]
    assert [row.config for row in log.rankers()] == [{"k": 3}]
    with pytest.raises(LogRefusedError, match="not empty"):
        log.create_ranker("", {}).result()


def test_a_new_ranker_of_an_old_name_knows_nothing_of_the_old_one(log: Log) -> None:
    old = born(log)
    show(log, old, "r")
    assert tell(log, Event("r", [("a", 1.0)], event_id="e")) == ["accepted"]
    log.delete_ranker("shop").result()
    assert log.rankers() == []
    assert log.ranking("shop", "r") is None
    with pytest.raises(UnknownRankerError):
        tell(log, Event("r"))
    new = born(log)
    assert new > old
    assert tell(log, Event("r", [("a", 1.0)], event_id="e")) == ["unknown_ranking"]
    with pytest.raises(UnknownRankerError, match="deleted while"):
        log.append_ranking(RankingEntry("shop", old, "late draw", "d", ["a"])).result()
    show(log, new, "r")
    assert tell(log, Event("r", [("a", 1.0)], event_id="e")) == ["accepted"]


@pytest.mark.parametrize("call", ["delete", "switch", "feedback", "batch", "snapshot", "promote"])
def test_nothing_can_be_written_for_a_ranker_that_does_not_exist(log: Log, call: str) -> None:
    epoch = log.claim().result()
    calls: dict[str, Callable[[], object]] = {
        "delete": lambda: log.delete_ranker("shop").result(),
        "switch": lambda: log.switch("shop", {"learn": False}).result(),
        "feedback": lambda: log.append_feedback("shop", []).result(),
        "batch": lambda: log.append_batch(epoch, "shop", [CloseEntry("r", "client")]).result(),
        "snapshot": lambda: log.append_snapshot(epoch, "shop", "s", 0).result(),
        "promote": lambda: log.promote("shop", "s").result(),
    }
    with pytest.raises(UnknownRankerError):
        calls[call]()
    assert log.head().position == 1


def test_each_status_is_given_for_its_reason(log: Log) -> None:
    birth = born(log)
    show(log, birth, "r")
    first = Event("r", [("a", 1.0), ("b", 2.0)], event_id="e1")
    assert tell(log, first) == ["accepted"]
    assert tell(log, Event("r", [("b", 2.0), ("a", 1.0)], event_id="e1")) == ["duplicate"]
    assert tell(log, Event("r", [("a", 1.5)], event_id="e1")) == ["conflict"]
    assert tell(log, Event("r", [("a", 1.0)], shown_upto=2, event_id="e2")) == ["accepted"]
    assert tell(log, Event("never served", [("a", 1.0)])) == ["unknown_ranking"]
    assert tell(log, Event("r", [("not shown", 1.0)])) == ["unknown_item"]
    wrong = [-1.0, float("nan"), float("inf")]
    assert tell(log, *(Event("r", [("a", one)]) for one in wrong)) == ["rejected"] * 3
    assert tell(log, Event("r", shown_upto=4), Event("r", shown_upto=-1)) == ["rejected"] * 2
    assert tell(log, Event("r", shown_upto=3), Event("r", shown_upto=0)) == ["accepted"] * 2
    log.switch("shop", {"learn": False}).result()
    assert tell(log, Event("r", [("c", 1.0)], event_id="e3")) == ["paused"]
    log.switch("shop", {"learn": True}).result()
    assert tell(log, Event("r", [("c", 1.0)], event_id="e3")) == ["duplicate"]
    close(log, log.claim().result(), "r")
    assert tell(log, Event("r", [("a", 1.0)], event_id="e4")) == ["late"]
    assert tell(log, first) == ["duplicate"]
    stored = log.ranking("shop", "r")
    assert stored is not None
    assert stored.close is not None
    assert [one.header["status"] for one in stored.events] == ["accepted"] * 4 + ["paused"]
    assert clicks_of(stored.events, ["a", "b", "c"]).tolist() == [1.0, 2.0, 0.0]


def test_an_event_without_an_id_is_known_by_its_body(log: Log) -> None:
    birth = born(log)
    show(log, birth, "r")
    show(log, birth, "s")
    click = Event("r", [("a", 1.0)])
    assert tell(log, click, click) == ["accepted", "duplicate"]
    assert tell(log, Event("s", [("a", 1.0)]), Event("r", [("a", 2.0)])) == ["accepted"] * 2
    mimic = Event("r", [("b", 1.0)], event_id=click.identity)
    assert tell(log, mimic) == ["accepted"], "a client's id never meets a derived one"


def test_only_accepted_and_paused_events_become_records(log: Log) -> None:
    birth = born(log)
    show(log, birth, "r")
    before = log.head().position
    event = Event("r", [("a", 1.0)], event_id="e")
    tell(log, event, event, Event("x"), Event("r", [("z", 1.0)]), Event("r", shown_upto=9))
    kinds = [(one.kind, one.header["event_id"]) for one in log.read(before)]
    assert kinds == [(Kind.FEEDBACK, "client:e")]


def test_a_batch_is_written_whole_or_not_at_all(log: Log) -> None:
    birth = born(log)
    for one in "rst":
        show(log, birth, one)
    epoch = log.claim().result()
    close(log, epoch, "r")
    before = log.head()
    for wrong in (["s", "never served"], ["s", "r"], ["s", "s"], []):
        with pytest.raises(LogRefusedError):
            close(log, epoch, *wrong)
    assert log.head() == before
    closes = [CloseEntry("s", "window", {"extra": 1}), CloseEntry("t", "unshown")]
    learned = log.append_batch(epoch, "shop", closes, {"note": "x"}).result()
    first = before.position + 1
    assert (learned.first, learned.last, learned.position) == (first, first + 1, first + 2)
    assert learned.version == 2
    s, t, batch = log.read(before.position)
    assert (s.header["ranking_id"], s.header["reason"], s.header["extra"]) == ("s", "window", 1)
    assert t.header["ranking"] == 4
    assert batch.header == {"note": "x", "version": 2, "first": first, "last": first + 1}
    assert [row.version for row in log.rankers()] == [2]


def test_a_close_record_leads_to_all_events_accepted_before_it(log: Log) -> None:
    birth = born(log)
    show(log, birth, "r")
    tell(log, Event("r", [("a", 1.0)], event_id="1"), Event("r", [("b", 2.0)], event_id="2"))
    show(log, birth, "other")
    tell(log, Event("other", [("c", 1.0)]), Event("r", [("a", 3.0)], event_id="3", close=True))
    epoch = log.claim().result()
    close(log, epoch, "r")
    record = next(one for one in log.read(0) if one.kind == Kind.CLOSE)
    stored = log.closed(record)
    assert [one.header["event_id"] for one in stored.events] == ["client:1", "client:2", "client:3"]
    assert clicks_of(stored.events, stored.record.header["shown"]).tolist() == [3.0, 2.0, 0.0]
    assert stored == log.ranking("shop", "r")
    log.append_snapshot(epoch, "shop", "s", log.head().position).result()
    log.compact({"shop": record.position}, NEVER_MS).result()
    with pytest.raises(LogDamagedError, match="missing"):
        log.closed(record)


def test_an_older_learner_can_write_no_more(log: Log) -> None:
    birth = born(log)
    show(log, birth, "r")
    old = log.claim().result()
    new = log.claim().result()
    assert new > old
    with pytest.raises(StaleEpochError):
        close(log, old, "r")
    with pytest.raises(StaleEpochError):
        log.append_snapshot(old, "shop", "s", 1).result()
    with pytest.raises(StaleEpochError):
        close(log, new + 1, "r")
    close(log, new, "r")


def test_impressions_fall_due_by_request_by_window_and_by_limit(log: Log, clock: Clock) -> None:
    birth = born(log)
    start = clock.now_ms
    for name in ("asked", "heard", "silent"):
        show(log, birth, name)
    clock.now_ms = start + 100
    tell(log, Event("asked", close=True), Event("heard", [("a", 1.0)]))
    clock.now_ms = start + 150
    show(log, birth, "young")

    def due(now_ms: int, most: int = 10) -> list[str]:
        found = log.due("shop", now_ms, window_ms=50, limit_ms=1000, most=most)
        return [one.ranking_id for one in found]

    assert due(start + 149) == ["asked"]
    assert due(start + 150) == ["asked", "heard"]
    assert due(start + 999) == ["asked", "heard"]
    assert due(start + 1000) == ["asked", "heard", "silent"]
    assert due(start + 1150) == ["asked", "heard", "silent", "young"]
    assert len(due(start + 1150, most=2)) == 2
    silent = log.due("shop", start + 1000, 50, 1000, 10)[2]
    assert (silent.served_ms, silent.last_event_ms, silent.wants_close) == (start, None, False)
    close(log, log.claim().result(), "asked", "silent")
    assert [one.ranking_id for one in log.open_impressions("shop")] == ["heard", "young"]
    assert log.open_impressions("shop")[0].last_event_ms == start + 100
    assert due(start + 1150) == ["heard", "young"]
    assert log.due("nobody", 0, 0, 0, 1) == []


def test_a_reader_pages_through_the_log_and_may_ask_for_one_ranker(log: Log) -> None:
    births = {name: born(log, name) for name in ("shop", "news")}
    for number in range(6):
        name = "news" if number % 2 else "shop"
        show(log, births[name], str(number), name)
    seen, after = [], 0
    while page := log.read(after, limit=3):
        seen += [one.position for one in page]
        after = page[-1].position
    assert seen == list(range(1, 9))
    news = log.read(0, ranker="news")
    assert [one.position for one in news] == [2, 4, 6, 8]
    assert [one.position for one in log.read(4, 1, "news")] == [6]


def test_a_waiting_reader_wakes_up_when_a_record_comes(log: Log) -> None:
    assert not log.wait(0, timeout_s=0.02)
    with ThreadPoolExecutor() as pool:
        woken = pool.submit(log.wait, 0, 30.0)
        born(log)
        assert woken.result()
    assert log.wait(0, timeout_s=0.0)
    assert not log.wait(1, timeout_s=0.0)


def test_snapshots_are_kept_until_forgotten_and_only_kept_ones_are_promoted(log: Log) -> None:
    born(log)
    epoch = log.claim().result()
    log.append_snapshot(epoch, "shop", "one", 1, {"digest": "abc"}).result()
    log.append_import("shop", "brought").result()
    with pytest.raises(LogRefusedError, match="taken"):
        log.append_snapshot(epoch, "shop", "one", 1).result()
    with pytest.raises(LogRefusedError, match="log ends at"):
        log.append_snapshot(epoch, "shop", "ahead", 99).result()
    kept = log.snapshots("shop")
    assert [(one.snapshot_id, one.covers) for one in kept] == [("one", 1), ("brought", 0)]
    assert kept[0].record.header["digest"] == "abc"
    assert log.promote("shop", "brought", {"by": "x"}).result().header["by"] == "x"
    log.forget("shop", "one").result()
    assert [one.snapshot_id for one in log.snapshots("shop")] == ["brought"]
    for name in ("one", "nobody"):
        with pytest.raises(LogRefusedError, match="no such snapshot"):
            log.promote("shop", name).result()
        with pytest.raises(LogRefusedError, match="no such snapshot"):
            log.forget("shop", name).result()


def test_switches_are_kept_apart_and_unknown_ones_refused(log: Log) -> None:
    born(log)
    log.switch("shop", {"learn": False, "serve": False}).result()
    log.switch("shop", {"serve": True}).result()
    row = log.rankers()[0]
    assert (row.explore, row.learn, row.serve) == (True, False, True)
    with pytest.raises(LogRefusedError, match="fly"):
        log.switch("shop", {"fly": True}).result()


def test_compaction_drops_what_a_snapshot_covers_and_keeps_what_is_open(
    log: Log, clock: Clock
) -> None:
    birth = born(log)
    for name in ("old", "young", "open"):
        show(log, birth, name)
    tell(log, *(Event(name, [("a", 1.0)]) for name in ("old", "young", "open")))
    epoch = log.claim().result()
    close(log, epoch, "old")
    clock.now_ms += 1000
    between = clock.now_ms
    close(log, epoch, "young")
    show(log, birth, "uncovered")
    covers = log.head().position
    with pytest.raises(LogRefusedError, match="no kept snapshot covers"):
        log.compact({"shop": covers}, between).result()
    log.append_snapshot(epoch, "shop", "s", covers).result()
    close(log, epoch, "uncovered")
    # The ranking, its event, its close and its batch.
    assert log.compact({"shop": covers}, between).result() == 4
    assert log.compact({"shop": covers}, between).result() == 0
    assert log.ranking("shop", "old") is None
    assert tell(log, Event("old", [("a", 1.0)])) == ["unknown_ranking"]
    assert tell(log, Event("young", [("a", 1.0)])) == ["duplicate"]
    assert log.compact({"shop": covers}, NEVER_MS).result() == 4
    assert log.ranking("shop", "young") is None
    for name in ("open", "uncovered"):
        assert log.ranking("shop", name) is not None, name
    assert tell(log, Event("open", [("a", 1.0)])) == ["duplicate"]
    assert log.rankers()[0].compacted == covers
    assert log.rankers()[0].version == 3
    with pytest.raises(LogRefusedError, match="Take another snapshot first"):
        log.forget("shop", "s").result()
    positions = [one.position for one in log.read(0)]
    assert positions == sorted(set(positions))
    assert log.verify() == log.head()


def test_compaction_goes_on_in_pieces_until_nothing_is_left_to_drop(log: Log) -> None:
    birth = born(log)
    names = [str(number) for number in range(10)]
    for name in names:
        show(log, birth, name)
    epoch = log.claim().result()
    close(log, epoch, *names)
    covers = log.head().position
    log.append_snapshot(epoch, "shop", "s", covers).result()
    counts = []
    while count := log.compact({"shop": covers}, NEVER_MS, most=4).result():
        counts.append(count)
        log.verify()
    assert counts == [2 * 4, 2 * 4, 2 * 2]
    show(log, birth, "after")
    assert log.verify() == log.head()


def test_forgotten_snapshots_go_with_what_they_covered(log: Log) -> None:
    birth, epoch = born(log), log.claim().result()
    for name in ("one", "two", "three"):
        show(log, birth, name)
        close(log, epoch, name)
        log.append_snapshot(epoch, "shop", f"s-{name}", log.head().position).result()
    log.forget("shop", "s-one").result()
    show(log, birth, "four")
    close(log, epoch, "four")
    log.append_snapshot(epoch, "shop", "s-four", log.head().position).result()
    covers = log.snapshots("shop")[-1].covers
    # Four rankings with closes, three batches (the last one stays), a snapshot and its forget.
    assert log.compact({"shop": covers}, NEVER_MS).result() == 4 * 2 + 3 + 2
    kept = [one.snapshot_id for one in log.snapshots("shop")]
    assert kept == ["s-two", "s-three", "s-four"]
    assert log.verify() == log.head()


def test_a_chosen_ranking_is_erased_whatever_its_age_once_it_is_covered(log: Log) -> None:
    birth = born(log)
    for name in ("secret", "other"):
        show(log, birth, name)
    epoch = log.claim().result()
    with pytest.raises(LogRefusedError, match="cannot be erased"):
        log.compact({}, 0, {"shop": ["secret"]}).result()
    close(log, epoch, "secret", "other")
    covers = log.head().position
    with pytest.raises(LogRefusedError, match="cannot be erased"):
        log.compact({}, 0, {"shop": ["secret"]}).result()
    log.append_snapshot(epoch, "shop", "s", covers).result()
    assert log.compact({"shop": covers}, 0, {"shop": ["secret", "unheard of"]}).result() == 2
    assert log.ranking("shop", "secret") is None
    assert log.ranking("shop", "other") is not None
    assert log.verify() == log.head()


def test_everything_of_a_deleted_ranker_goes_and_nothing_of_the_others(log: Log) -> None:
    births = {name: born(log, name) for name in ("shop", "news")}
    for name, birth in births.items():
        show(log, birth, "r", name)
        tell(log, Event("r", [("a", 1.0)]), name=name)
    epoch = log.claim().result()
    log.append_snapshot(epoch, "shop", "s", log.head().position).result()
    close(log, epoch, "r")
    log.delete_ranker("shop").result()
    again = born(log)
    show(log, again, "new")
    news = [one.position for one in log.read(0, ranker="news")]
    # create, ranking, feedback, snapshot, close, batch, delete
    assert log.compact({}, NEVER_MS).result() == 7
    assert log.compact({}, NEVER_MS).result() == 0
    assert [one.position for one in log.read(0, ranker="news")] == news
    assert [one.kind for one in log.read(0, ranker="shop")] == [Kind.CREATE, Kind.RANKING]
    assert log.verify() == log.head()
    assert log.claim().result() == epoch + 1


def test_concurrent_writers_store_each_id_once_and_all_learn_the_truth(log: Log) -> None:
    birth = born(log)
    show(log, birth, "r")

    def work(worker: int) -> list[tuple[str, str]]:
        found = []
        for number in range(20):
            entry = RankingEntry("shop", birth, f"r{number}", "d", ["a"], {"by": worker})
            answer = log.append_ranking(entry).result()
            found.append((f"r{number}", str(answer.record.header["by"])))
            status = tell(log, Event("r", [("a", 1.0)], event_id=str(number)))[0]
            found.append((f"e{number}", status))
        return found

    with ThreadPoolExecutor(8) as pool:
        found = [one for ones in pool.map(work, range(8)) for one in ones]
    for number in range(20):
        assert len({value for name, value in found if name == f"r{number}"}) == 1
        statuses = sorted(value for name, value in found if name == f"e{number}")
        assert statuses == ["accepted"] + ["duplicate"] * 7
    assert log.head().position == 2 + 20 + 20
    assert log.verify() == log.head()


def test_a_reader_beside_the_writers_sees_every_record_once_and_in_order(log: Log) -> None:
    birth, n = born(log), 150

    def write(worker: int) -> None:
        for number in range(n):
            show(log, birth, f"{worker}-{number}")

    seen: list[int] = []
    with ThreadPoolExecutor(2) as pool:
        writers = [pool.submit(write, worker) for worker in range(2)]
        while len(seen) < 1 + 2 * n and log.wait(len(seen), timeout_s=30.0):
            seen += [one.position for one in log.read(len(seen), limit=7)]
        for one in writers:
            one.result()
    assert seen == list(range(1, 2 * n + 2))


def test_a_closed_log_acknowledges_nothing(log: Log) -> None:
    born(log)
    log.close()
    with pytest.raises(LogUnavailableError):
        log.create_ranker("other", {}).result()
    with pytest.raises(LogUnavailableError):
        log.read(0)


def test_a_long_random_history_agrees_with_a_simple_model(log: Log, clock: Clock) -> None:
    """Every status against sets and dicts; the sequence is fixed by its seed."""
    draw = random.Random(5)
    birth, epoch = born(log), log.claim().result()
    served: set[str] = set()
    closed: set[str] = set()
    bodies: dict[str, Event] = {}
    learn = True
    for _ in range(600):
        clock.now_ms += draw.randrange(3)
        name = str(draw.randrange(40))
        match draw.choices(["rank", "event", "close", "switch"], [3, 8, 1, 0.3])[0]:
            case "rank":
                entry = RankingEntry("shop", birth, name, "d", ["a", "b"])
                outcome = log.append_ranking(entry).result().outcome
                assert outcome == ("existing" if name in served else "stored")
                served.add(name)
            case "close" if name in served - closed:
                close(log, epoch, name)
                closed.add(name)
            case "switch":
                learn = draw.random() < 0.5
                log.switch("shop", {"learn": learn}).result()
            case "event":
                event_id = str(draw.randrange(200))
                event = Event(name, [(draw.choice("abz"), 1.0)], event_id=event_id)
                if event_id in bodies:
                    expected = "duplicate" if bodies[event_id] == event else "conflict"
                elif name not in served:
                    expected = "unknown_ranking"
                elif event.clicks[0][0] == "z":
                    expected = "unknown_item"
                elif name in closed:
                    expected = "late"
                else:
                    expected = "accepted" if learn else "paused"
                    bodies[event_id] = event
                assert tell(log, event) == [expected]
    assert {one.ranking_id for one in log.open_impressions("shop")} == served - closed
    events = [one for one in log.read(0, 10_000) if one.kind == Kind.FEEDBACK]
    assert {one.header["event_id"] for one in events} == {f"client:{one}" for one in bodies}
    assert len(events) == len(bodies)
    assert log.verify() == log.head()
