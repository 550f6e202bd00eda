"""A copy of the repository in which the tests start Snakemake and edit what they like."""

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from cemlib.config.extending import merged

REPOSITORY = Path(__file__).parents[2]
PARTS = ("Snakefile", "workflow", "profiles", "config", "cemlib")
TINY = REPOSITORY / "tests/configs/tiny.yaml"
STUDY = "study.yaml"
BLOCK = re.compile(r"^(?:local)?rule (\w+):\n((?:    .*\n)*)", re.MULTILINE)
FIELD = re.compile(r"^    (\w+): (.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Job:
    """One job as Snakemake announces it."""

    rule: str
    wildcards: dict[str, str]
    fields: dict[str, str] = field(compare=False)

    @property
    def defence(self) -> str | None:
        return self.wildcards.get("defence")


@dataclass(frozen=True)
class Outcome:
    """What a call of Snakemake returned and printed."""

    code: int
    output: str

    @property
    def jobs(self) -> list[Job]:
        """The jobs it announced, without the targets that only collect files."""
        found = [_job(*match.groups()) for match in BLOCK.finditer(self.output)]
        return [job for job in found if "log" in job.fields]

    def of(self, rule: str) -> list[Job]:
        return [job for job in self.jobs if job.rule == rule]

    def runs(self, rule: str) -> set[tuple[str | None, str | None]]:
        """(defence, seed) of a rule's jobs; the same job twice is a fault of the plan."""
        found = [tuple(sorted(job.wildcards.items())) for job in self.of(rule)]
        assert len(found) == len(set(found)), found
        return {(job.defence, job.wildcards.get("seed")) for job in self.of(rule)}

    def attacks(self) -> set[str]:
        """Names of the learned attacks that run."""
        return {job.wildcards["attack"] for job in self.of("attack")}

    @property
    def rules(self) -> set[str]:
        return {job.rule for job in self.jobs}


class Checkout:
    """A folder with the workflow and the library, apart from the repository."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.results = root / "results/tiny"

    @classmethod
    def create(cls, root: Path) -> "Checkout":
        root.mkdir()
        for part in PARTS:
            source = REPOSITORY / part
            if source.is_dir():
                shutil.copytree(source, root / part, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy2(source, root / part)
        return cls(root)

    def copy(self, root: Path) -> "Checkout":
        """The same with everything finished so far, Snakemake's own records included."""
        ignored = shutil.ignore_patterns("mlflow.db*", "mlartifacts", "__pycache__")
        shutil.copytree(self.root, root, ignore=ignored, symlinks=True)
        return type(self)(root)

    def configure(self, config: dict[str, Any], name: str = STUDY) -> None:
        (self.root / name).write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")

    def append(self, source: str, text: str = "\n# a remark\n") -> None:
        with (self.root / source).open("a", encoding="utf-8") as handle:
            handle.write(text)

    def snakemake(
        self, *arguments: str, config: str | None = STUDY, brief: bool = False
    ) -> Outcome:
        """Start Snakemake; targets come first, since its options take all words that follow.

        Args:
            arguments: Targets and options.
            config: The study; None for the embedded one.
            brief: Whether it says no more than the profile asks for.
        """
        chosen = [] if config is None else ["--configfile", config]
        chosen += [] if brief else ["--quiet", "host"]
        words = ("snakemake", *arguments, "--cores", "2", *chosen)
        done = self.python(*words, stderr=subprocess.STDOUT, timeout=1800)
        return Outcome(done.returncode, done.stdout)

    def cemlib(self, *arguments: str) -> str:
        """What a command prints, which must succeed."""
        done = self.python("cemlib", *arguments, stderr=subprocess.PIPE, timeout=600)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def python(self, *words: str, **options: Any) -> "subprocess.CompletedProcess[str]":
        """Run a module of this checkout's to its end."""
        options |= {"cwd": self.root, "env": self.environment(), "stdout": subprocess.PIPE}
        return subprocess.run([sys.executable, "-m", *words], text=True, check=False, **options)

    def plan(self, *arguments: str, config: str | None = STUDY) -> Outcome:
        """What Snakemake would do."""
        outcome = self.snakemake(*arguments, "--dry-run", config=config)
        assert outcome.code == 0, outcome.output
        return outcome

    def environment(self) -> dict[str, str]:
        """The copy is imported, and nothing of the tester's settings reaches it."""
        ours = ("CEMLIB_", "MLFLOW_", "SNAKEMAKE_", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        place = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        return kept | {"PATH": place, "PYTHONPATH": str(self.root)}

    def metrics(self, folder: str) -> dict[str, Any]:
        return json.loads((self.results / folder / "metrics.json").read_text())

    def listing(self, folder: Path) -> set[str]:
        return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def tiny(**changes: Any) -> dict[str, Any]:
    """The tiny study with one seed, one learned attack, and two defences, of which one diverges.

    And with the changes merged in. Every defence costs three processes that import torch.
    """
    config: dict[str, Any] = yaml.safe_load(TINY.read_text(encoding="utf-8"))
    wild = {"surrogate": {"name": "slot", "lambda": 1.0e15, "scale": 1.0e15}}
    defences = {"clustering": config["defences"]["clustering"], "wild": wild}
    del config["attacks"]["refinement"]
    ours = config | {"seeds": [0], "reference": "clustering", "defences": defences}
    return merged(ours, changes)


def _job(rule: str, body: str) -> Job:
    fields = dict(FIELD.findall(body))
    pairs = (pair.split("=", 1) for pair in fields.get("wildcards", "").split(", ") if pair)
    return Job(rule, dict(pairs), fields)
