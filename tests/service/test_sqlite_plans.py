"""Questions asked for every request or several times a second must not grow with the log."""

import re
from pathlib import Path
from typing import Any

import apsw
import pytest

from olrank.service.log import Event, RankingEntry
from olrank.service.sqlite import SqliteLog


def walk(step: str) -> bool:
    """Whether a step of a plan reads a whole table that grows, or all of one ranker in it."""
    table = step.split()[1]
    # Opening a log goes through its few records that are not about impressions.
    grows = table in ("records", "here", "before", "rankings", "events")
    grows = grows and "records_rare" not in step
    return grows and (step.startswith("SCAN") or step.endswith("PRIMARY KEY (birth=?)"))


def test_no_frequent_question_walks_through_a_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every statement that these calls run, as SQLite plans it."""
    statements: set[str] = set()

    def trace(_cursor: Any, statement: str, _values: Any) -> bool:
        statements.add(statement)
        return True

    monkeypatch.setattr(apsw, "connection_hooks", [lambda db: setattr(db, "exec_trace", trace)])
    log = SqliteLog(tmp_path, check=0)
    birth = log.create_ranker("shop", {}).result().record.position
    log.append_ranking(RankingEntry("shop", birth, "r", "d", ["a"])).result()
    log.append_feedback("shop", [Event("r", [("a", 1.0)])]).result()
    log.ranking("shop", "r")
    log.due("shop", 0, 0, 0, 10)
    log.read(0, ranker="shop")
    log.read(0)
    log.open_impressions("shop")
    log.compact({}, 0).result()
    log.close()
    db = apsw.Connection(str(tmp_path / "log.db"))
    walks = {}
    for statement in sorted(statements):
        if statement.lstrip().startswith(("SELECT", "UPDATE", "DELETE")):
            numbered = {int(one) for one in re.findall(r"\?(\d+)", statement)}
            values = [None] * (max(numbered) if numbered else statement.count("?"))
            plan = [str(row[3]) for row in db.execute(f"EXPLAIN QUERY PLAN {statement}", values)]
            walks[statement] = [one for one in plan if walk(one) and "died" not in statement]
    db.close()
    assert len(walks) > 15
    assert {statement: found for statement, found in walks.items() if found} == {}
