"""Damage to a log's files, in the short form for tests, and as a script in the long form.

PYTHONPATH=tests python tests/service/damage.py FOLDER [--flips 10000] [--report FILE]
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

from service import crashtest
from service.histories import Ledger, check, live
from service.lossy_vfs import Disk, Write, head_on, mounted, restore

from olrank.errors import LogError, OlrankError
from olrank.service import blueprint as blueprints
from olrank.service.log import CloseEntry, Record
from olrank.service.recover import recover
from olrank.service.sqlite import SqliteLog

_NOT_DURABLE = shutil.ignore_patterns("*-shm", "lock", "cache", ".*.part")
_MAKE = blueprints.make
_MADE: dict[str, blueprints.Blueprint] = {}
_FILES = ("log.db", "log.db-wal", "head")


def frozen_log(folder: Path) -> tuple[Path, list[Record]]:
    """A copy of a log's files as they lie on the disk while it runs, and all its records."""
    log = SqliteLog(folder / "live")
    live(log, Ledger(), n_rankings=10)
    copy = folder / "frozen"
    copy.mkdir()
    for name in _FILES:
        shutil.copy(folder / "live" / name, copy)
    records = log.read(0, 10_000)
    log.close()
    return copy, records


def flip(folder: Path, target: Path, draw: random.Random) -> Path:
    """A copy of the folder in which one bit is another one."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(folder, target)
    sizes = [(target / name).stat().st_size for name in _FILES]
    chosen = target / draw.choices(_FILES, sizes)[0]
    raw = bytearray(chosen.read_bytes())
    raw[draw.randrange(len(raw))] ^= 1 << draw.randrange(8)
    chosen.write_bytes(raw)
    return target


def same_or_detected(folder: Path, records: Sequence[Record]) -> str:
    """What becomes of a damaged log: "detected", "same", or "changed", which must not be."""
    try:
        log = SqliteLog(folder)
    except LogError:
        return "detected"
    try:
        found = log.read(0, 10_000)
    except LogError:
        return "detected"
    finally:
        log.close()
    return "same" if found == list(records) else "changed"


def served_folder(folder: Path, n_groups: int = 8) -> tuple[Path, dict[str, str]]:
    """The folder of a real service that was killed after some traffic, and its models' digests."""
    plan, cache = folder / "plan", folder / "cache"
    folder.mkdir(parents=True, exist_ok=True)
    crashtest.prepare(folder / "served", plan, cache, Counter())
    service = crashtest.Service(folder / "served", plan, cache)
    traffic = crashtest.live(service, 0, dict.fromkeys(crashtest.RANKERS, n_groups))
    crashtest.join(service)
    service.kill()
    service.leave()
    # Copies, at once: whoever closes a log last empties its write-ahead log.
    frozen = shutil.copytree(folder / "served", folder / "frozen", ignore=_NOT_DURABLE)
    for one in traffic:
        if one.failure is not None:
            raise one.failure
    copy = shutil.copytree(frozen, folder / "copy")
    return frozen, _digests(copy, [])


def flip_served(folder: Path, target: Path, draw: random.Random) -> tuple[Path, str]:
    """A copy of a service's folder in which one bit of log, head or a snapshot is another one."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(folder, target)
    # The killed service's learner may have closed the log last, and emptied its write-ahead log.
    files = [target / name for name in _FILES if (target / name).exists()]
    snapshots = sorted(target.glob("snapshots/*/*.safetensors"))
    # Half of the flips go to the snapshots, which are small.
    among = snapshots if snapshots and draw.random() < 0.5 else files
    chosen = draw.choices(among, [path.stat().st_size for path in among])[0]
    raw = bytearray(chosen.read_bytes())
    raw[draw.randrange(len(raw))] ^= 1 << draw.randrange(8)
    chosen.write_bytes(raw)
    return target, "snapshot" if among is snapshots else "log"


def replayed(folder: Path, digests: dict[str, str]) -> str:
    """What a damaged service's models are: "detected", "same", or "changed", which must not be."""
    said: list[str] = []
    try:
        found = _digests(folder, said)
    except OlrankError:
        return "detected"
    if found != digests:
        return "changed"
    return "detected" if said else "same"


def _make_once(config: dict[str, Any]) -> blueprints.Blueprint:
    """Shapes are worked out once for thousands of replays."""
    text = json.dumps(config, sort_keys=True)
    if text not in _MADE:
        _MADE[text] = _MAKE(config)
    return _MADE[text]


def _digests(folder: Path, said: list[str]) -> dict[str, str]:
    """Replay as a start of the service does: open the log for writing, newest snapshot, records."""
    log = SqliteLog(folder)
    try:
        end = log.head().position
        rows = log.rankers()
        with patch.object(blueprints, "make", _make_once):
            return {
                row.name: recover(log, folder, row, end, say=said.append).digest() for row in rows
            }
    finally:
        log.close()


def cut(folder: Path, stride: int) -> int:
    """Lose the unsynced end of a log from some byte on, for many bytes; how many there are.

    Each time the log must open, with all that was acknowledged, and with the last transaction
    whole or not at all.

    Args:
        folder: an empty one.
        stride: cut at every so many bytes, and around the edges of every write.
    """
    image, writes, ledger, n_before = _interrupted(folder)
    ends = [0]
    for one in writes:
        ends.append(ends[-1] + len(one.data or b""))
    near = {end + shift for end in ends for shift in (-1, 0, 1)}
    places = sorted(near & set(range(ends[-1] + 1)) | set(range(0, ends[-1] + 1, stride)))
    for place in places:
        target = folder / "cut"
        shutil.rmtree(target, ignore_errors=True)
        wal = bytearray(image["log.db-wal"])
        for one, start in zip(writes, ends, strict=False):
            data = (one.data or b"")[: max(0, place - start)]
            wal.extend(bytes(max(0, one.offset + len(data) - len(wal))))
            wal[one.offset : one.offset + len(data)] = data
        restore({**image, "log.db-wal": bytes(wal)}, target)
        found = len(check(target, ledger))
        whole = place == ends[-1]
        assert found == n_before + (3 if whole else 0), f"cut at byte {place}: {found} records"
    return ends[-1]


def _interrupted(folder: Path) -> tuple[dict[str, bytes], list[Write], Ledger, int]:
    """A disk in the moment before a transaction of three records is synced."""
    disk, ledger = Disk(), Ledger()
    caught: list[tuple[dict[str, bytes], list[Write], Ledger]] = []
    with mounted(disk, "cut") as vfs:
        log = SqliteLog(folder / "live", vfs=vfs, head_file=head_on(disk))
        live(log, ledger, compacting=False)
        n_before = log.head().position
        epoch = log.claim().result()
        n_before += 1

        def catch(name: str) -> None:
            if not caught:
                caught.append((disk.image(), disk.pending("log.db-wal"), ledger.copy()))

        disk.before_sync = catch
        log.append_batch(epoch, "shop", [CloseEntry(f"x{n}", "limit") for n in (0, 1)]).result()
        log.close()
    return *caught[0], n_before


def main() -> None:
    """The long form."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--flips", type=int, default=10_000)
    parser.add_argument("--stride", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--report", type=Path)
    options = parser.parse_args()
    folder, draw, start_s = options.folder, random.Random(options.seed), time.monotonic()
    frozen, records = frozen_log(folder / "flips")
    logs = Counter(
        same_or_detected(flip(frozen, folder / "flipped", draw), records)
        for _ in range(options.flips)
    )
    print(f"bits flipped in a log, records read: {dict(logs)}", flush=True)
    served, digests = served_folder(folder / "service")
    models: Counter[str] = Counter()
    for _ in range(options.flips):
        flipped, where = flip_served(served, folder / "flipped", draw)
        models[f"{where}: {replayed(flipped, digests)}"] += 1
    print(f"bits flipped in a service's folder, models replayed: {dict(models)}", flush=True)
    figures = {
        "bits_flipped_in_a_log": options.flips,
        "its_records": dict(sorted(logs.items())),
        "bits_flipped_in_a_services_folder": options.flips,
        "its_models": dict(sorted(models.items())),
        "unsynced_bytes_cut_at_each": cut(folder / "cuts", options.stride),
        "stride": options.stride,
        "seconds": round(time.monotonic() - start_s),
    }
    text = json.dumps(figures, indent=2)
    print(text)
    if options.report is not None:
        options.report.write_text(f"{text}\n")
    sys.exit(any("changed" in outcome for outcome in (*logs, *models)))


if __name__ == "__main__":
    main()
