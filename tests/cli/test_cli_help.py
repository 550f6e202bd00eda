"""What the parser tells: `--help`, the page of commands, and completion by a shell."""

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from cemlib.cli import options, parsers
from cemlib.cli.commands import COMMANDS
from cemlib.cli.options import DEFAULT_STORE
from cemlib.records.layout import KNOWLEDGES
from docs.generated import commands_page

ROOT = Path(__file__).parents[2]
TAB = """
eval "$(register-python-argcomplete cemlib)"
COMP_LINE="cemlib {words}"
COMP_POINT=${{#COMP_LINE}}
COMP_WORDBREAKS=$' \\t\\n"\\'><=;|&(:'
COMP_TYPE=9
_python_argcomplete cemlib
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def pressed(words: str) -> list[str]:
    """What a real bash offers when Tab is pressed after these words."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "--norc", "-c", TAB.format(words=words)],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env=os.environ | {"PATH": path},
    )
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("pctc pa", ["party"]),
        ("train --defence cl", ["clustering"]),
        ("attack --config config/digits_attacks.yaml --attack op", ["optimisation"]),
        ("show clustering/seed0/mean", [f"clustering/seed0/mean_image-{k}" for k in KNOWLEDGES]),
        ("show --config config/federated.yaml none/seed0/dlg", ["none/seed0/dlg-ignored"]),
        ("run --config config/pctc.yaml --only co", ["cost"]),
        ("train --config missing.yaml --defence ", []),
    ],
)
def test_bash_completes(words: str, offered: list[str]) -> None:
    assert pressed(words) == offered


def test_the_committed_page_is_the_parsers(monkeypatch: pytest.MonkeyPatch) -> None:
    """`make reference` writes it anew."""
    committed = (ROOT / "docs/commands.md").read_text()
    assert committed == commands_page()
    monkeypatch.setenv("COLUMNS", "40")
    assert committed == commands_page()


@pytest.mark.parametrize("name", COMMANDS)
def test_options_have_a_help_and_examples_are_calls_that_the_parser_takes(name: str) -> None:
    assert all(option.settings["help"] for option in COMMANDS[name].options)
    for example in COMMANDS[name].examples:
        program, *words = example.split()
        parsed = parsers()["cemlib"].parse_args(words)
        assert program == "cemlib"
        assert words[: len(name.split())] == name.split()
        assert parsed.command is COMMANDS[name].run
        files = [value for value in vars(parsed).values() if isinstance(value, Path)]
        assert all((ROOT / file).is_file() for file in files if file.suffix == ".yaml")


@pytest.mark.parametrize(
    ("variable", "store"), [("", DEFAULT_STORE), ("http://here", "http://here")]
)
def test_the_store_is_that_of_the_environment_unless_it_is_empty(
    monkeypatch: pytest.MonkeyPatch, variable: str, store: str
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", variable)
    fresh = runpy.run_path(options.__file__)  # the variable is read on import
    assert fresh["URI"].settings["default"] == store
