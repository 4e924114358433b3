from pathlib import Path

import pytest
from experiments.made_rows import made_rows

from olrank.errors import DataError
from olrank.experiments.reports import published
from olrank.experiments.rows import files

HEAD = "ranker,user,stop,round,metric,value,sd,n,source\n"


def compared(folder: Path, *lines: str):
    # made_rows: ndcg@10 of pdgd-linear after 100 rounds is .01 * (11 + 2) + .01 * seed.
    files.write_rows(made_rows(seeds=(0, 2)), folder / "rows.parquet")
    (folder / "published.csv").write_text(HEAD + "".join(line + "\n" for line in lines))
    return published.compare(folder)


def test_a_difference_within_a_hundredth_or_two_errors_agrees(tmp_path: Path):
    found = compared(
        tmp_path,
        "pdgd-linear,perfect,clicked,100,ndcg@10,0.145,0.0001,4,a paper",
        "pdgd-linear,perfect,clicked,100,ndcg@10,0.185,0.0001,4,a paper",
        "pdgd-linear,perfect,clicked,100,ndcg@10,0.185,0.08,4,a paper",
    )
    # Ours is .13 and .15: mean .14, deviation .02 / sqrt(2), error .02 / sqrt(2) / sqrt(2) = .01.
    assert found["ours"].to_list() == pytest.approx([0.14] * 3)
    assert found["difference"].to_list() == pytest.approx([-0.005, -0.045, -0.045])
    assert found["standard_error"][2] == pytest.approx((0.01**2 + (0.08 / 2) ** 2) ** 0.5)
    assert found["agrees"].to_list() == [True, False, True]


def test_where_no_deviation_was_published_ours_stands_in(tmp_path: Path):
    found = compared(tmp_path, "pdgd-linear,perfect,clicked,100,ndcg@10,0.14,,4,a paper")
    deviation = 0.02 / 2**0.5
    assert found["standard_error"][0] == pytest.approx((0.01**2 + deviation**2 / 4) ** 0.5)


def test_only_offline_ndcg_is_close_within_a_hundredth(tmp_path: Path):
    found = compared(tmp_path, "pdgd-linear,perfect,clicked,100,online_ndcg,13.016,0.0001,4,x")
    assert found["ours"][0] == pytest.approx(13.01)
    assert found["agrees"][0]  # two errors of ours: 2 * .01
    found = compared(tmp_path, "pdgd-linear,perfect,clicked,100,online_ndcg,13.1,0.0001,4,x")
    assert not found["agrees"][0]


def test_what_is_missing_is_named(tmp_path: Path):
    with pytest.raises(DataError, match=r"published\.csv: there is no such file"):
        published.compare(tmp_path)
    with pytest.raises(DataError, match="the rows have nothing for ranker dbgd"):
        compared(tmp_path, "dbgd,perfect,clicked,100,ndcg@10,0.14,,4,x")
