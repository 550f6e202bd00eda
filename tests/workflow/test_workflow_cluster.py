"""What Snakemake asks a cluster for, by an executor of its own kind that carries nothing out.

It stands for Slurm's, which is installed only where there is a Slurm.
"""

import re

import pytest
import yaml
from checkout import REPOSITORY, TINY, Checkout

from cemlib.study.rules import JobRule, Planned
from cemlib.study.systems import read_study

DEFAULT, SLURM = (
    yaml.safe_load((REPOSITORY / f"profiles/{name}/config.yaml").read_text(encoding="utf-8"))
    for name in ("default", "slurm")
)
EXECUTOR = """
from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor
from snakemake_interface_executor_plugins.settings import CommonSettings

common_settings = CommonSettings(
    non_local_exec=True, implies_no_shared_fs=False, job_deploy_sources=False
)


class Executor(RemoteExecutor):
    def run_job(self, job):
        self.report_job_error(SubmittedJobInfo(job))

    async def check_active_jobs(self, active_jobs):
        for job in active_jobs:
            yield job

    def cancel_jobs(self, active_jobs):
        pass
"""
ASKED = re.compile(r"rule prepare:(?s:.*?)resources: .*?mem_mb=(\d+)")
JOB = re.compile(r"^rule (\w+):(?s:.*?)^    resources: (.*)$", re.MULTILINE)


@pytest.fixture
def cluster(fresh: Checkout) -> Checkout:
    """A checkout whose profile is that for Slurm, but for the executor and its own options."""
    plugin = fresh.root / "snakemake_executor_plugin_refusing"
    plugin.mkdir()
    (plugin / "__init__.py").write_text(EXECUTOR)
    kept = {key: value for key, value in SLURM.items() if not key.startswith("slurm-")}
    place = fresh.root / "profiles/refusing"
    place.mkdir()
    (place / "config.yaml").write_text(yaml.safe_dump(kept | {"executor": "refusing"}))
    return fresh


def test_a_job_that_fails_is_tried_again_with_twice_the_memory(cluster: Checkout) -> None:
    """One retry suffices here; the profile asks for two."""
    assert SLURM["retries"] == 2
    options = ["--workflow-profile", "profiles/refusing", "--seconds-between-status-checks", "1"]
    outcome = cluster.snakemake("prepare", *options, "--retries", "1")
    assert ASKED.findall(outcome.output) == ["4000", "8000"], outcome.output


def test_every_job_of_a_study_says_what_it_needs(cluster: Checkout) -> None:
    cluster.configure(yaml.safe_load(TINY.read_text()))
    outcome = cluster.plan("--workflow-profile", "profiles/refusing")
    asked = dict(JOB.findall(outcome.output))
    assert {"prepare", "train", "judge", "attack", "attack_closed_form", "tables"} <= set(asked)
    assert all("mem_mb=" in found and "runtime=" in found for found in asked.values()), asked
    assert "mem_mb=2000," in asked["train"]
    assert "gpu=1" in asked["train"]


def test_it_says_all_that_the_profile_says_which_it_replaces() -> None:
    assert {name: SLURM.get(name) for name in DEFAULT} == DEFAULT


def test_it_names_every_rule_with_a_card_and_none_that_is_not_there() -> None:
    """A renamed rule would run with the times of a short one, and one forgotten without a card."""
    rules: list[JobRule] = []
    for system, prefix in (("config", ""), ("pctc", "pctc_"), ("federated", "federated_")):
        file = REPOSITORY / f"config/{system}.yaml"
        rules += Planned(system, prefix, *read_study(file), file).rules
    asked = SLURM["set-resources"]
    assert set(asked) <= {rule.name for rule in rules}
    cards = {rule.name for rule in rules if rule.gpu}
    assert {name for name, resources in asked.items() if "gpu" in resources} == cards
