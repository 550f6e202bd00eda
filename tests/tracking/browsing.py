"""MLflow's own pages in a real Chromium."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

OPTIONS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run")
# Of a reader who has clicked "Model training" and closed the assistant once.
SETTINGS = """
localStorage.setItem("mlflow.workflowType_v1", '"machine_learning"');
localStorage.setItem("mlflow.assistant.panelOpen_v1", '"false"');
"""
PATIENCE = 60_000  # milliseconds: a busy machine draws slowly


@contextmanager
def opened() -> Iterator[Any]:
    """A page of a new browser; the test is skipped where there is none."""
    sync = pytest.importorskip("playwright.sync_api")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("no chromium")
    with sync.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=chromium, args=list(OPTIONS))
        context = browser.new_context(viewport={"width": 1600, "height": 1400})
        context.add_init_script(SETTINGS)
        context.set_default_timeout(PATIENCE)
        yield context.new_page()
        browser.close()
