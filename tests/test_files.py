"""Result files: whole or absent, checked when read."""

import math
from pathlib import Path

import pytest

from cemlib.records.files import (
    FileError,
    atomic,
    load_tensors,
    read_json,
    write_json,
)


def test_an_interrupted_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")

    def interrupted() -> None:
        with atomic(path) as temporary:
            temporary.write_text("half of the n")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_json_round_trip_with_numbers_json_does_not_know(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "a.json"
    write_json(path, {"a": math.inf, "b": [math.nan, 1.5], "c": "ü"})
    assert read_json(path) == {"a": None, "b": [None, 1.5], "c": "ü"}


@pytest.mark.parametrize("read", [read_json, load_tensors])
def test_a_missing_or_damaged_file_is_named(read: object, tmp_path: Path) -> None:
    path = tmp_path / "result"
    with pytest.raises(FileError, match="result: no such file; run the job"):
        read(path)
    for damaged in (b"\x08\x00\x00\x00\x00\x00\x00\x00{broken", b"[" * 100_000):
        path.write_bytes(damaged)
        with pytest.raises(FileError, match=r"result: not .*; delete it and rerun"):
            read(path)
