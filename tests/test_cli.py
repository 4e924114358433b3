import sys
from pathlib import Path

import pytest
from experiments.made_rows import FakeSimulate, made_rows, tiny_fold

import olrank
from olrank import cli
from olrank.experiments.paper import reproduce as reproducing
from olrank.experiments.paper.protocol import QUICK
from olrank.experiments.rows import files
from olrank.experiments.running import device, parts
from olrank.experiments.running import run as running
from olrank.rankers import table

CONFIG = """
name = "trial"
data.synthetic = "small"
run = { rounds = 100, seeds = 2 }
ranker.name = "olranknet"
"""

LETOR = "2 qid:1 1:0.5 2:1\n0 qid:1 1:0.25\n1 qid:2 2:0.75\n"


class Answer:
    """What a command printed, and its exit code."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err


@pytest.fixture
def olrank_says(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    def call(*words: object) -> Answer:
        monkeypatch.setattr(sys, "argv", ["olrank", *map(str, words)])
        with pytest.raises(SystemExit) as left:
            cli.main()
        said = capsys.readouterr()
        return Answer(int(left.value.code or 0), said.out, said.err)

    return call


@pytest.fixture
def simulate(monkeypatch: pytest.MonkeyPatch) -> FakeSimulate:
    fake = FakeSimulate()
    monkeypatch.setattr(parts, "simulate_task", fake)
    monkeypatch.setattr(running, "load_folds", lambda data: [tiny_fold()])
    monkeypatch.setattr(device, "keep_compiled", lambda: None)  # JAX would remember it
    return fake


def test_version_is_the_package_s(olrank_says):
    assert olrank_says("--version").out == f"olrank {olrank.__version__}\n"


def test_list_names_every_ranker_with_its_summary(olrank_says):
    said = olrank_says("list")
    assert said.code == 0
    lines = said.out.splitlines()
    for name in table.names():
        (line,) = [line for line in lines if line.split()[:1] == [name]]
        assert table.entry(name).summary.split()[0] in line
    assert "navigational" in said.out
    assert "web10k" in said.out


def test_run_writes_results_and_says_where(olrank_says, simulate, tmp_path: Path):
    (tmp_path / "trial.toml").write_text(CONFIG)
    said = olrank_says("run", tmp_path / "trial.toml", "--out", tmp_path / "out")
    assert said.code == 0
    assert (tmp_path / "out" / "rows.parquet").is_file()
    assert "offline NDCG@10" in said.out
    assert str(tmp_path / "out" / "figures") in said.out
    assert "[1/1] olranknet, fold 1, seeds 0 to 1" in said.err


def test_run_says_why_it_draws_no_curves_of_many_rankers(olrank_says, simulate, tmp_path: Path):
    one = 'ranker.name = "olranknet"\n'
    many = "".join(f'[[ranker]]\nname = "olranknet"\nlabel = "{i}"\n' for i in range(13))
    (tmp_path / "trial.toml").write_text(CONFIG.replace(one, "") + many)
    said = olrank_says("run", tmp_path / "trial.toml", "--out", tmp_path / "out")
    assert said.code == 0
    assert "No curves are drawn of so many rankers" in said.out
    assert str(tmp_path / "out" / "figures") not in said.out


def test_run_draws_what_variants_do_to_their_base(olrank_says, simulate, tmp_path: Path):
    variant = '[[ranker]]\nname = "olranknet"\nlabel = "blocks"\nbase = "olranknet"\n'
    config = CONFIG.replace('ranker.name = "olranknet"\n', '[[ranker]]\nname = "olranknet"\n')
    (tmp_path / "trial.toml").write_text(f"{config}{variant}settings = {{ order = 'blocks' }}\n")
    said = olrank_says("run", tmp_path / "trial.toml", "--out", tmp_path / "out")
    assert said.code == 0
    drawn = {path.stem for path in (tmp_path / "out" / "figures").iterdir()}
    assert {"learning", "online", "ratio", "effects"} <= drawn


def test_run_without_a_config_runs_the_embedded_one_into_results(
    olrank_says, simulate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    assert olrank_says("run").code == 0
    assert (tmp_path / "results" / "default" / "summary.json").is_file()
    of_the_paper = {name for name in table.names() if "paper" in table.entry(name).presets}
    assert {call["ranker"] for call in simulate.calls} == of_the_paper | {"olcascade"}


def test_a_mistake_in_a_config_is_told_without_a_traceback(olrank_says, tmp_path: Path):
    (tmp_path / "config.toml").write_text(CONFIG.replace("olranknet", "olranknett"))
    said = olrank_says("run", tmp_path / "config.toml")
    assert said.code == 2
    assert said.err.startswith(
        'olrank: config.toml, [ranker] name: no ranker is called "olranknett"'
    )
    assert "Traceback" not in said.err


def test_a_stopped_run_says_that_it_can_go_on(olrank_says, monkeypatch, simulate, tmp_path: Path):
    monkeypatch.setattr(parts, "simulate_task", FakeSimulate(fails_at=0))
    (tmp_path / "trial.toml").write_text(CONFIG)
    said = olrank_says("run", tmp_path / "trial.toml", "--out", tmp_path / "out")
    assert said.code == 130
    assert "goes on" in said.err


def test_run_computes_on_the_device_that_it_is_told(
    olrank_says, simulate, monkeypatch, tmp_path: Path
):
    asked = []
    monkeypatch.setattr(running, "use_device", lambda name: asked.append(name) or "cpu")
    (tmp_path / "trial.toml").write_text(CONFIG)
    for options in ([], ["--device", "cpu"], ["--device", "gpu"]):
        said = olrank_says("run", tmp_path / "trial.toml", "--out", tmp_path / "out", *options)
        assert said.code == 0
    assert asked == [None, "cpu", "gpu"]
    refused = olrank_says("run", tmp_path / "trial.toml", "--device", "tpu")
    assert refused.code == 2


def test_run_on_a_gpu_that_is_not_there_says_how_to_install_one(
    olrank_says, simulate, monkeypatch, tmp_path: Path
):
    monkeypatch.setattr(device, "_configure", lambda option, value: None)
    monkeypatch.setattr(device.jax, "default_backend", lambda: "cpu")
    (tmp_path / "trial.toml").write_text(CONFIG)
    said = olrank_says("run", tmp_path / "trial.toml", "--out", tmp_path / "out", "--device", "gpu")
    assert said.code == 2
    assert 'pip install "jax[cuda' in said.err
    assert simulate.calls == []


def test_a_cluster_without_ray_says_what_to_install(
    olrank_says, simulate, monkeypatch, tmp_path: Path
):
    monkeypatch.setitem(sys.modules, "ray", None)
    (tmp_path / "trial.toml").write_text(CONFIG)
    said = olrank_says(
        "run", tmp_path / "trial.toml", "--out", tmp_path / "out", "--cluster", "local"
    )
    assert said.code == 2
    assert 'pip install "olrank[cluster]"' in said.err


def test_figures_are_redrawn_from_rows(olrank_says, tmp_path: Path):
    files.write_rows(made_rows(), tmp_path / "rows.parquet")
    said = olrank_says("figures", tmp_path)
    assert said.code == 0
    assert str(tmp_path / "figures" / "learning.svg") in said.out
    assert (tmp_path / "figures" / "learning.svg").is_file()


def test_figures_of_a_folder_without_rows_are_refused(olrank_says, tmp_path: Path):
    said = olrank_says("figures", tmp_path)
    assert said.code == 2
    assert "rows.parquet: not there" in said.err


def test_data_info_counts_queries_documents_and_features(olrank_says, tmp_path: Path):
    (tmp_path / "a.txt").write_text(LETOR)
    said = olrank_says("data", "info", tmp_path / "a.txt")
    assert said.code == 0
    assert "queries" in said.out
    assert "2" in said.out


def test_data_info_stops_at_a_bad_line_unless_told_to_skip_it(olrank_says, tmp_path: Path):
    (tmp_path / "a.txt").write_text(LETOR + "1 qid 3 1:0.5\n")
    refused = olrank_says("data", "info", tmp_path / "a.txt")
    assert refused.code == 2
    assert "a.txt, line 4" in refused.err
    assert olrank_says("data", "info", "--bad-lines", "skip", tmp_path / "a.txt").code == 0


def test_data_check_of_an_empty_folder_fails_with_a_reason(olrank_says, tmp_path: Path):
    said = olrank_says("data", "check", tmp_path)
    assert said.code != 0
    assert said.out + said.err


def test_data_check_recognises_a_public_set(olrank_says, data_dir: Path):
    said = olrank_says("data", "check", data_dir / "MQ2008")
    assert said.code == 0
    assert "MQ2008" in said.out


def test_reproduce_passes_its_options_on_and_prints_what_was_written(
    olrank_says, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    given = {}

    def reproduce(data, out, **options):
        given.update(options, data=data, out=out)
        options["say"]("about 4 min")
        return [out / "claims.md"]

    monkeypatch.setattr(reproducing, "reproduce", reproduce)
    answer = olrank_says(
        "reproduce", "--quick", "--figure", "ratio", "--out", tmp_path, "--seeds", 3
    )
    assert answer.code == 0
    assert answer.out.strip() == str(tmp_path / "claims.md")
    assert "about 4 min" in answer.err
    assert (given["figure"], given["quick"], given["data"]) == ("ratio", True, None)
    assert (given["protocol"].seeds, given["protocol"].rounds) == (3, QUICK.rounds)


def test_a_folder_without_rows_has_no_figures(olrank_says, tmp_path: Path):
    answer = olrank_says("figures", tmp_path)
    assert answer.code == 2
    assert "rows.parquet: not there" in answer.err


def test_report_writes_tables_and_claims_beside_the_figures(olrank_says, tmp_path: Path):
    files.write_rows(made_rows(), tmp_path / "rows.parquet")
    answer = olrank_says("report", tmp_path)
    assert answer.code == 0
    for name in ("claims.md", "tables.md", "figures/learning.svg"):
        assert (tmp_path / name).is_file()
        assert name in answer.out


def test_pages_are_written_from_the_rows_of_experiments(olrank_says, tmp_path: Path):
    folder = tmp_path / "experiments" / "trial"
    files.write_rows(made_rows(), folder / "rows.parquet")
    (folder / "page.md").write_text("# Trial\n\n{{run seeds}} seeds\n")
    answer = olrank_says("pages", tmp_path / "experiments", "--docs", tmp_path / "docs")
    assert answer.code == 0
    assert (tmp_path / "docs" / "trial.md").read_text() == "# Trial\n\n2 seeds\n"
