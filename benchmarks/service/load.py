"""Load on the real service, open loop: requests leave when they are due, ready or not.

    python benchmarks/service/load.py [--seconds 600] [--rates 25,50] [--trial 30]
        [--settings JSON] [--report FILE]

Each ranking has 100 candidates with 136 features and is followed by its feedback, a click that
closes it, as soon as it is answered. Latency counts from when a request was due, so that a server
that falls behind cannot hide it. First rising rates are tried for a while with learning on; the
highest one that holds p99 <= 50 ms (rank) and 25 ms (feedback) is then held for --seconds (the next
lower one if it does not last), and once more with learning switched off. A stretch ends early when
so many requests were slow that the rest cannot make up for them. Prints a table, the processor's
share of the generator itself, what other machines on the same host took of these cores ("steal"),
which no service can help, and p99 over the rankings of seconds without it ("calm", "share").
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import olrank

N_DOCS, N_FEATURES, N_BODIES = 100, 136, 40
RANK_MS, FEEDBACK_MS, LAG_S = 50.0, 25.0, 5.0
CONNECTIONS = 64
DISTURBED = 0.02  # cores; a second in which the host took more of them says little of the service
_PERCENTILES = {"p50": 50, "p99": 99}


@dataclass
class Run:
    """What one stretch of load measured: latencies in ms, failures, memory and lag over time."""

    rate: float
    seconds: float
    learning: bool
    rank: list[float] = field(default_factory=list)
    due: list[float] = field(default_factory=list)
    feedback: list[float] = field(default_factory=list)
    n_slow_ranks: int = 0
    n_slow_feedback: int = 0
    failed: int = 0
    server_mb: list[float] = field(default_factory=list)
    learner_mb: list[float] = field(default_factory=list)
    lag_s: list[float] = field(default_factory=list)
    generator_share: float = 0.0
    server_share: float = 0.0
    learner_share: float = 0.0
    steal: list[float] = field(default_factory=list)
    watched: list[float] = field(default_factory=list)

    def undisturbed(self) -> tuple[float, float]:
        """The rankings' p99 where the host took next to nothing, and the share of such rankings."""
        if not self.watched:
            return float("inf"), 0.0
        second = np.searchsorted(self.watched, self.due).clip(max=len(self.watched) - 1)
        # A ranking may also wait for what the second before it left undone.
        steal = np.asarray(self.steal)
        most = np.maximum(steal, np.concatenate([[0.0], steal[:-1]]))
        calm = [ms for ms, at in zip(self.rank, second, strict=True) if most[at] <= DISTURBED]
        return p(calm, 99), round(len(calm) / max(len(self.rank), 1), 3)

    def worst_second(self) -> dict[str, int]:
        """The second with the most slow rankings: one stall, or slowness all along?"""
        first = min(self.due, default=0.0)
        late = [int(at - first) for ms, at in zip(self.rank, self.due, strict=True) if ms > RANK_MS]
        counts = np.bincount(late) if late else np.zeros(1, int)
        return {"at": int(counts.argmax()), "slow": int(counts.max()), "slow_in_all": len(late)}

    def cost_ms(self) -> float:
        """Processor time of the HTTP process for one ranking and its feedback."""
        return 1000 * self.server_share * self.seconds / max(len(self.feedback), 1)

    def holds(self) -> bool:
        """Whether the aims are met."""
        if self.failed or not self.rank or not self.feedback:
            return False
        fast = p(self.rank, 99) <= RANK_MS and p(self.feedback, 99) <= FEEDBACK_MS
        return fast and max(self.lag_s, default=0.0) <= LAG_S

    def is_lost(self, planned: int) -> bool:
        """Whether the aims cannot be met any more, however fast the rest of the requests are."""
        slow = (self.n_slow_ranks, self.n_slow_feedback)  # one more: p99 lies between two requests
        return self.failed > 0 or max(slow) > 0.01 * planned + 1

    def facts(self) -> dict[str, Any]:
        """What a report says of it."""
        calm, share = self.undisturbed()
        return {
            "rate": self.rate,
            "seconds": round(self.seconds, 1),
            "learning": self.learning,
            "rank_ms": {name: round(p(self.rank, q), 1) for name, q in _PERCENTILES.items()},
            "feedback_ms": {
                name: round(p(self.feedback, q), 1) for name, q in _PERCENTILES.items()
            },
            "rank_ms_undisturbed": {"p99": round(calm, 1) if share else None, "share": share},
            "worst_second": self.worst_second(),
            "failed": self.failed,
            "largest_lag_s": round(max(self.lag_s, default=0.0), 2),
            "cores": {
                "generator": round(self.generator_share, 2),
                "http": round(self.server_share, 2),
                "learner": round(self.learner_share, 2),
                "stolen": round(float(np.mean(self.steal)), 3) if self.steal else None,
                "stolen_in_the_worst_second": round(max(self.steal), 2) if self.steal else None,
            },
            "http_mb": [round(self.server_mb[0]), round(self.server_mb[-1])],
            "learner_mb": [round(self.learner_mb[0]), round(self.learner_mb[-1])],
            "holds": self.holds(),
        }

    def line(self) -> str:
        """One row of the table."""
        rank, feedback = (
            f"{p(found, 50):7.1f} {p(found, 99):7.1f}" for found in (self.rank, self.feedback)
        )
        memory = [f"{part[0]:.0f} to {part[-1]:.0f}" for part in (self.server_mb, self.learner_mb)]
        shares = f"{self.generator_share:5.2f} {self.server_share:5.2f} {self.learner_share:5.2f}"
        stolen = (
            f"{np.mean(self.steal):5.3f} {max(self.steal):4.2f}" if self.steal else "    -    -"
        )
        calm, share = self.undisturbed()
        return (
            f"{self.rate:6.0f} {self.seconds:6.0f} {'on' if self.learning else 'off':>6} {rank} "
            f"{feedback} {self.failed:6d} {max(self.lag_s, default=0):6.2f} {shares} "
            f"{self.cost_ms():7.1f} {stolen} {calm:6.1f} {share:5.2f}   "
            f"{memory[0]:>14} {memory[1]:>14}  {'yes' if self.holds() else 'no'}"
        )


HEAD = (
    "  rate      s  learn rank p50     p99 fb. p50     p99 failed    lag   gen  http learn http ms "
    "steal  max   calm share "
    "       http MB      learner MB  holds"
)


def p(found: list[float], percent: float) -> float:
    """A percentile; infinite without a measurement."""
    return float(np.percentile(found, percent)) if found else float("inf")


class Connections:
    """A few kept-alive connections that take requests in turn."""

    def __init__(self, port: int) -> None:
        """Nothing is open yet."""
        self._port = port
        self._free: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = (
            asyncio.Queue()
        )

    async def open(self) -> None:
        """Connect."""
        for _ in range(CONNECTIONS):
            await self._free.put(await asyncio.open_connection("127.0.0.1", self._port))

    async def post(self, path: str, body: bytes) -> tuple[int, bytes]:
        """Send one request on the next free connection; status and body of the answer."""
        reader, writer = await self._free.get()
        try:
            head = (
                f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(body)}\r\n\r\n"
            )
            writer.write(head.encode() + body)
            await writer.drain()
            headers = await reader.readuntil(b"\r\n\r\n")
            length = int(headers.lower().split(b"content-length:")[1].split(b"\r\n")[0])
            return int(headers.split(b" ", 2)[1]), await reader.readexactly(length)
        finally:
            self._free.put_nowait((reader, writer))

    async def close(self) -> None:
        """Hang up."""
        while not self._free.empty():
            _, writer = self._free.get_nowait()
            writer.close()


def bodies(rng: np.random.Generator) -> list[tuple[bytes, set[str]]]:
    """Requests, and what users like in them; made beforehand, so that making them costs nothing."""
    found = []
    for _ in range(N_BODIES):
        x = np.round(rng.random((N_DOCS, N_FEATURES)), 5)
        ids = [f"document-{i}" for i in range(N_DOCS)]
        listed = [{"id": i, "features": row} for i, row in zip(ids, x.tolist(), strict=True)]
        body = json.dumps({"candidates": listed, "query": "a query"}).encode()
        found.append((body, {ids[i] for i in np.argsort(-x[:, :8].sum(axis=1))[:20]}))
    return found


async def load(service: Service, rate: float, seconds: float, learning: bool) -> Run:
    """Hold a rate for a while."""
    run, pool = Run(rate, seconds, learning), Connections(service.port)
    await pool.open()
    rng, ready = np.random.default_rng(0), bodies(np.random.default_rng(1))
    gaps = rng.exponential(1.0 / rate, int(rate * seconds))
    tasks: set[asyncio.Task[None]] = set()
    before, began = service.cpu(), time.perf_counter()
    watcher = asyncio.create_task(service.watch(run))
    due = began
    for number, gap in enumerate(gaps):
        due += gap
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        if run.is_lost(len(gaps)):
            break
        task = asyncio.create_task(_one(pool, run, *ready[number % N_BODIES], due))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    if tasks:
        _, late = await asyncio.wait(tasks, timeout=30)
        run.failed += len(late)
    wall = time.perf_counter() - began
    after = service.cpu()
    watcher.cancel()
    run.seconds = wall
    shares = [(b - a) / wall for a, b in zip(before, after, strict=True)]
    run.generator_share, run.server_share, run.learner_share = shares
    await pool.close()
    return run


async def _one(pool: Connections, run: Run, body: bytes, liked: set[str], due: float) -> None:
    status, answer = await pool.post("/v1/rankers/load/rank", body)
    answered = time.perf_counter()
    run.rank.append((answered - due) * 1000)
    run.due.append(due)
    run.n_slow_ranks += run.rank[-1] > RANK_MS
    if status != 200:
        run.failed += 1
        return
    found = json.loads(answer)
    clicks = [{"id": item["id"]} for item in found["items"] if item["id"] in liked]
    event = {"ranking_id": found["ranking_id"], "clicks": clicks[:2], "close": True}
    event["event_id"] = found["ranking_id"]
    status, _ = await pool.post(
        "/v1/rankers/load/feedback", json.dumps({"events": [event]}).encode()
    )
    run.feedback.append((time.perf_counter() - answered) * 1000)
    run.n_slow_feedback += run.feedback[-1] > FEEDBACK_MS
    run.failed += status != 202


class Service:
    """The real service on a free port, and what the system says about its processes."""

    def __init__(self, folder: Path, settings: dict[str, Any] | None = None) -> None:
        """Start it with one ranker, and wait until it is ready."""
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            self.port = int(one.getsockname()[1])
        arguments = ["serve", "--port", str(self.port), "--data", str(folder), "--warm", "100"]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "olrank", *arguments, "--log-level", "warning"]
        )
        self.client = olrank.Client(f"http://127.0.0.1:{self.port}", tries=20, timeout_s=60)
        self.client.wait_until_ready(300)
        self.client.create("load", N_FEATURES, settings=settings or {})
        self.client.wait_until_ready(300)

    def learner(self) -> int | None:
        """The learner's process id."""
        tasks = Path(f"/proc/{self.process.pid}/task").glob("*/children")
        found = [int(pid) for file in tasks for pid in file.read_text().split()]
        return found[0] if found else None

    def cpu(self) -> tuple[float, float, float]:
        """Processor seconds so far of the generator, of HTTP and of the learner."""
        learner = self.learner()
        own = time.process_time()
        return own, _cpu_s(self.process.pid), _cpu_s(learner) if learner else 0.0

    async def watch(self, run: Run) -> None:
        """Note memory, lag and stolen time every second."""
        stolen = _stolen_s()
        while True:
            run.server_mb.append(_rss_mb(self.process.pid))
            run.learner_mb.append(_rss_mb(self.learner() or self.process.pid))
            if run.learning:
                run.lag_s.append(await asyncio.to_thread(self._lag_s))
            began = time.perf_counter()
            await asyncio.sleep(1.0)
            before, stolen = stolen, _stolen_s()
            run.watched.append(time.perf_counter())
            run.steal.append((stolen - before) / (run.watched[-1] - began))

    def _lag_s(self) -> float:
        text = self.client._http.get("/metrics").text
        lines = [one for one in text.splitlines() if one.startswith("olrank_learner_lag_seconds ")]
        return float(lines[0].split()[1]) if lines else 0.0

    def settle(self) -> None:
        """Wait until the learner has nothing left to do."""
        last = 0  # before the first, it compiles
        while (now := self.client.ranker("load")["n_trained"]) != last or not now:
            last = now
            time.sleep(1.0)

    def stop(self) -> None:
        """End the service."""
        self.client.close()
        self.process.terminate()
        self.process.wait(60)


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _stolen_s() -> float:
    """Seconds of these cores that the host gave to others since it started."""
    return int(Path("/proc/stat").read_text().split("\n", 1)[0].split()[8]) / os.sysconf(
        "SC_CLK_TCK"
    )


def _rss_mb(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def try_rates(service: Service, rates: list[float], seconds: float) -> list[Run]:
    """Each rate for a while, until one is too much for the service."""
    tried: list[Run] = []
    for rate in rates:
        tried.append(asyncio.run(load(service, rate, seconds, True)))
        print(tried[-1].line(), flush=True)
        service.settle()
        if not tried[-1].holds():
            break
    return tried


def hold(service: Service, rates: list[float], seconds: float) -> list[Run]:
    """The first of these rates that holds as long as asked for, and the same without learning."""
    held: list[Run] = []
    for rate in rates:
        print(f"{rate:.0f} a second for {seconds:.0f} s:", flush=True)
        held.append(asyncio.run(load(service, rate, seconds, True)))
        print(held[-1].line(), held[-1].worst_second(), flush=True)
        service.settle()
        if held[-1].holds():
            break
    service.client.switch("load", learn=False)
    held.append(asyncio.run(load(service, held[-1].rate, seconds, False)))
    print(held[-1].line(), held[-1].worst_second(), flush=True)
    return held


def main(arguments: Any) -> int:
    """Try the rates, hold the best one, print everything, and write it down."""
    print(f"{os.cpu_count()} cores, {N_DOCS} candidates x {N_FEATURES} features; shares in cores")
    print(HEAD)
    with tempfile.TemporaryDirectory() as place:
        service = Service(Path(place) / "data", arguments.settings)
        try:
            about = service.client.ranker("load")
            for _ in range(2):  # warm caches; then the gauge of lag forgets what compiling took
                asyncio.run(load(service, 5, 5, True))
                service.settle()
            tried = try_rates(service, sorted(arguments.rates), arguments.trial)
            held_briefly = [run.rate for run in tried if run.holds()]
            held = hold(service, held_briefly[::-1], arguments.seconds) if held_briefly else []
        finally:
            service.stop()
    if arguments.report is not None:
        facts = {
            "cores": os.cpu_count(), "candidates": N_DOCS, "features": N_FEATURES,
            "ranker": about["config"]["algorithm"], "settings": arguments.settings,
            "tried": [run.facts() for run in tried], "held": [run.facts() for run in held],
        }  # fmt: skip
        arguments.report.write_text(json.dumps(facts, indent=1) + "\n")
    if not any(run.holds() for run in held):
        print("No rate held the aims.")
        return 1
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--trial", type=float, default=30.0)
    parser.add_argument(
        "--rates",
        type=lambda text: [float(one) for one in text.split(",")],
        default=[25.0, 35.0, 45.0, 55.0, 65.0, 80.0, 100.0, 125.0, 150.0, 200.0],
    )
    parser.add_argument(
        "--settings", type=json.loads, default={}, help="of the ranker, as JSON; else its defaults"
    )
    parser.add_argument("--report", type=Path, help="a JSON file to write")
    sys.exit(main(parser.parse_args()))
