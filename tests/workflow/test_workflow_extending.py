"""A surrogate added as docs/tutorial.md shows runs through training, attacks and tables."""

import re
import subprocess
import sys
import textwrap

import pandas as pd
from checkout import REPOSITORY, Checkout, tiny

BLOCK = re.compile(r"^ *```python\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
ROOM, OPTIONS = "cemlib/surrogates/__init__.py", "cemlib/config/surrogates.py"


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
    replaced(checkout, ROOM, table, f'{table}    "spread": Spread,\n')
    first = "from cemlib.surrogates.slot import"
    replaced(checkout, ROOM, first, f"from cemlib.surrogates.mine import Spread\n{first}")
    replaced(checkout, OPTIONS, "AnySurrogate = ", f"{options}\n\nAnySurrogate = ")
    replaced(checkout, OPTIONS, "        | LogDet\n", "        | LogDet\n        | Spread\n")


def test_an_added_surrogate_runs_to_the_tables(finished: Checkout) -> None:
    add_spread(finished)
    config = tiny()
    config["defences"]["spread"] = {"surrogate": {"name": "spread", "lambda": 0.1}}
    for learned in ("decoder", "refinement"):  # a process each; the closed-form attacks share one
        del config["attacks"][learned]
    finished.configure(config)
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
    fits = True

    def fit(self, z: Tensor, y: Tensor) -> None:
        self.register_buffer("mean", z[y == y[0]].mean(0))
"""


def test_an_added_surrogate_is_estimated(fresh: Checkout) -> None:
    """By the steps and the fit that it takes; nothing else says what it costs."""
    add_spread(fresh)
    fresh.append("cemlib/surrogates/mine.py", FIT)
    defences = {"noise": {}, "spread": {"surrogate": "spread"}}
    fresh.configure(tiny() | {"defences": defences, "attacks": {"mean_image": {}}})
    command = [sys.executable, "-m", "cemlib", "estimate", "--config", "study.yaml"]
    done = subprocess.run(
        [*command, "--device", "cpu"],
        cwd=fresh.root,
        env=fresh.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = re.search(r"^train spread +1 +([\d.]+) ", done.stdout, re.MULTILINE)
    assert found, done.stdout
    assert float(found[1]) > 0
