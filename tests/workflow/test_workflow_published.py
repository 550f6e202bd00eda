"""`snakemake published` on a finished study: its tables beside what was published of them."""

import json

import pandas as pd
from checkout import Checkout, tiny


def publish(checkout: Checkout, name: str, config: str) -> None:
    place = checkout.root / "results/published" / name
    place.mkdir(parents=True)
    command = f"snakemake --cores 2 --configfile {config}"
    (place / "provenance.json").write_text(json.dumps({"command": command}))


def test_tables_are_made_again_and_their_differences_told(finished: Checkout) -> None:
    """One is whole, one needs every job; of one the images are not there, of one the file."""
    publish(finished, "tiny", "study.yaml")
    publish(finished, "more", "more.yaml")
    publish(finished, "away", "away.yaml")
    publish(finished, "gone", "gone.yaml")
    finished.configure({"extends": "study.yaml", "experiment": "more"}, "more.yaml")
    away = {"source": "folder", "root": "nowhere", "image_size": 16}
    finished.configure({**tiny(), "experiment": "away", "data": away}, "away.yaml")
    for name in ("runs", "summary"):
        table = pd.read_csv(finished.results / f"tables/{name}.csv")
        if name == "summary":
            table.loc[1, "mse_mean"] *= 2
        table.to_csv(finished.root / f"results/published/tiny/{name}.csv", index=False)
    plan = finished.plan("published")
    assert len(plan.runs("published_more_train")) == len(tiny()["defences"])
    assert {rule for rule in plan.rules if not rule.startswith("published_more_")} == {
        "published_tiny_compare"
    }
    assert "not published again: away: nowhere: no such folder" in plan.output
    assert "not published again: gone: gone.yaml: no such configuration file" in plan.output
    outcome = finished.snakemake("results/tiny/published.txt")
    assert outcome.code == 0, outcome.output
    assert outcome.rules == {"published_tiny_compare"}
    runs, summary = (finished.results / "published.txt").read_text().splitlines()
    assert runs == "runs.csv: equal"
    assert summary.startswith("summary.csv: mse_mean: 1 of ")
    assert f"  {summary}" in outcome.output
