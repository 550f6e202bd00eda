"""What a reader sees of an uploaded study: on the pages of a real server, and what they read."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from browsing import opened
from PIL import Image
from toy_study import CONFIG, Store, Study

from cemlib.files import FileError
from cemlib.layout import Layout
from cemlib.marks import MARK, NOTE
from cemlib.seal import write_sealed

RUN = "runs/mine/seed0"
ATTACK = f"{RUN}/attacks/decoder-train_data"
CHECKSUM = "d" * 64
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
    """One run of a defence with a name of its own, an attack on it, and their images."""
    study.add_run("mine", 0, config=SETTINGS, data_sha256=CHECKSUM)
    attacked = SETTINGS | {"attack": {"epochs": 1, "kind": "decoder"}}
    study.add_attack("mine", 0, "decoder", config=attacked, queries=4, converged=False)
    facts = {"sha256": CHECKSUM, "counts": {"train": 180, "test": 100}, "source": {"kind": "toy"}}
    shape = {"image_shape": [1, 16, 16], "classes": ["0", "1"]}
    write_sealed(Layout(study.root).prepared_facts, facts | shape)
    return study


def test_tags_say_what_a_defence_is_made_of(filled: Study, store: Store) -> None:
    filled.track()
    tags = store.runs()[RUN].data.tags
    wanted = {"data": "digits", "model": "small", "surrogate": "gated", "channel": "dropout"}
    assert {name: tags[name] for name in (*wanted, "penalty")} == wanted | {"penalty": "none"}
    attack = store.runs()[ATTACK].data.tags
    assert (attack["surrogate"], attack["queries"], attack["converged"]) == ("gated", "4", "no")
    described = attack["mlflow.note.content"]
    assert described.count(MARK) == 4  # MSE, SSIM, PSNR and the note
    assert NOTE in described


def test_the_filters_of_the_description_find_what_they_say(filled: Study, store: Store) -> None:
    filled.add_run("other", 0, status="failed", reason="it diverged", top1=None)
    filled.track()
    experiment = [store.experiment().experiment_id]
    for query, folders in {
        "tags.kind = 'run'": {RUN, "runs/other/seed0"},
        "tags.defence = 'mine' AND metrics.mse > 0": {ATTACK},
        "tags.surrogate = 'gated' AND tags.attack = 'decoder'": {ATTACK},
        "tags.status = 'failed'": {"runs/other/seed0"},
        "dataset.name = 'digits'": {RUN, ATTACK},
    }.items():
        found = store.client.search_runs(experiment, query)
        assert {run.data.tags["cemlib.folder"] for run in found} == folders, query


def test_the_filters_of_the_page_on_mlflow_work(filled: Study, store: Store) -> None:
    """Those of docs/mlflow.md, the run's own changed to the numbers of the toy study."""
    page = Path(__file__).parents[2] / "docs/mlflow.md"
    (block,) = re.findall(r"^```\n(tags.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)
    filled.track()
    experiment = [store.experiment().experiment_id]
    queries = [
        line.replace("clustering", "mine").replace(".95", ".8") for line in block.split("\n")
    ]
    found = [store.client.search_runs(experiment, query) for query in queries if query]
    folders = [[run.data.tags["cemlib.folder"] for run in runs] for runs in found]
    assert folders == [[ATTACK], [ATTACK], [RUN]]


def test_an_attack_has_the_accuracy_of_the_run_it_was_made_on(filled: Study, store: Store) -> None:
    filled.track()
    assert store.runs()[ATTACK].data.metrics["top1"] == 0.9
    filled.add_run("mine", 0, config=SETTINGS, top1=0.7)
    filled.track()
    assert store.runs()[ATTACK].data.metrics["top1"] == 0.7


def test_the_settings_of_training_stand_with_the_run_alone(filled: Study, store: Store) -> None:
    filled.track()
    runs = store.runs()
    assert {"train.lr", "data.source", "defence.noise_std"} <= set(runs[RUN].data.params)
    names = {"defence", "seed", "attack", "knowledge", "attack.epochs", "attack.kind"}
    assert set(runs[ATTACK].data.params) == names


def test_both_list_the_prepared_images(filled: Study, store: Store) -> None:
    filled.track()
    for folder, context in ((RUN, "training"), (ATTACK, "attack")):
        (entry,) = store.runs()[folder].inputs.dataset_inputs
        assert (entry.dataset.name, entry.dataset.digest) == ("digits", CHECKSUM[:16])
        assert json.loads(entry.dataset.profile)["num_rows"] == 180
        assert json.loads(entry.dataset.source) == {"sha256": CHECKSUM, "kind": "toy"}
        assert [(tag.key, tag.value) for tag in entry.tags] == [("mlflow.data.context", context)]


def test_pictures_are_named_as_by_log_image(filled: Study, store: Store, tmp_path: Path) -> None:
    filled.track()
    run = store.runs()[ATTACK]
    own = store.client.create_run(store.experiment().experiment_id).info.run_id
    with Image.open(filled.root / ATTACK / "reconstructions.png") as picture:
        store.client.log_image(own, picture, key="pictures/reconstructions", step=0)
    theirs = store.client.list_artifacts(own, "images")
    shape = {re.sub(r"timestamp\+\d+|[0-9a-f-]{36}", "_", file.path) for file in theirs}
    ours = {re.sub(r"timestamp\+\d+|[0-9a-f-]{36}", "_", f) for f in store.files(run, "images")}
    assert ours == shape
    assert (
        run.data.tags["mlflow.loggedImages"]
        == store.client.get_run(own).data.tags["mlflow.loggedImages"]
    )
    for name in store.files(run, "images"):
        found = store.client.download_artifacts(run.info.run_id, name, str(tmp_path))
        with Image.open(found) as shown:
            assert shown.size == (16, 8)


def test_a_picture_that_is_none_is_named(filled: Study) -> None:
    (filled.root / ATTACK / "reconstructions.png").write_bytes(b"no picture")
    with pytest.raises(FileError, match=r"reconstructions\.png: cannot be read as a picture"):
        filled.track()


def test_a_description_somebody_wrote_stays(filled: Study, store: Store) -> None:
    filled.track()
    experiment = store.experiment()
    assert (
        f"#/experiments/{experiment.experiment_id}/runs?" in experiment.tags["mlflow.note.content"]
    )
    store.client.set_experiment_tag(experiment.experiment_id, "mlflow.note.content", "mine")
    filled.track()
    assert store.experiment().tags["mlflow.note.content"] == "mine"


def test_every_column_and_chart_of_a_view_exists(filled: Study, store: Store) -> None:
    """A view with a misspelt name would be an empty column, silently."""
    filled.track()
    known = {f"curve/{name}" for name in ("train_ce", "surrogate", "val_leakage_nats")}
    known |= {"recon_top1", "reason"}  # which the toy study has not
    for run in store.runs().values():
        known |= set(run.data.metrics) | set(run.data.tags)
    views = [v for k, v in store.experiment().tags.items() if k.startswith("mlflow.sharedViewS")]
    assert len(views) == 5
    for view in map(json.loads, views):
        charts = view.get("compareRunCharts", [])
        names = [re.sub(r"^\w+\.`(.*)`$", r"\1", column) for column in view["selectedColumns"]]
        names += [chart[axis]["key"] for chart in charts for axis in ("xaxis", "yaxis")
                  if axis in chart]  # fmt: skip
        names += [chart["metricKey"] for chart in charts if "metricKey" in chart]
        assert set(names) <= known


@pytest.mark.slow
def test_the_pages_show_it(filled: Study, server: str) -> None:
    filled.uri, store = server, Store(server, "pages")
    filled.track("pages")
    identity = store.experiment().experiment_id
    attack = store.runs()[ATTACK].info.run_id
    with opened() as page:
        _the_run_page(page, f"{server}/#/experiments/{identity}/runs/{attack}")
        _the_views(page, f"{server}/#/experiments/{identity}/runs")


def _the_run_page(page: Any, address: str) -> None:
    page.goto(address)
    assert _width(page.locator("img[src*='path=reconstructions.png']").first) == 16
    page.get_by_text(f"digits ({CHECKSUM[:16]})").first.wait_for()
    text = page.locator("body").inner_text()
    for shown in ("0.01", "--defence mine --seed 0 --attack decoder", "surrogate", "gated"):
        assert shown in text
    page.goto(f"{address}/model-metrics")
    page.get_by_text("pictures/reconstructions").first.wait_for()
    assert _width(page.locator("img[src*='pictures~reconstructions']").first) == 16


def _width(picture: Any) -> int:
    """Pixels of a picture that has arrived and could be decoded."""
    picture.wait_for(state="attached")
    width: int = picture.evaluate("it => it.decode().then(() => it.naturalWidth)")
    return width


def _the_views(page: Any, address: str) -> None:
    page.goto(f"{address}?viewStateShareKey=attacks")
    page.get_by_role("columnheader", name="recon_top1").or_(
        page.get_by_role("columnheader", name="ssim")
    ).first.wait_for()
    page.get_by_text("decoder train_data").first.wait_for()
    assert page.get_by_text("mine seed0", exact=True).count() == 0
    page.goto(f"{address}?viewStateShareKey=tradeoff&compareRunsMode=CHART")
    page.locator(".js-plotly-plot").first.wait_for()
