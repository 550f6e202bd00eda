"""What a reader finds in an uploaded study: tags, filters, parameters, descriptions."""

import re
from pathlib import Path

import pytest
from toy_study import CONFIG, Store, Study

from cemlib.tracking.notes import describe_report

RUN = "runs/mine/seed0"
ATTACK = f"{RUN}/attacks/decoder-train_data"
SETTINGS = CONFIG | {
    "data": {"source": "digits", "image_size": 16},
    "model": {"name": "small", "cut": 3},
    "defence": {
        "noise_std": 0.1,
        "surrogate": {"name": "gated", "lambda": 8.0},
        "channel": {"name": "dropout"},
        "penalty": None,
    },
}


@pytest.fixture
def filled(study: Study) -> Study:
    """One run of a defence with a name of its own, and an attack on it."""
    study.add_run("mine", 0, config=SETTINGS)
    attacked = SETTINGS | {"attack": {"epochs": 1, "kind": "decoder"}}
    study.add_attack("mine", 0, "decoder", config=attacked, queries=4, converged=False)
    return study


def test_tags_and_parameters_say_what_was_made_of_what(filled: Study, store: Store) -> None:
    filled.track()
    tags = store.runs()[RUN].data.tags
    wanted = {"data": "digits", "model": "small", "surrogate": "gated", "channel": "dropout"}
    assert {name: tags[name] for name in (*wanted, "penalty")} == wanted | {"penalty": "none"}
    attack = store.runs()[ATTACK].data.tags
    assert (attack["surrogate"], attack["queries"], attack["converged"]) == ("gated", "4", "no")
    # The settings of the training stand with the run alone.
    names = {"defence", "seed", "attack", "knowledge", "attack.epochs", "attack.kind"}
    assert {"train.lr", "data.source", "defence.noise_std"} <= set(store.runs()[RUN].data.params)
    assert set(store.runs()[ATTACK].data.params) == names


def test_the_filters_of_the_page_on_mlflow_work(filled: Study, store: Store) -> None:
    """Those of docs/mlflow.md, with the toy study's defence and its numbers for the page's."""
    page = Path(__file__).parents[2] / "docs/mlflow.md"
    (block,) = re.findall(r"^```\n(tags.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)
    filled.add_attack("mine", 0, "decoder")  # on one release
    filled.track()
    experiment = [store.experiment().experiment_id]
    queries = [
        line.replace("clustering", "mine").replace(".95", ".8").replace("0.01", "0.001")
        for line in block.split("\n")
    ]
    found = [store.client.search_runs(experiment, query) for query in queries if query]
    folders = [[run.data.tags["cemlib.folder"] for run in runs] for runs in found]
    assert folders == [[ATTACK], [ATTACK], [RUN], [RUN]]


@pytest.fixture
def attacked(study: Study) -> Study:
    """A run under two attacks with each knowledge, and one that sees four releases."""
    for name, mse, ssim, identified in (("decoder", 0.01, 0.5, 0.6), ("linear", 0.02, 0.7, 0.8)):
        study.add_attack("mine", 0, name, mse=mse, ssim=ssim, recon_top1=identified)
        study.add_attack("mine", 0, name, knowledge="public_data", mse=2 * mse, recon_top1=None)
    study.add_attack("mine", 0, "often", queries=4, mse=0.001, recon_top1=1.0)
    return study


WORST = {
    "worst_case/train_data/mse": 0.01,
    "worst_case/train_data/ssim": 0.5,
    "worst_case/train_data/identified": 0.8,
    "worst_case/train_data/unconverged": 0.0,
    "worst_case/public_data/mse": 0.02,
    "worst_case/public_data/ssim": 0.5,
    "worst_case/public_data/unconverged": 0.0,
}


def worst(store: Store) -> dict[str, float]:
    """Worst case of the run, as the store has it; what is not known any more is NaN."""
    metrics = store.runs()[RUN].data.metrics
    return {k: v for k, v in metrics.items() if k.startswith("worst_case") and v == v}


def test_a_run_has_the_worst_case_over_its_attacks(attacked: Study, store: Store) -> None:
    attacked.track()
    assert worst(store) == WORST
    assert attacked.track().unchanged == 6


def test_the_worst_case_follows_the_attacks(attacked: Study, store: Store) -> None:
    """It comes when all have ended, in the same run, and goes where one failed."""
    late = attacked.add_attack("mine", 0, "late", mse=0.005, recon_top1=0.1)
    late.metrics.unlink()
    attacked.track()
    before = store.runs()["runs/mine/seed0"]
    assert worst(store) == {}
    attacked.add_attack("mine", 0, "late", mse=0.005, recon_top1=0.1, converged=False)
    assert attacked.track().uploaded == 2  # it, and what it changes of the run
    changed = {"worst_case/train_data/mse": 0.005, "worst_case/train_data/unconverged": 1.0}
    assert worst(store) == WORST | changed
    attacked.add_attack("mine", 0, "late", status="failed", reason="it diverged")
    attacked.track()
    assert worst(store) == {k: v for k, v in WORST.items() if "public" in k}
    after = store.runs()["runs/mine/seed0"]
    assert after.info.run_id == before.info.run_id
    assert attacked.track().unchanged == 7


def test_a_report_begins_with_the_main_table_of_its_system() -> None:
    accuracy, tradeoff = b"# Accuracy\n\n| a | b |", b"# Curves"
    files = {"tables/accuracy.md": accuracy, "tables/tradeoff.md": tradeoff}
    told = describe_report("pctc", files)
    assert told.split("\n\n", 1)[1] == "# Accuracy\n\n| a | b |\n\n# Curves"


def test_a_description_somebody_wrote_stays(filled: Study, store: Store) -> None:
    filled.track()
    experiment = store.experiment()
    assert "`curve/...`" in experiment.tags["mlflow.note.content"]
    store.client.set_experiment_tag(experiment.experiment_id, "mlflow.note.content", "mine")
    filled.track()
    assert store.experiment().tags["mlflow.note.content"] == "mine"
