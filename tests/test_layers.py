"""A module imports only from lower layers, as docs/structure.md lists them."""

import re
from pathlib import Path

from cemlib.records.provenance import _imports

ROOT = Path(__file__).parents[1]
ROW = re.compile(r"^\| (\d+) \| (`.*?) \|", re.MULTILINE)


def floors() -> dict[str, int]:
    rows = ROW.findall((ROOT / "docs/structure.md").read_text(encoding="utf-8"))
    return {name: int(floor) for floor, names in rows for name in re.findall(r"`(\w+)`", names)}


def test_a_module_imports_only_from_floors_below_its_own() -> None:
    known = floors()
    files = (path for path in (ROOT / "cemlib").iterdir() if path.is_dir() or path.suffix == ".py")
    assert {path.stem for path in files if not path.name.startswith("_")} == set(known)
    for file in (ROOT / "cemlib").rglob("*.py"):
        package = file.relative_to(ROOT / "cemlib").parts[0].removesuffix(".py")
        module = ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        found = {name.split(".")[1] for name in _imports(module)}
        above = {other for other in found if other != package and package in known}
        allowed = {other for other in above if known[other] < known[package]}
        assert above == allowed, f"{file}: {above - allowed}"
