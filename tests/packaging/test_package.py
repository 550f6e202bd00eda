"""What is built for others: complete, typed, and usable where there is nothing else."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest
import short_study
import yaml

from cemlib import __version__

REPOSITORY = Path(__file__).parents[2]
UV = Path(sys.executable).with_name("uv")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a wheel and a source distribution, built from a copy of the sources."""
    place = tmp_path_factory.mktemp("package")
    for part in ("pyproject.toml", "README.md", "LICENSE", "cemlib"):
        source, ignored = REPOSITORY / part, shutil.ignore_patterns("__pycache__")
        copy = shutil.copytree if source.is_dir() else shutil.copy2
        copy(source, place / part, **({"ignore": ignored} if source.is_dir() else {}))
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", "dist"]
    subprocess.run(command, cwd=place, check=True, capture_output=True)
    return place / "dist"


def only(folder: Path, pattern: str) -> Path:
    (found,) = folder.glob(pattern)
    return found


def in_the_package() -> set[str]:
    """Files of the library, byte code left out."""
    files = (path for path in (REPOSITORY / "cemlib").rglob("*") if path.is_file())
    return {str(p.relative_to(REPOSITORY)) for p in files if "__pycache__" not in p.parts}


def test_the_wheel_has_every_file_of_the_library_and_nothing_else(built: Path) -> None:
    with zipfile.ZipFile(only(built, "*.whl")) as wheel:
        files = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert files == in_the_package()
    assert "cemlib/py.typed" in files


def test_the_source_distribution_has_what_builds_the_wheel(built: Path) -> None:
    with tarfile.open(only(built, "*.tar.gz")) as source:
        files = {name.partition("/")[2] for name in source.getnames()}
    assert in_the_package() | {"pyproject.toml", "README.md", "LICENSE"} <= files


def test_the_version_has_one_place(built: Path) -> None:
    with zipfile.ZipFile(only(built, "*.whl")) as wheel:
        (name,) = (n for n in wheel.namelist() if n.endswith(".dist-info/METADATA"))
        told = Parser().parsestr(wheel.read(name).decode())["Version"]
    citation = yaml.safe_load((REPOSITORY / "CITATION.cff").read_text())["version"]
    assert told == citation == __version__


@pytest.mark.slow
@pytest.mark.skipif(not UV.exists(), reason="uv installs torch in seconds where it was before")
def test_the_wheel_works_in_an_environment_without_extras(built: Path, tmp_path: Path) -> None:
    place = tmp_path / "empty"
    subprocess.run([UV, "venv", "--quiet", "--python", sys.executable, place], check=True)
    python, lock = place / "bin/python", REPOSITORY / "requirements.lock"
    wheel = only(built, "*.whl")
    # The lock as constraints: the tested versions, and only those that the wheel asks for.
    words = [UV, "pip", "install", "--quiet", "--python", python, "--constraint", lock, wheel]
    subprocess.run(words, check=True)
    kept = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}

    def said(*command: str) -> str:
        called = [place / "bin" / command[0], *command[1:]]
        done = subprocess.run(called, cwd=tmp_path, env=kept, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert said("cemlib", "--version").split() == ["cemlib", __version__]
    absent = (
        "import importlib.util as u; print([n for n in ('snakemake', 'mlflow') if u.find_spec(n)])"
    )
    assert said("python", "-c", absent).strip() == "[]"
    study = short_study.STUDY | {"attacks": {"linear": {}, "mean_image": {}}}
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(study))
    said("cemlib", "run", "--config", "study.yaml", "--device", "cpu")
    assert (tmp_path / "results/short/tables/summary.csv").read_text().count("\n") > 3


def test_the_image_has_what_the_lock_has() -> None:
    """Every file that the Dockerfile copies exists, and it installs what the lock lists."""
    text = (REPOSITORY / "Dockerfile").read_text()
    lines = [line.partition(" ") for line in text.splitlines() if line and line[0] != "#"]
    copied = [rest.split()[:-1] for word, _, rest in lines if word == "COPY"]
    assert all((REPOSITORY / source).exists() for sources in copied for source in sources)
    installed = [rest for word, _, rest in lines if word == "RUN"]
    assert "--require-hashes -r requirements.lock" in installed[0]
    (image,) = re.findall(r'^container: "(.*)"$', (REPOSITORY / "Snakefile").read_text(), re.M)
    assert f"apptainer build {image} " in text
