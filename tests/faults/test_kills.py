"""`kill -9` at random moments: the same command again ends with the same bits, and redoes nothing.

The moments are drawn from a seed: some epochs or batches after the first, or while a checkpoint is
written. The quick version kills a training of the tiny study; the others (`pytest -m slow`) kill
trainings and attacks, the runner, and Snakemake with and without its jobs.
"""

import random
import re
import shutil
from pathlib import Path

import killing
import pytest
from checkout import Checkout, Outcome
from result_files import bits
from tiny_study import tiny_plan, trained

from cemlib.records.layout import KNOWLEDGES
from cemlib.study.split import train_job
from cemlib.training.job import run as train

CONFIG = ("--config", "study.yaml")
CHOSEN = (*CONFIG, "--defence", "clustering", "--seed", "0")
SNAKEMAKE = ("--cores", "2", "--configfile", "study.yaml", "--quiet", "host")
RUN = "runs/clustering/seed0"


def test_a_training_killed_twice_ends_with_the_same_bits(tmp_path: Path) -> None:
    """Once while it writes a checkpoint, once at any moment."""
    settings = {"epochs": 40, "select": "best_val"}
    alone = trained(tmp_path / "alone", "clustering", **settings)
    results = tmp_path / "killed"
    plan = tiny_plan(results, **settings)
    for seed in (1, 0):  # whose first draws are 0.13, for a kill in a write, and 0.84
        victim = killing.start_training(results, epochs=40)
        killing.kill_at_random(victim, results / ".checkpoints", random.Random(seed))
    assert not plan.layout.run("clustering", 0).metrics.exists()
    train(train_job(plan, "clustering", 0))
    assert bits(plan.layout.run("clustering", 0).root) == bits(alone.root)
    assert not list((results / ".checkpoints").iterdir())


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """The study as the runner leaves it when nothing disturbs it, not to be changed."""
    place = killing.small_study(tmp_path_factory.mktemp("kills") / "base", killing.STUDY)
    place.cemlib("run", *CONFIG)
    return place


@pytest.mark.slow
@pytest.mark.parametrize(
    ("attack", "kills"),
    [(None, 6), ("decoder", 5), ("gan", 5), ("refinement", 4), ("denoised", 4)],
)
def test_a_job_killed_at_random_moments_ends_with_the_same_bits(
    base: Checkout, tmp_path: Path, attack: str | None, kills: int
) -> None:
    """A training, or an attack with both kinds of knowledge."""
    place, draws = base.copy(tmp_path / "copy"), random.Random(kills)
    kind = ("attack", *CHOSEN, "--attack", attack) if attack else ("train", *CHOSEN)
    for folder in [f"{RUN}/attacks/{attack}-{known}" for known in KNOWLEDGES] if attack else [RUN]:
        for file in (place.results / folder).glob("*.*"):
            file.unlink()
    before, checkpoints = killing.stamps(place.results), place.results.parent / ".checkpoints"
    for _ in range(kills):
        killing.kill_at_random(killing.start(place, *kind), checkpoints, draws)
    place.cemlib(*kind)
    assert bits(place.results) == bits(base.results)
    assert killing.stamps(place.results).items() >= before.items()
    assert not list(checkpoints.iterdir())


@pytest.mark.slow
def test_a_runner_killed_at_random_moments_goes_on(base: Checkout, tmp_path: Path) -> None:
    place, draws = base.copy(tmp_path / "copy"), random.Random(1)
    shutil.rmtree(place.results)
    checkpoints, done = place.results.parent / ".checkpoints", set[str]()
    for _ in range(5):
        runner = killing.start(place, "run", *CONFIG, "--slots", "2")
        killing.wait_for_write(runner, checkpoints, draws.randint(1, 10))
        finished = killing.carried_out(killing.kill(runner))
        assert not finished & done
        done |= finished
    rest = killing.carried_out(place.cemlib("run", *CONFIG, "--slots", "2"))
    assert not rest & done
    assert bits(place.results) == bits(base.results)
    assert not list(checkpoints.iterdir())


@pytest.mark.slow
def test_snakemake_killed_with_and_without_its_jobs_goes_on(base: Checkout, tmp_path: Path) -> None:
    """A job that outlives Snakemake is left to end; then `--unlock`, and the same command again."""
    place, draws = base.copy(tmp_path / "copy"), random.Random(2)
    shutil.rmtree(place.results)
    checkpoints, done = place.results.parent / ".checkpoints", {}
    for killed in (killing.kill_all, killing.kill_alone, killing.kill_all, killing.kill_all):
        workflow = killing.start(place, *SNAKEMAKE, module="snakemake")
        killing.wait_for_write(workflow, checkpoints, draws.randint(1, 10))
        finished = _finished(Outcome(0, killed(workflow)))
        assert killing.stamps(place.results).items() >= done.items()
        done |= {n: found for n, found in killing.stamps(place.results).items() if n in finished}
        assert place.snakemake("--unlock").code == 0
    assert place.snakemake().code == 0
    assert killing.stamps(place.results).items() >= done.items()
    assert bits(place.results) == bits(base.results)
    assert place.plan().jobs == []


def _finished(said: Outcome) -> set[str]:
    """Records of the jobs that Snakemake said were finished, below the results."""
    ids = re.findall(r"^Finished jobid: (\d+)", said.output, re.MULTILINE)
    written = [job.fields["output"] for job in said.jobs if job.fields["jobid"] in ids]
    files = [name for names in written for name in names.split(", ")]
    return {name.removeprefix("results/tiny/") for name in files if name.endswith("metrics.json")}
