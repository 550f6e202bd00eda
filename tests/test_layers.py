"""A module imports only from lower layers, as docs/structure.md lists them."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROW = re.compile(r"^\| (\d+) \| (`.*?) \|", re.MULTILINE)


def floors() -> dict[str, int]:
    rows = ROW.findall((ROOT / "docs/structure.md").read_text(encoding="utf-8"))
    return {name: int(floor) for floor, names in rows for name in re.findall(r"`(\w+)`", names)}


def imports(file: Path) -> Iterator[str]:
    """Packages that a file imports, also within its functions."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("cemlib."):
            yield node.module.split(".")[1]
        elif isinstance(node, ast.ImportFrom) and node.module == "cemlib":
            yield from (alias.name for alias in node.names if not alias.name.startswith("_"))


def test_a_module_imports_only_from_floors_below_its_own() -> None:
    known = floors()
    files = (path for path in (ROOT / "cemlib").iterdir() if path.is_dir() or path.suffix == ".py")
    assert {path.stem for path in files if not path.name.startswith("_")} == set(known)
    for file in (ROOT / "cemlib").rglob("*.py"):
        package = file.relative_to(ROOT / "cemlib").parts[0].removesuffix(".py")
        above = {other for other in imports(file) if other != package and package in known}
        allowed = {other for other in above if known[other] < known[package]}
        assert above == allowed, f"{file}: {above - allowed}"
