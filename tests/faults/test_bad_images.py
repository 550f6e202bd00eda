"""Image folders with things wrong: prepared as they are, or refused by name."""

import json
import random
import shutil
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from broken_folders import DAMAGES, write_folder
from deadlines import watchdog
from short_study import STUDY, configure

from cemlib.cli import main
from cemlib.config.data import DataConfig
from cemlib.data.images import SUFFIXES
from cemlib.data.prepare import prepare
from cemlib.data.prepared import Prepared, load, save
from cemlib.data.raw import DataError, shown

FEW, MANY = 40, 540


def broken(root: Path, chance: random.Random) -> list[str]:
    """Write a folder with none to three damages; return their names."""
    write_folder(root, chance)
    names = chance.sample(sorted(DAMAGES), chance.choice([0, 1, 1, 1, 2, 2, 3]))
    for name in names:
        DAMAGES[name](root, chance)
    return names


def settings(root: Path, chance: random.Random) -> DataConfig:
    return DataConfig(
        source="folder",
        root=str(root),
        image_size=chance.choice([8, 16]),
        channels=chance.choice([None, None, 1, 3]),
        min_per_class=chance.choice([1, 1, 5]),
        test_fraction=chance.choice([0.25, 0.5]),
    )


def images_of(root: Path) -> Iterator[Path]:
    """What a reader of the documentation would expect to be read."""
    both = (root / "train").is_dir() and (root / "test").is_dir()
    for place in (root / "train", root / "test") if both else (root,):
        for folder in (e for e in place.iterdir() if e.is_dir() and e.name[0] != "."):
            yield from (f for f in folder.iterdir() if f.name[0] != "." and _is_image(f))


def _is_image(path: Path) -> bool:
    return path.name.lower().endswith(tuple(SUFFIXES))


def check_refusal(message: str, root: Path) -> None:
    """Every line is fit to be shown, and begins with a place, or counts those that follow."""
    first, *lines = message.split("\n")
    assert message.replace("\n", "").isprintable()
    assert len(message) < 4000
    if first.endswith(" damaged images:"):
        count, rest = int(first.split()[0]), int(lines.pop().split()[1]) if len(lines) > 5 else 0
        assert count == len(lines) + rest
    else:
        lines = [first, *lines]
    assert [line for line in lines if not line.startswith(shown(root))] == []


def check_prepared(root: Path, out: Path, config: DataConfig, made: Prepared) -> None:
    """What was written can be read again, is whole, and has the shapes and counts it must have."""
    assert {path.name for path in out.iterdir()} == {"prepared.safetensors", "data.json"}
    found, parts = load(out), made.parts()
    channels = found.image_shape[0]
    assert found.image_shape == (channels, config.image_size, config.image_size)
    assert channels == (config.channels or channels)
    assert sum(len(part) for part in parts.values()) == len([*images_of(root)])
    for name, part in found.parts().items():
        assert part.images.shape == (len(part), *found.image_shape)
        assert part.images.equal(parts[name].images)
        assert part.labels.equal(parts[name].labels)
        assert set(part.labels.tolist()) <= set(range(len(found.classes)))
    assert set(found.test.labels.tolist()) == set(range(len(found.classes)))
    trained = [*found.train.images.tolist(), *found.val.images.tolist()]
    twice = sum(image in trained for image in found.test.images.tolist())
    assert json.loads((out / "data.json").read_text())["duplicates_train_test"] == twice


def outcome(root: Path, out: Path, config: DataConfig) -> str:
    with watchdog():
        try:
            made = quietly(config)
        except DataError as error:
            check_refusal(str(error), root)
            return "refused"
        save(made, out)
    check_prepared(root, out, config, made)
    return "used"


def quietly(config: DataConfig) -> Prepared:
    """Prepare without a warning that names no file."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            return prepare(config)
        finally:
            assert [str(warning.message) for warning in warned] == []


@pytest.mark.parametrize(
    "seeds", [range(FEW), pytest.param(range(FEW, FEW + MANY), marks=pytest.mark.slow)], ids=len
)
def test_a_broken_folder_is_used_whole_or_refused_by_name(tmp_path: Path, seeds: range) -> None:
    became, met = Counter[str](), Counter[str]()
    for seed in seeds:
        chance, place = random.Random(seed), tmp_path / f"{seed}"
        met.update(names := broken(place / "images", chance))
        try:
            became[
                outcome(place / "images", place / "out", settings(place / "images", chance))
            ] += 1
        except BaseException as error:
            error.add_note(f"seed {seed}: {names}")
            raise
        shutil.rmtree(place)
    assert min(became["used"], became["refused"]) > len(seeds) / 10
    assert len(seeds) < MANY or set(met) == set(DAMAGES)


USED = {"duplicated", "hidden", "hidden folder", "long name", "no image", "no UTF-8", "stray file"}
USED |= {"upper case", "wrong suffix"}
EITHER = {"flipped", "truncated", "part lost", "one image", "class lost"}
EITHER |= {"class escape", "class renamed"}  # in train and test, or in a pool


@pytest.mark.parametrize("name", sorted(DAMAGES))
def test_each_damage_alone(tmp_path: Path, name: str) -> None:
    became = set()
    for seed in range(3):
        root, chance = tmp_path / f"{seed}/images", random.Random(seed)
        write_folder(root, chance)
        DAMAGES[name](root, chance)
        config = DataConfig(source="folder", root=str(root), image_size=8, min_per_class=2)
        became.add(outcome(root, tmp_path / f"{seed}/out", config))
    assert name in EITHER or became == ({"used"} if name in USED else {"refused"})


# What the line must name; none of it may write to the terminal or break the line.
NAMED = {
    "claimed": "pixels",
    "pipe": "pipe.png",
    "no UTF-8, broken": "/\\udcff\\n.png",
    "escape": "/\\x1b[2J\\nerror: nothing.png",
    "class no UTF-8": "/\\udcff",
    "class gone": "/gone",
    "one colour": "images: channel 0",
}


@pytest.mark.parametrize("name", NAMED)
def test_the_command_names_the_place_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write_folder(tmp_path / "images", random.Random(1))
    DAMAGES[name](tmp_path / "images", random.Random(1))
    assert main(prepare_command(tmp_path)) == 2
    said = capfd.readouterr()
    assert said.out == ""
    (line,) = said.err.splitlines()
    assert line.startswith("error: images")
    assert NAMED[name] in line
    assert not (tmp_path / "results").exists()


def test_duplicates_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_folder(tmp_path / "images", random.Random(1))
    source = next((tmp_path / "images/train/a").iterdir())
    copy = Path(shutil.copy(source, f"images/test/b/again{source.suffix}"))
    assert main(prepare_command(tmp_path)) == 0
    warning = "warning: 1 of 7 test images are equal to a training or validation image"
    assert capfd.readouterr().out.splitlines()[-1].startswith(warning)
    facts = json.loads(Path("results/short/data/data.json").read_text())
    assert facts["duplicates_train_test"] == 1
    copy.unlink()
    assert main(prepare_command(tmp_path)) == 0
    said = capfd.readouterr()
    assert "warning" not in said.out + said.err


def prepare_command(folder: Path) -> list[str]:
    data = {"source": "folder", "root": "images", "image_size": 8}
    return ["prepare", *configure(folder, STUDY | {"data": data})]
