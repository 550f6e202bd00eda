"""Progress: whole lines, also in a log file."""

import re

import pytest

from cemlib.records.progress import progress

LINE = re.compile(r"train noise epoch (\d+)/4 (.*) \| (\d+) s, (\d+) s left")


def lines_of(capsys: pytest.CaptureFixture[str]) -> list[re.Match[str]]:
    said = capsys.readouterr()
    assert said.out == ""
    found = [LINE.fullmatch(line) for line in said.err.splitlines()]
    assert None not in found
    return [match for match in found if match is not None]


def test_a_log_gets_one_line_per_epoch(capsys: pytest.CaptureFixture[str]) -> None:
    report, lines = progress("train noise", 4), []
    for epoch in range(1, 5):
        report(epoch, {"loss": 0.5 / epoch, "val_top1": 0.123456, "missing": None})
        lines += lines_of(capsys)
    assert [int(line[1]) for line in lines] == [1, 2, 3, 4]
    assert lines[1][2] == "loss 0.25 val_top1 0.1235"
    assert lines[3][4] == "0"


def test_the_time_left_counts_this_process_only(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Resumed after epoch 2 of 4, 30 seconds for the third: 30 more for the fourth."""
    clock = iter([100.0, 130.0])
    monkeypatch.setattr("cemlib.records.progress.time.perf_counter", lambda: next(clock))
    progress("train noise", 4, done=2)(3, {"loss": 1.0})
    line = lines_of(capsys)[0]
    assert (line[3], line[4]) == ("30", "30")


def test_a_unit_has_its_own_name(capsys: pytest.CaptureFixture[str]) -> None:
    progress("pctc repeat 0", 15, unit="training")(2, {"top1": 0.5})
    assert capsys.readouterr().err.startswith("pctc repeat 0 training 2/15 top1 0.5 | ")
