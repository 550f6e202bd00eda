"""A decoder killed in the middle of its training ends with the same bits."""

import shutil
from pathlib import Path

import pytest
from killed_job import first_epoch_shown, kill_after
from result_files import bits
from tiny_study import judged, tiny_plan, trained

from cemlib.evaluation.job import run as attack
from cemlib.records.layout import KNOWLEDGES
from cemlib.study.split import attack_job


@pytest.mark.parametrize(
    "knowledge", [pytest.param("train_data", marks=pytest.mark.slow), "public_data"]
)
def test_a_killed_decoder_ends_with_the_same_bits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], knowledge: str
) -> None:
    """And trains nothing twice: the first is not begun again if it dies in the second."""
    results = [tmp_path / name for name in ("alone", "killed")]
    trained(results[0], "noise", epochs=1, select="last")
    judged(results[0], epochs=1, select="last")
    shutil.copytree(*results)
    plans = [tiny_plan(place, epochs=1, select="last") for place in results]
    jobs = [attack_job(plan, "noise", 0, ["decoder"], "cpu") for plan in plans]
    alone = list(attack(jobs[0]))
    kill_after(5, "attack", str(results[1]), "noise", "1", "last", title=knowledge)
    written = alone[KNOWLEDGES.index(knowledge)].relative_to(results[0])
    assert not (results[1] / written).exists()
    capsys.readouterr()
    resumed = list(attack(jobs[1]))
    shown = capsys.readouterr().err
    assert knowledge in shown.splitlines()[0]
    assert first_epoch_shown(shown) > 5
    for one, other in zip(alone, resumed, strict=True):
        assert bits(one.parent) == bits(other.parent)
    assert not list((results[1] / ".checkpoints").iterdir())
