"""`cemlib bench`: one JSON object, tables or a figure, of the parts asked for."""

import json
from pathlib import Path

import pytest

import cemlib.bench.run
from cemlib.bench.scale import PARTS
from cemlib.cli import main

ROOT = Path(__file__).parents[2]
SMALL = ("--repeats", "1", "--samples", "200", "--steps", "1")


def only_error(capsys: pytest.CaptureFixture[str]) -> str:
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    return line


def test_the_parts_that_can_be_asked_for_are_those_that_are_measured() -> None:
    assert tuple(cemlib.bench.run.MEASURED) == PARTS


def test_the_command_prints_one_json_object(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--json", "--part", "client", *SMALL]) == 0
    found = json.loads(capsys.readouterr().out)
    scale = found["scale"]
    assert (scale["network"], scale["dim"], scale["samples"]) == ("vgg11", 512, 200)
    assert set(found) == {"machine", "scale", "matrix_rates", "seconds", "client"}


def test_a_study_decides_the_network(capsys: pytest.CaptureFixture[str]) -> None:
    study = str(ROOT / "config/config.yaml")
    parts = ["--part", "metrics", "--part", "client"]
    assert main(["bench", "--json", "--config", study, *parts, *SMALL]) == 0
    found = json.loads(capsys.readouterr().out)
    scale = found["scale"]
    assert (scale["network"], scale["image_size"], scale["dim"]) == ("small", 16, 512)
    assert {"metrics", "client"} < set(found)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--figure", "costs.pdf"], "--figure costs.pdf: ends in '.pdf'; name a .png or .svg file"),
        (["--figure", "costs.png", "--part", "fits"], "add --part scaling"),
        (["--config", "nowhere.yaml"], "nowhere.yaml: no such configuration file"),
    ],
)
def test_what_cannot_be_done_is_refused_at_once(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", *arguments]) == 2
    assert said in only_error(capsys)


def test_an_unknown_part_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["bench", "--part", "everything"])
    assert "invalid choice: 'everything'" in capsys.readouterr().err
