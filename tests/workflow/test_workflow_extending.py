"""A surrogate added as docs/tutorial.md shows runs through training, attacks and tables."""

import re
import textwrap

import pandas as pd
from checkout import REPOSITORY, Checkout, tiny

BLOCK = re.compile(r"^ *```python\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
PACKAGE, OPTIONS = "cemlib/surrogates/__init__.py", "cemlib/config/surrogates.py"


def replaced(checkout: Checkout, source: str, old: str, new: str) -> None:
    path = checkout.root / source
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1, f"{source} should hold {old!r} once"
    path.write_text(text.replace(old, new), encoding="utf-8")


def add_spread(checkout: Checkout) -> None:
    """The page's own steps: a file, a line (and its import), and a section of options."""
    page = (REPOSITORY / "docs/tutorial.md").read_text(encoding="utf-8")
    surrogate, options = (textwrap.dedent(block) for block in BLOCK.findall(page)[:2])
    (checkout.root / "cemlib/surrogates/mine.py").write_text(surrogate, encoding="utf-8")
    table = "SURROGATES: dict[str, type[Surrogate]] = {\n"
    replaced(checkout, PACKAGE, table, f'{table}    "spread": Spread,\n')
    first = "from cemlib.surrogates.slot import"
    replaced(checkout, PACKAGE, first, f"from cemlib.surrogates.mine import Spread\n{first}")
    replaced(checkout, OPTIONS, "AnySurrogate = ", f"{options}\n\nAnySurrogate = ")
    replaced(checkout, OPTIONS, " | OfMoments,\n", " | OfMoments | Spread,\n")


def test_an_added_surrogate_runs_to_the_tables(finished: Checkout) -> None:
    add_spread(finished)
    spread = {"surrogate": {"name": "spread", "lambda": 0.1}}
    # The decoder would be a process more; the closed-form attacks share one.
    finished.configure(tiny(defences={"spread": spread}, attacks={"decoder": None}))
    outcome = finished.snakemake("results/tiny/tables/summary.csv")
    assert outcome.code == 0, outcome.output
    assert outcome.runs("train") == outcome.runs("attack_closed_form") == {("spread", "0")}
    summary = pd.read_csv(finished.results / "tables/summary.csv")
    worst = summary[(summary["defence"] == "spread") & (summary["attack"] == "worst_case")]
    assert list(worst["n_seeds"]) == [1, 1]
    assert worst["mse_mean"].between(0, 1).all()
    history = (finished.results / "runs/spread/seed0/history.jsonl").read_text()
    assert '"surrogate/classes": 10.0' in history


FIT = """
    refit = 1

    def fit(self, z: Tensor, y: Tensor) -> None:
        self.register_buffer("mean", z[y == y[0]].mean(0))
"""
OFTEN = {"prepare": 1, "judge": 1, "train clustering": 1, "train spread": 1}
OFTEN |= {"attack decoder": 2, "attack closed_form": 2}
ROW = re.compile(r"^(\w+(?: \w+)?) +(\d+) +([\d,.]+) +([\d,.]+) +([\d,]+) +\S+$", re.MULTILINE)
WITHIN = 1.5  # a job's peak of memory is told within this factor


def number(text: str) -> float:
    return float(text.replace(",", ""))


def test_a_study_with_it_is_estimated(finished: Checkout) -> None:
    """By the steps and the fit that it takes; memory as the jobs of the finished study took it."""
    add_spread(finished)
    finished.append("cemlib/surrogates/mine.py", FIT)
    defences = {"wild": None, "spread": {"surrogate": "spread"}}
    facts = finished.results / "data/data.json"
    before = facts.read_bytes()
    # To be prepared, but not in their place.
    finished.configure(tiny(defences=defences, data={"train_limit": 190}))
    told = finished.cemlib("estimate", "--config", "study.yaml", "--slots", "2")
    rows = {kind: [*map(number, row)] for kind, *row in ROW.findall(told)}
    assert {kind: jobs for kind, (jobs, *_) in rows.items()} == OFTEN
    assert all(seconds > 0 and peak > 100 for _, seconds, _, peak in rows.values())
    assert facts.read_bytes() == before
    run = "runs/clustering/seed0"
    places = {"judge": "judge", "train clustering": run}
    for kind, place in (places | {"attack decoder": f"{run}/attacks/decoder-public_data"}).items():
        took = finished.metrics(place)["peak_memory_mb"]
        assert 1 / WITHIN < rows[kind][-1] / took < WITHIN, kind
