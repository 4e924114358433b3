"""Power failures, torn writes, flipped bits, full and failing disks: the log keeps its word."""

import random
import subprocess
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import apsw
import pytest
from service.damage import (
    cut,
    flip,
    flip_served,
    frozen_log,
    replayed,
    same_or_detected,
    served_folder,
)
from service.histories import Ledger, check, live
from service.lossy_vfs import Disk, Survival, Write, head_on, mounted, restore

from olrank.errors import LogDamagedError, LogError, LogUnavailableError
from olrank.service import crashpoints, sqlite_checkpoint, sqlite_open
from olrank.service.log import RankingEntry
from olrank.service.sqlite import SqliteLog


@pytest.fixture
def disk() -> Disk:
    return Disk()


@pytest.fixture
def log(disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SqliteLog]:
    monkeypatch.setattr(sqlite_checkpoint, "_WAL_PAGES", 60)  # so that it moves now and then
    monkeypatch.setattr(sqlite_checkpoint, "_RETRY_S", 0.0)
    with mounted(disk) as vfs:
        opened = SqliteLog(tmp_path / "live", vfs=vfs, head_file=head_on(disk))
        yield opened
        opened.close()


def survivals(seed: int) -> dict[str, Survival]:
    """Of the unsynced writes of each file: none, all, the first half, and some in any order."""
    draw = random.Random(seed)

    def some(writes: Sequence[Write]) -> list[Write]:
        return draw.sample(list(writes), draw.randint(0, len(writes)))

    return {
        "none": lambda writes: (),
        "all": lambda writes: writes,
        "half": lambda writes: writes[: len(writes) // 2],
        **{f"some ({number})": some for number in range(3)},
    }


def power_failures(
    log: SqliteLog, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> tuple[list[tuple[str, dict[str, bytes], Ledger]], set[str]]:
    """Live through a history; the disks that a power failure at any point leaves, and the points.

    A point that leaves the disk and the acknowledgements as they were is not listed again.
    """
    ledger = Ledger()
    failures: list[tuple[str, dict[str, bytes], Ledger]] = []
    seen: set[int] = set()
    reached: set[str] = set()
    one_at_a_time = threading.RLock()

    def fail(where: str) -> None:
        with one_at_a_time:
            reached.add(where)
            for name, survives in survivals(len(failures)).items():
                known = ledger.copy()  # before the image: what is known by then must be in it
                image = disk.image(survives)
                key = hash((frozenset(image.items()), frozenset(known.facts)))
                if key not in seen:
                    seen.add(key)
                    failures.append((f"{where}, {name} survives", image, known))

    monkeypatch.setattr(crashpoints, "reach", fail)
    disk.before_sync = lambda name: fail(f"before the sync of {name}")
    live(log, ledger, n_rankings=10)
    while log._writer.ask(lambda tx: tx.shrink).result():
        pass  # until no checkpoint stands in the way of emptying the write-ahead log
    disk.before_sync = lambda name: None
    monkeypatch.undo()
    return failures, reached


def test_a_power_failure_at_any_point_loses_nothing_that_was_acknowledged(
    log: SqliteLog, disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures, reached = power_failures(log, disk, monkeypatch)
    opening = {"store.head_made", "store.made"}  # before there is anything to lose
    points = {one for one in crashpoints.POINTS if one.startswith("store.")}
    assert points - opening <= reached
    assert len(failures) > 100
    for number, (where, image, ledger) in enumerate(failures):
        try:
            check(restore(image, tmp_path / str(number)), ledger)
        except (AssertionError, LogError) as reason:
            pytest.fail(f"{where}: {reason}")


def test_without_its_sync_the_same_power_failures_lose_what_was_acknowledged(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mutant that the test above must kill."""
    monkeypatch.setattr(sqlite_open, "_SYNCHRONOUS", "OFF")
    lost = 0
    with mounted(disk) as vfs:
        log = SqliteLog(tmp_path / "live", vfs=vfs, head_file=head_on(disk))
        failures, _ = power_failures(log, disk, monkeypatch)
        log.close()
    for number, (_, image, ledger) in enumerate(failures):
        try:
            check(restore(image, tmp_path / str(number)), ledger)
        except (AssertionError, LogDamagedError):
            lost += 1
    assert lost > 10


def test_the_head_file_tells_a_lost_end_that_sqlite_takes_for_a_shorter_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, records = frozen_log(tmp_path)
    wal = folder / "log.db-wal"
    raw = bytearray(wal.read_bytes())
    raw[len(raw) - 2000] ^= 1  # in the last frame: SQLite drops its whole transaction in silence
    wal.write_bytes(raw)
    with pytest.raises(LogDamagedError, match="acknowledged frames"):
        SqliteLog(folder)
    wal.write_bytes(raw)
    monkeypatch.setattr(sqlite_open, "check_mark", lambda db, path, mark: None)
    with pytest.raises(LogDamagedError, match=f"up to {records[-1].position} were acknowledged"):
        SqliteLog(folder)


def test_old_pages_that_hide_new_ones_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All is in the database already, but a damaged write-ahead log covers some of it."""
    monkeypatch.setattr(sqlite_checkpoint, "_WAL_PAGES", 10**6)
    log = SqliteLog(tmp_path / "live")
    live(log, Ledger(), compacting=False)
    beside = apsw.Connection(str(tmp_path / "live" / "log.db"))
    beside.execute("SELECT count(*) FROM records").fetchall()
    n_frames, n_moved = beside.wal_checkpoint()
    assert n_frames == n_moved > 50
    beside.close()
    for frame in range(0, n_frames, 7):
        folder = tmp_path / str(frame)
        folder.mkdir()
        for name in ("log.db", "log.db-wal", "head"):
            raw = bytearray((tmp_path / "live" / name).read_bytes())
            if name == "log.db-wal":
                raw[32 + frame * (24 + 4096) + 1000] ^= 1
            (folder / name).write_bytes(raw)
        with pytest.raises(LogDamagedError, match=f"of {n_frames} acknowledged frames"):
            SqliteLog(folder)
    log.close()


def test_a_damaged_header_of_the_write_ahead_log_is_found(tmp_path: Path) -> None:
    folder, _ = frozen_log(tmp_path)
    wal = folder / "log.db-wal"
    whole = wal.read_bytes()
    for at in range(32):
        wal.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
        with pytest.raises(LogDamagedError, match="header is damaged"):
            SqliteLog(folder)


def test_an_unsynced_end_cut_anywhere_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    """The short form: near every write's edges, and at every 997th byte between."""
    n_bytes = cut(tmp_path, stride=997)
    assert n_bytes > 10_000


def test_a_flipped_bit_is_found_or_changes_nothing(tmp_path: Path) -> None:
    """The short form: 150 flips over all files."""
    folder, records = frozen_log(tmp_path)
    draw = random.Random(0)
    outcomes = [
        same_or_detected(flip(folder, tmp_path / "flipped", draw), records) for _ in range(150)
    ]
    assert set(outcomes) <= {"same", "detected"}
    assert outcomes.count("detected") > 30


def test_a_bit_flipped_in_log_or_snapshot_is_found_or_replays_to_the_same_model(
    tmp_path: Path,
) -> None:
    """The short form: 60 flips in the folder of a real service that was killed."""
    folder, digests = served_folder(tmp_path)
    draw = random.Random(0)
    outcomes = []
    for _ in range(60):
        flipped, where = flip_served(folder, tmp_path / "flipped", draw)
        outcomes.append((where, replayed(flipped, digests)))
    assert {outcome for _, outcome in outcomes} == {"same", "detected"}
    assert outcomes.count(("snapshot", "detected")) > 5


@pytest.mark.parametrize("error", [apsw.FullError, apsw.IOError])
@pytest.mark.parametrize("stage", ["write", "sync"])
def test_a_failing_disk_never_leads_to_an_acknowledgement_that_is_not_true(
    stage: str, error: type[apsw.Error], tmp_path: Path
) -> None:
    """The n-th write or sync fails, and all after it, for many n."""
    n_refused = 0
    for after in range(0, 60, 4):
        folder, ledger, disk = tmp_path / str(after), Ledger(), Disk()
        count = iter(range(10**9))

        def fail(
            name: str, count: Iterator[int] = count, after: int = after, disk: Disk = disk
        ) -> None:
            if next(count) >= after:
                raise error(f"injected into {name}") if name != "head" else OSError(28, "injected")

        with mounted(disk) as vfs:
            log = SqliteLog(folder, vfs=vfs, head_file=head_on(disk))
            setattr(disk, f"before_{stage}", fail)
            try:
                live(log, ledger)
            except LogUnavailableError:
                n_refused += 1
            setattr(disk, f"before_{stage}", lambda name: None)
            log.close()
        check(folder, ledger)
    assert n_refused > 5


def test_after_a_full_disk_the_log_goes_on_when_there_is_space_again(
    log: SqliteLog, disk: Disk
) -> None:
    log.create_ranker("before", {}).result()

    def full(name: str) -> None:
        raise apsw.FullError("injected")

    disk.before_write = full
    with pytest.raises(LogUnavailableError, match="disk is full"):
        log.create_ranker("during", {}).result()
    assert log.broken is None
    disk.before_write = lambda name: None
    log.create_ranker("after", {}).result()
    assert [row.name for row in log.rankers()] == ["after", "before"]
    assert log.verify() == log.head()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of 2 MB."""
    place = tmp_path / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(place)]
    try:
        done = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        done = False
    if not done:
        pytest.skip("needs the right to mount a small file system")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_file_system_that_is_really_full_is_refused_and_forgiven(small_disk: Path) -> None:
    filler = small_disk / "filler"
    filler.write_bytes(bytes(600_000))
    log = SqliteLog(small_disk / "log")
    birth = log.create_ranker("shop", {}).result().record.position
    kept = []

    def fill() -> None:
        for number in range(len(kept), 1000):
            entry = RankingEntry("shop", birth, str(number), "d", ["a"], {"filling": "x" * 20_000})
            log.append_ranking(entry).result()
            kept.append(str(number))

    with pytest.raises(LogUnavailableError, match="disk is full"):
        fill()
    n_before = len(kept)
    filler.unlink()
    with pytest.raises(LogUnavailableError, match="disk is full"):
        fill()
    assert len(kept) > n_before
    assert [one for one in kept if log.ranking("shop", one) is None] == []
    log.close()


def test_after_a_failed_sync_nothing_more_is_acknowledged_until_a_fresh_start(
    log: SqliteLog, disk: Disk, tmp_path: Path
) -> None:
    log.create_ranker("before", {}).result()

    def fail(name: str) -> None:
        raise apsw.IOError("injected")

    disk.before_sync = fail
    with pytest.raises(LogUnavailableError, match="injected"):
        log.create_ranker("during", {}).result()
    disk.before_sync = lambda name: None
    with pytest.raises(LogUnavailableError, match="until the service starts again"):
        log.create_ranker("after", {}).result()
    assert log.broken is not None
    assert [row.name for row in log.rankers()] == ["before"]
    log.close()
    with mounted(disk, "again") as vfs:
        again = SqliteLog(tmp_path / "live", vfs=vfs, head_file=head_on(disk))
        again.create_ranker("after", {}).result()
        assert {"before", "after"} <= {row.name for row in again.rankers()}
        again.close()


def test_a_checkpoint_that_fails_in_an_unheard_of_way_leaves_nobody_waiting(
    log: SqliteLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(**_: bool) -> bool:
        raise RuntimeError("unheard of")

    monkeypatch.setattr(log._writer._checkpointer, "step", fail)
    assert log.create_ranker("shop", {}).result(10).outcome == "stored"
    with pytest.raises(LogUnavailableError, match="unheard of"):
        log.create_ranker("news", {}).result(10)


def test_requests_that_come_together_share_one_sync(log: SqliteLog, disk: Disk) -> None:
    gate = threading.Event()
    held = log._writer.ask(lambda tx: gate.wait())
    futures = [log.create_ranker(str(number), {}) for number in range(50)]
    before = dict(disk.n_syncs)
    gate.set()
    held.result()
    assert [one.result().outcome for one in futures] == ["stored"] * 50
    assert disk.n_syncs["log.db-wal"] - before["log.db-wal"] == 1
    assert disk.n_syncs["head"] - before["head"] == 1
