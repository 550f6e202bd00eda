"""Which source files decide which job, and which module may import which."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

from cemlib.config import parse
from cemlib.config.extending import merged
from cemlib.config.load import parse_any
from cemlib.records import provenance as records
from cemlib.records.files import FileError
from cemlib.study.job import prepare_job
from cemlib.study.plan import Plan
from cemlib.study.split import attack_job, train_job
from cemlib.study.systems import jobs_of, read_study

ROOT = records.PACKAGE.parent
MODULES = {
    ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): file
    for file in records.PACKAGE.rglob("*.py")
}
STUDY = {
    "experiment": "test",
    "data": {"source": "digits", "image_size": 16},
    "model": {"name": "small"},
    "defences": {
        "noise": {},
        "gated": {"surrogate": "gated"},
        "clustering": {"surrogate": "clustering"},
        "dropped": {"channel": "dropout", "penalty": "nopeek"},
    },
    "attacks": {"decoder": {}, "linear": {}},
}
PLAN = Plan(parse(STUDY))


# Settings, and modules that decide no number.
NEUTRAL = ("config", "study", "records.layout", "records.progress", "records.provenance")


def trained(defence: str) -> list[Path]:
    return [*train_job(PLAN, defence, 0).sources]


def attacked(defence: str, attack: str) -> list[Path]:
    return [*attack_job(PLAN, defence, 0, [attack]).sources]


def names(files: Iterable[Path]) -> set[str]:
    return {file.relative_to(records.PACKAGE).as_posix() for file in files}


def test_a_surrogate_concerns_its_own_training_alone() -> None:
    gated, noise = names(trained("gated")), names(trained("noise"))
    assert "surrogates/gated.py" in gated
    assert "surrogates/clustering.py" not in gated
    assert not any(name.startswith("surrogates/") for name in noise - {"surrogates/base.py"})
    expected = {"training/trainer.py", "models/stacks.py", "models/split.py", "numerics/seeds.py"}
    assert expected <= noise
    assert {"models/resnet.py", "data/folder.py", "attacks/decoder.py"}.isdisjoint(gated)


def test_an_attack_concerns_its_own_jobs_alone() -> None:
    decoder, linear = (names(attacked("noise", attack)) for attack in ("decoder", "linear"))
    assert {"attacks/decoder.py", "models/decoder.py", "metrics.py"} <= decoder
    others = {"attacks/decoder.py", "attacks/learning.py", "training/trainer.py"}
    assert others.isdisjoint(linear)


def test_a_channel_concerns_what_releases_through_it() -> None:
    channel, penalty = "defences/channels/dropout.py", "defences/penalties/nopeek.py"
    assert {channel, penalty} <= names(trained("dropped"))
    assert channel in names(attacked("dropped", "linear"))
    for files in (trained("noise"), attacked("noise", "linear")):
        assert {channel, penalty}.isdisjoint(names(files))


@pytest.mark.parametrize(
    ("study", "source", "kinds"),
    [
        ("config", "training/trainer.py", {"judge", "train"}),
        ("config", "report/style.py", {"tables", "figures", "training_figures", "page"}),
        ("config", "evaluation/report.py", {"tables", "figures", "training_figures", "page"}),
        ("config", "report/page.css", {"page"}),
        ("federated", "federated/inversion/gradients.py", {"attack", "report"}),
        ("federated", "federated/gan.py", {"gans", "train", "attack"}),
        ("federated", "federated/mask.py", {"train", "attack", "report"}),
        ("pctc", "labelling/accounting.py", {"repeat", "report"}),
    ],
)
def test_a_source_concerns_these_kinds_of_jobs(study: str, source: str, kinds: set[str]) -> None:
    _, jobs = read_study(ROOT / f"config/{study}.yaml")
    assert {job.kind for job in jobs if records.PACKAGE / source in job.sources} == kinds


@pytest.mark.parametrize(
    ("system", "change", "names"),
    [
        (  # the GANs decide nothing where no image is mixed
            *("federated", {"gan": {"epochs": 3}}),
            {"gans/seed0", "train/both/seed0", "attack/both/seed0"},
        ),
        (
            *("federated", {"inversion": {"images": 2}}),
            {f"attack/{variant}/seed0" for variant in ("none", "both", "dp_sgd")},
        ),
        ("pctc", {"cost": {"images": 3}}, {"cost"}),  # the timing decides no accuracy
    ],
)
def test_a_setting_concerns_these_jobs(system: str, change: Any, names: set[str]) -> None:
    raw = yaml.safe_load((ROOT / f"tests/configs/tiny_{system}.yaml").read_text())
    plans = [Plan(parse_any(merged(raw, each))) for each in ({}, change)]
    pairs = zip(*map(jobs_of, plans), strict=True)
    assert {one.name for one, other in pairs if one.settings != other.settings} == names


def test_a_new_plug_in_changes_no_fingerprint() -> None:
    """The dict of a plug-in package is no source of any job: a new line in it reruns nothing."""
    files = trained("gated") + attacked("noise", "decoder")
    packages = {f"{place.replace('.', '/')}/__init__.py" for place, _ in records.PLUG_INS.values()}
    assert not names([*files, *prepare_job(PLAN).sources]) & packages


def test_the_followed_imports_cover_what_python_loads() -> None:
    """Every module of the package that a training imports is a source, a plug-in or neutral."""
    code = "import sys, cemlib.training.job; print(*(m for m in sys.modules if 'cemlib.' in m))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    # Importing a package of plug-ins imports all of them, with what each needs for itself.
    arl = records.source_files("cemlib.defences.penalties.base", penalties="arl")
    local_dp = records.source_files("cemlib.defences.channels.base", channels="local_dp")
    sources = names([*trained("noise"), *arl, *local_dp])
    left_out = tuple(
        f"{name}." for name in (*NEUTRAL, *(place for place, _ in records.PLUG_INS.values()))
    )
    for module in (name.removeprefix("cemlib.") for name in done.stdout.split()):
        path = f"{module.replace('.', '/')}.py"
        is_package = not (records.PACKAGE / path).exists()
        assert is_package or f"{module}.".startswith(left_out) or path in sources, module


def test_the_pattern_finds_the_imports_of_the_syntax_tree() -> None:
    for module, file in MODULES.items():
        named = set[str]()
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                named.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{file}: a relative import"
                named.update((str(node.module), *(f"{node.module}.{a.name}" for a in node.names)))
        assert {*records._imports(module)} == (named & MODULES.keys()) - {"cemlib"}, file


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder in the place of the package."""
    monkeypatch.setattr(records, "PACKAGE", tmp_path)
    return tmp_path


def test_imports_over_several_lines_and_within_functions_are_followed(package: Path) -> None:
    (package / "begin.py").write_text(
        "from cemlib import (\n    one as other,  # the first\n    two,\n)\n\n\n"
        "def late():\n    import cemlib.three\n\n    from cemlib.four import five\n"
    )
    for name in ("one", "two", "three", "four", "five"):
        (package / f"{name}.py").touch()
    found = {file.stem for file in records.source_files("cemlib.begin")}
    assert found == {"begin", "one", "two", "three", "four"}


def test_a_relative_import_is_refused(package: Path) -> None:
    """It would not be followed, and an edit of that file would rerun nothing."""
    (package / "relative.py").write_text("def late():\n    from .one import two\n")
    with pytest.raises(FileError, match=r"relative\.py: relative imports are not"):
        records.source_files("cemlib.relative")


def test_a_member_that_its_module_does_not_define_has_no_docstring() -> None:
    assert records.Member("cemlib.records.provenance", "Member").docstring.startswith("An entry of")
    assert records.Member("cemlib.records.provenance", "Path").docstring == ""


@pytest.mark.parametrize(
    ("line", "value", "found"),
    [
        ("from cemlib.attacks.one import two", "two", ("cemlib.attacks.one", "two")),
        ("from cemlib.attacks.one import two as three", "three", ("cemlib.attacks.one", "two")),
        ("from cemlib.attacks import one", "one.two", None),
    ],
)
def test_a_member_comes_from_the_module_that_it_is_imported_from(
    package: Path, line: str, value: str, found: tuple[str, str] | None
) -> None:
    (package / "attacks").mkdir()
    (package / "attacks/__init__.py").write_text(f'{line}\n\nATTACKS = {{"mine": {value}}}\n')
    if found is None:
        with pytest.raises(FileError, match=r"ATTACKS: import one\.two by its name"):
            records.members("attacks")
    else:
        assert records.members("attacks") == {"mine": records.Member(*found)}


def test_an_unknown_member_is_named() -> None:
    with pytest.raises(FileError, match="SURROGATES has no entry 'nothing'"):
        records.source_files("cemlib.training.job", surrogates="nothing")


def test_a_fingerprint_is_of_names_and_contents(package: Path) -> None:
    one, other = package / "one.py", package / "other.py"
    one.write_text("x = 1\n")
    other.write_text("x = 2\n")
    found = records.fingerprint([one, other])
    assert records.fingerprint([other, one]) == found
    assert records.fingerprint([one]) != found
    one.write_text("x = 10\n")  # of another size, since files are read again only if they changed
    assert records.fingerprint([one, other]) != found


def test_provenance_is_of_the_code_that_a_process_read_first(package: Path) -> None:
    file = package / "first.py"
    file.write_text("x = 1\n")
    before = records.fingerprint([file])
    records.remember([file])
    file.write_text("x = 10\n")
    assert (
        records.provenance([file], "cpu", 1)["fingerprint"] == before != records.fingerprint([file])
    )


def test_pages_and_published_tables_do_not_make_code_dirty(tmp_path: Path) -> None:
    """A checkout that holds the package, in which one file after the other is changed."""
    changes = ["results/published/map/runs.csv", "docs/index.md", "README.md", "config/map.yaml"]
    for name in ("cemlib/__init__.py", *changes):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("1\n")
    own = ("-c", "user.name=a", "-c", "user.email=a@b")
    for words in (("init", "-q"), ("add", "."), (*own, "commit", "-qm", "all")):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    found = []
    for name in changes:
        (tmp_path / name).write_text("2\n")
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(records, "PACKAGE", tmp_path / "cemlib")
            found.append(records.git_state.__wrapped__()["dirty"])
    assert found == [False, False, False, True]


def test_no_job_lists_a_file_twice() -> None:
    """Snakemake would run it again when the list changes."""
    for job in jobs_of(PLAN):
        for files in job.inputs.values():
            assert len({*files}) == len(files)


def test_peak_memory_is_that_since_it_was_forgotten() -> None:
    if not Path("/proc/self/clear_refs").exists():
        pytest.skip("only Linux forgets it")
    held = b"x" * (300 * 2**20)
    largest = records.peak_memory_mb()
    del held
    records.forget_peak_memory()
    assert records.peak_memory_mb() < largest - 200


def test_a_module_imports_only_from_layers_below_its_own() -> None:
    """As docs/structure.md lists them."""
    page = (ROOT / "docs/structure.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| (`.*?) \|", page, re.MULTILINE)
    known = {name: int(layer) for layer, names in rows for name in re.findall(r"`(\w+)`", names)}
    packages = {module: module.split(".")[1] for module in MODULES if "." in module}
    assert {name for name in packages.values() if name[0] != "_"} == known.keys()
    for module, package in packages.items():
        found = {name.split(".")[1] for name in records._imports(module)} - {package}
        above = {other for other in found if package in known and known[other] >= known[package]}
        assert not above, f"{module}: {above}"
