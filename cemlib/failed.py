"""The failed results of a study: what diverged is finished, and gives no number."""

from collections.abc import Iterator

from cemlib.layout import KNOWLEDGES
from cemlib.plan import Plan
from cemlib.seal import read_sealed

_KEYS = ("status", "reason")


def failed_results(plan: Plan) -> Iterator[str]:
    """A line for each failed run and attack, with its reason, of the results that are there.

    Attacks on a failed run are not listed: they fail with it.

    Raises:
        FileError: if a result is damaged.
    """
    for defence in plan.defences():
        for seed in plan.seeds():
            yield from _of_run(plan, defence, seed)


def _of_run(plan: Plan, defence: str, seed: int) -> Iterator[str]:
    run, name = plan.layout.run(defence, seed), f"{defence} seed{seed}"
    kinds = [(attack, knowledge) for attack in plan.study.attacks for knowledge in KNOWLEDGES]
    places = {name: run.metrics}
    places |= {f"{a} {k} on {name}": run.attack(a, k).metrics for a, k in kinds}
    for job, metrics in places.items():
        found = read_sealed(metrics, _KEYS) if metrics.is_file() else {"status": "absent"}
        if found["status"] == "failed":
            yield f"failed: {job}: {found['reason']}"
            if metrics == run.metrics:
                return
