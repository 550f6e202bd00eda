"""The results page in a real browser: small, dark, on paper, and by keyboard."""

import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from page_study import MARKUP, build, settings
from synthetic_study import Study

CHROMIUM = shutil.which("chromium")
playwright = pytest.importorskip("playwright.sync_api")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium here")

FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run")
WIDE, PHONE = {"width": 1280, "height": 900}, {"width": 375, "height": 800}
Page = Any  # playwright.sync_api.Page, which may be absent


@pytest.fixture(scope="module")
def address(paged: Study, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page of a study whose names and reasons are markup."""
    config = settings() | {"experiment": MARKUP}
    return build(paged, tmp_path_factory.mktemp("page") / "index.html", config).as_uri()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as program:
        browser = program.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield browser
        browser.close()


class Opened:
    """Opens the page, and notes what it fetches and complains of."""

    def __init__(self, browser: Any, address: str) -> None:
        self.browser, self.address = browser, address
        self.noted: list[str] = []

    def __call__(self, **options: Any) -> Page:
        page = self.browser.new_page(**({"viewport": WIDE} | options))
        page.on("console", lambda message: self.noted.append(message.text))
        page.on("pageerror", lambda error: self.noted.append(str(error)))
        page.on("request", lambda request: self.noted.append(request.url))
        page.on("dialog", lambda dialog: self.noted.append(dialog.message))
        page.goto(self.address)
        return page


@pytest.fixture
def opened(browser: Any, address: str) -> Iterator[Opened]:
    opened = Opened(browser, address)
    yield opened
    fetched = [text for text in opened.noted if not text.startswith("data:")]
    assert set(fetched) == {address}  # no other request, no word on the console, no dialog
    for context in browser.contexts:
        context.close()


@pytest.fixture
def page(opened: Opened) -> Page:
    return opened()


def test_a_phone_scrolls_down_only(opened: Opened) -> None:
    page = opened(viewport=PHONE)
    width = page.evaluate("document.documentElement.scrollWidth")
    assert width == PHONE["width"]
    page.evaluate("scrollTo(300, 0)")
    assert page.evaluate("scrollX") == 0


CONTRASTS = """selectors => selectors.map(selector => {
  const numbers = colour => colour.match(/[\\d.]+/g).map(Number);
  const light = colour => numbers(colour).slice(0, 3).map(v => v / 255)
    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const found = document.querySelector(selector);
  let ground = found;
  while (numbers(getComputedStyle(ground).backgroundColor)[3] === 0) ground = ground.parentElement;
  const a = light(getComputedStyle(found).color);
  const b = light(getComputedStyle(ground).backgroundColor);
  return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
})"""
TEXTS = ("h1", ".quiet", "dt", "dd", ".warning li", "nav a", "thead th", "tbody td")
TEXTS += ("figcaption", "summary", "footer p", "pre")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_contrasts_with_its_ground_as_wcag_asks(opened: Opened, scheme: str) -> None:
    page = opened(color_scheme=scheme)
    contrasts = dict(zip(TEXTS, page.evaluate(CONTRASTS, list(TEXTS)), strict=True))
    assert {text: ratio for text, ratio in contrasts.items() if ratio < 4.5} == {}
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(255, 255, 255)") == (scheme == "light")


def test_the_keyboard_opens_what_is_closed(page: Page) -> None:
    closed = page.locator("details:not([open]) table")
    hidden = closed.count()
    assert page.locator("#summary table:visible").count() == 2  # the worst case
    page.locator("#summary details:not([open]) summary").first.focus()
    page.keyboard.press("Enter")
    assert closed.count() == hidden - 1
    for name in ("accuracy_mse", "reconstructions-train_data"):
        assert page.locator(f"[data-figure='{name}']").is_visible()
    assert not page.locator("[data-figure='reconstructions-public_data']").is_visible()


def test_paper_has_no_menu(page: Page) -> None:
    page.emulate_media(media="print")
    assert not page.locator("nav").is_visible()
