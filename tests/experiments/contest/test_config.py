"""A contest's file: what it says, and what is wrong in it."""

import json
from pathlib import Path

import pytest
from experiments.contest.made_contest import CONTEST

from olrank.errors import ConfigError
from olrank.experiments.contest.choose import choose
from olrank.experiments.contest.config import parse_contest, read_contest
from olrank.experiments.contest.entrants import searched
from olrank.experiments.contest.ground import Ground, checksum
from olrank.experiments.reports import chosen as chosen_page
from olrank.experiments.rows.files import read_rows
from olrank.rankers import table

EXPERIMENTS = Path(__file__).parents[3] / "experiments"


def complaint(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_contest(text)
    return str(caught.value)


def test_a_contest_reads_as_it_is_written():
    contest = parse_contest(CONTEST)
    assert [data.name for data in contest.data] == ["one", "two"]
    assert contest.cells == [("perfect", "clicked"), ("informational", "clicked")]
    assert contest.robust[0].taste_changes_after == 15
    assert [ranker.title for ranker in contest.candidate] == ["ours"]


def test_a_search_uses_other_seeds_than_the_evaluation_unless_they_are_listed():
    contest = parse_contest(CONTEST)
    assert contest.search.seed_list == [1000, 1001]
    assert contest.evaluate.seed_list == [0, 1, 2]
    listed = parse_contest(CONTEST.replace("seeds = 2\nfolds", "seeds = [4, 5]\nfolds"))
    assert listed.search.seed_list == [4, 5]


def test_folds_may_be_one_number_or_one_a_set():
    contest = parse_contest(CONTEST.replace("folds = 1", "folds = [2, 1]"))
    assert [contest.n_folds(i) for i in (0, 1)] == [2, 1]
    assert "one number for each of the 2 sets" in complaint(
        CONTEST.replace("folds = 1", "folds = [2]")
    )


@pytest.mark.parametrize(
    ("written", "instead", "said"),
    [
        ('label = "ours"', 'label = "best"', '"best" is what the winner is called'),
        ('label = "ours"', "", 'two rankers are called "pdgd-linear"'),
        ('name = "two"', 'name = "one"', "two data sets are called the same: one, one."),
        (
            'label = "ours"\nsettings = { learning_rate',
            'label = "ours"\nsettings = { learning_rat',
            'contest.toml, [candidate]: ranker pdgd-linear: no setting is called "learning_rat"',
        ),
        ('"perfect-flipped"', '"perfct"', '[robust 2] users: no user is called "perfct"'),
        ('name = "two"\nsynthetic', 'name = "two"\nsyntetic', "[data 2] syntetic: no setting"),
        ("folds = 1", "fold = 1", '[search] fold: no setting is called "fold". Known: '),
        (
            "taste_changes_after = 15",
            "taste = 15",
            '[robust 1] taste: no setting is called "taste"',
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_place(written, instead, said):
    assert written in CONTEST
    assert said in complaint(CONTEST.replace(written, instead, 1))


def test_a_rival_may_stay_away_from_some_sets():
    text = CONTEST.replace("[[baseline]]\n", '[[baseline]]\nnot_on = ["two"]\n', 1)
    contest = parse_contest(text)
    away = contest.baseline[0].title
    for dataset, runs in (("one", True), ("two", False)):
        assert (away in {one.title for one in searched(contest, dataset)}) == runs
    unknown = text.replace('["two"]', '["three"]')
    assert "not_on has three, which is no data set" in complaint(unknown)


def test_every_evaluated_cell_must_be_searched():
    text = CONTEST.replace('[evaluate]\nusers = ["perfect"', '[evaluate]\nusers = ["navigational"')
    assert "[evaluate] users has navigational, which [search] has not" in complaint(text)


def test_the_committed_contest_holds_all_baselines_of_the_paper():
    contest = read_contest(EXPERIMENTS / "best" / "contest.toml")
    assert len(contest.data) == 6
    assert len(contest.cells) == 3 * 2
    assert (contest.evaluate.rounds, len(contest.evaluate.seed_list)) == (5000, 30)
    assert {ranker.name for ranker in contest.baseline} == {
        "pdgd-linear",
        "pdgd-neural",
        "dbgd-linear",
        "dbgd-neural",
        "pairrank",
        "epsilon-greedy",
    }
    away = {ranker.name: ranker.not_on for ranker in contest.baseline if ranker.not_on}
    assert away == {"pairrank": ["LightGBM_rank", "yahoo-shape"]}


@pytest.mark.parametrize("name", ["best", "second", "third", "fourth"])
def test_stages_of_the_committed_contests_are_done_as_their_files_ask(name):
    folder = EXPERIMENTS / name
    ground = Ground(read_contest(folder / "contest.toml"), folder)
    assert ground.is_done("choose")
    stages = ("search", "evaluate", "robust", "outside")
    assert [x for x in stages if not ground.holds(x)] == []


@pytest.mark.parametrize("name", ["best", "second", "third", "fourth"])
def test_what_the_committed_contests_chose_is_what_their_rows_say(name):
    folder = EXPERIMENTS / name
    committed = json.loads((folder / "chosen.json").read_text())
    said = {"search_sha256": checksum(folder / "search.parquet")}
    said |= choose(read_rows(folder / "search.parquet"))
    assert json.loads(json.dumps(said)) == committed
    assert chosen_page.markdown(committed) == (folder / "chosen.md").read_text()


@pytest.mark.parametrize(
    ("preset", "name"),
    [
        ("first", "best"),
        ("second", "second"),
        ("third", "third"),
        ("best", "fourth"),
    ],
)
def test_presets_are_what_the_committed_contests_chose(preset, name):
    chosen = json.loads((EXPERIMENTS / name / "chosen.json").read_text())["final"]
    assert chosen["name"] == "olcascade"
    made = table.make("olcascade", {"preset": preset})
    found = table.make("olcascade", chosen["settings"])
    assert (found.ranker, found.numbers) == (made.ranker, made.numbers)


def test_who_names_no_preset_gets_the_best():
    assert table.make("olcascade").settings["preset"] == "best"
