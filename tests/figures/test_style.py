from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from olrank.figures import style
from olrank.rankers import table


def test_every_ranker_of_the_table_has_a_look_of_its_own():
    looks = style.looks(table.names())
    assert len(set(looks.values())) == len(table.names())


def test_looks_differ_without_colour():
    looks = style.looks(table.names())
    assert len({look.marker for look in looks.values()}) == len(looks)


def test_a_ranker_keeps_its_look_whoever_else_is_drawn():
    alone = style.looks(["pairrank"])["pairrank"]
    assert style.looks(["mine", "skyline", "pairrank"])["pairrank"] == alone


def test_labels_nobody_knows_get_looks_that_nobody_has():
    titles = [f"variant {n}" for n in range(30)] + ["olranknet"]
    looks = style.looks(titles)
    assert len(set(looks.values())) == len(titles)


def test_the_look_does_not_depend_on_the_machine_s_settings_and_leaves_them_alone():
    with matplotlib.rc_context({"font.size": 30}):
        with style.applied():
            assert matplotlib.rcParams["font.size"] == 9
        assert matplotlib.rcParams["font.size"] == 30


def test_a_saved_figure_carries_no_date_and_no_version(tmp_path: Path):
    with style.applied():
        path = style.save(Figure(), tmp_path / "new" / "empty.svg")
    text = path.read_text()
    assert "<dc:date>" not in text
    assert matplotlib.__version__ not in text
