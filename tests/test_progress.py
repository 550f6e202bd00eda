"""Progress: whole lines in a log file, a bar that moves on a terminal."""

import os
import pty
import re
import sys
import termios
from contextlib import suppress

import pytest

from cemlib.records.progress import progress

LINE = re.compile(r"train noise \[(#* *)\] epoch (\d+)/4 (.*) \| (\d+) s, (\d+) s left")


def lines_of(capsys: pytest.CaptureFixture[str]) -> list[re.Match[str]]:
    said = capsys.readouterr()
    assert said.out == ""
    found = [LINE.fullmatch(line) for line in said.err.splitlines()]
    assert None not in found
    return [match for match in found if match is not None]


def test_a_log_gets_one_line_per_epoch(capsys: pytest.CaptureFixture[str]) -> None:
    lines = []
    with progress("train noise", 4) as report:
        for epoch in range(1, 5):
            report(epoch, {"loss": 0.5 / epoch, "val_top1": 0.123456, "missing": None})
            lines += lines_of(capsys)
    assert [int(line[2]) for line in lines] == [1, 2, 3, 4]
    assert [line[1].count("#") for line in lines] == [5, 10, 15, 20]
    assert {len(line[1]) for line in lines} == {20}
    assert lines[1][3] == "loss 0.25 val_top1 0.1235"
    assert lines[3][5] == "0"


def test_the_time_left_counts_this_process_only(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Resumed after epoch 2 of 4, 30 seconds for the third: 30 more for the fourth."""
    clock = iter([100.0, 130.0])
    monkeypatch.setattr("cemlib.records.progress.time.perf_counter", lambda: next(clock))
    with progress("train noise", 4, done=2) as report:
        report(3, {"loss": 1.0})
    line = lines_of(capsys)[0]
    assert (line[4], line[5]) == ("30", "30")


def on_a_terminal(monkeypatch: pytest.MonkeyPatch, done: int) -> str:
    """What four epochs write to a terminal of 100 columns."""
    master, slave = pty.openpty()
    termios.tcsetwinsize(slave, (24, 100))
    with os.fdopen(slave, "w") as terminal, monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", terminal)
        with progress("train noise", 4, done=done) as report:
            for epoch in range(done + 1, 5):
                report(epoch, {"loss": 0.5 / epoch})
    written = b""
    with suppress(OSError):  # how Linux says that the other side is closed
        while part := os.read(master, 4096):
            written += part
    os.close(master)
    return written.decode()


@pytest.mark.parametrize("done", [0, 2])
def test_a_terminal_gets_a_bar(monkeypatch: pytest.MonkeyPatch, done: int) -> None:
    written = on_a_terminal(monkeypatch, done)
    assert f"{done}/4" in written.split("\r")[1]
    assert "4/4" in written
    assert "100%" in written
    assert "train noise" in written
    assert "loss 0.125" in written
    assert written.count("\n") == 1  # the bar moves in place and ends its line at the end
    assert "left" not in written
