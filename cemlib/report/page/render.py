"""The page as one HTML file: everything in it is text, and nothing in it is fetched."""

import base64
import hashlib

from jinja2 import Environment, StrictUndefined

from cemlib.files import finite
from cemlib.report.page import STYLE, TEMPLATE, scripts
from cemlib.report.page.contents import Page
from cemlib.report.style import readable


def render(page: Page) -> str:
    """The page; the same text for the same content.

    Every value is escaped where it is put in: as HTML, or in the data of the scripts as JSON that
    cannot end its element. The policy in the head lets a browser run the one script and apply the
    one style whose checksums it names, show pictures that are in the page, and fetch nothing.
    """
    style = STYLE.read_text(encoding="utf-8")
    script = "\n".join(path.read_text(encoding="utf-8") for path in scripts())
    template = _environment().from_string(TEMPLATE.read_text(encoding="utf-8"))
    return template.render(
        page=page,
        data=finite(page.data),
        style=style,
        script=script,
        policy=_policy(style, script),
    )


def _environment() -> Environment:
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["readable"] = readable
    environment.policies["json.dumps_kwargs"] = {"ensure_ascii": False, "separators": (",", ":")}
    return environment


def _policy(style: str, script: str) -> str:
    return (
        f"default-src 'none'; img-src data:; style-src {_digest(style)};"
        f" script-src {_digest(script)}; base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode('ascii')}'"
