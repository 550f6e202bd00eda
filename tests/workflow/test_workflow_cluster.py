"""What Snakemake asks a cluster for, by an executor of its own kind that carries nothing out."""

import re

import pytest
from checkout import Checkout

from cemlib.memory.workflow import LEAST

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


@pytest.fixture
def asked(fresh: Checkout) -> Checkout:
    plugin = fresh.root / "snakemake_executor_plugin_refusing"
    plugin.mkdir()
    (plugin / "__init__.py").write_text(EXECUTOR)
    return fresh


def test_a_cluster_is_asked_for_the_estimate(asked: Checkout) -> None:
    outcome = asked.snakemake("prepare", "--executor", "refusing", "--jobs", "1")
    found = ASKED.search(outcome.output)
    assert found, outcome.output
    assert int(found[1]) == LEAST  # of the small digits, of which less is estimated


def test_here_the_rules_say_it(fresh: Checkout) -> None:
    found = ASKED.search(fresh.plan("prepare").output)
    assert found
    assert int(found[1]) > LEAST
