"""Execute a notebook's cells in order, as Jupyter does.

`python tests/notebook_cells.py NOTEBOOK` keeps the outputs, but for progress (standard error).
"""

import ast
import base64
import json
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

Cell = dict[str, Any]


def execute(path: Path) -> tuple[list[Cell], dict[str, Any]]:
    """Return the code cells with the outputs that they have now, and the names that they leave."""
    names: dict[str, Any] = {"__name__": "__main__"}
    cells = [c for c in json.loads(path.read_text())["cells"] if c["cell_type"] == "code"]
    return [_executed(cell, number, names) for number, cell in enumerate(cells, 1)], names


def _executed(cell: Cell, number: int, names: dict[str, Any]) -> Cell:
    tree, last = ast.parse("".join(cell["source"])), None
    if isinstance(tree.body[-1], ast.Expr):
        last = ast.Expression(tree.body.pop().value)
    place, text, outputs = f"cell {number}", StringIO(), []
    with redirect_stdout(text):
        exec(compile(tree, place, "exec"), names)
        value = None if last is None else eval(compile(last, place, "eval"), names)
    if text.getvalue():
        outputs.append({"output_type": "stream", "name": "stdout", "text": text.getvalue()})
    if value is not None:
        result = {"output_type": "execute_result", "metadata": {}, "execution_count": number}
        outputs.append(result | {"data": _shown(value)})
    return cell | {"execution_count": number, "outputs": outputs}


def _shown(value: Any) -> dict[str, str]:
    if hasattr(value, "_repr_png_"):
        return {"image/png": base64.b64encode(value._repr_png_()).decode()}
    return {"text/plain": repr(value)}


if __name__ == "__main__":
    notebook = Path(sys.argv[1])
    document = json.loads(notebook.read_text())
    done = iter(execute(notebook)[0])
    document["cells"] = [
        next(done) if cell["cell_type"] == "code" else cell for cell in document["cells"]
    ]
    notebook.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
