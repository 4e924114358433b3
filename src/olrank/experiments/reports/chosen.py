"""What a contest chose, as Markdown: chosen.md."""

from __future__ import annotations

from typing import Any

from olrank.experiments.reports.markup import head, row, short


def markdown(chosen: dict[str, Any]) -> str:
    """What was chosen, by what score, and what came next."""
    final = chosen["final"]
    sets = list(final["scores"])
    lines = ["## The preset", "", *_settings(final), "", "## Chosen without each data set", ""]
    lines += head("left out", "chosen", "settings", "score on it")
    for name, one in chosen["left_out"].items():
        lines.append(row(name, one["ranker"], one["label"] or "-", _score(one["scores"][name])))
    lines += ["", f"## The first of {chosen['n_candidates']} candidates", ""]
    lines += head("candidate", "settings", "mean", *sets)
    for one in (final, *chosen["runners_up"]):
        scores = [_score(one["scores"][name]) for name in sets]
        lines.append(row(one["ranker"], one["label"] or "-", _score(one["score"]), *scores))
    lines += [
        "",
        "Scores are mean log ratios to the best tuned baseline on the validation parts, offline "
        "and online alike, losses counted double.",
        "",
        "## Tuned for each data set, user and stop rule",
        "",
        *head("ranker", "data", "user", "stop", "settings", "offline", "online"),
    ]
    for x in chosen["tuned"]:
        values = ("-", "-") if x["offline"] is None else (short(x["offline"]), f"{x['online']:.0f}")
        where = (x["ranker"], x["dataset"], x["user"], x["stop"])
        lines.append(row(*where, x["label"] or "-", *values))
    return "\n".join([*lines, ""])


def _settings(one: dict[str, Any]) -> list[str]:
    lines = [f"{one['ranker']}: the ranker `{one['name']}` with", ""]
    lines += [f"- `{name}` = `{value}`" for name, value in one["settings"].items()]
    return lines


def _score(value: float | None) -> str:
    return "NaN" if value is None else f"{value:+.4f}"
