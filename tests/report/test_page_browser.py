"""The results page in a real browser: by mouse and by keyboard, small, dark, without scripts."""

import base64
import shutil
from collections.abc import Iterator
from io import BytesIO
from typing import Any

import numpy as np
import pandas as pd
import pytest
from page_study import CLASSES, MARKUP, build, page_study, settings
from PIL import Image
from synthetic_study import EPOCHS, Study

from cemlib.report.grid import read_strip

CHROMIUM = shutil.which("chromium")
playwright = pytest.importorskip("playwright.sync_api")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium here")

FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run")
WIDE, PHONE = {"width": 1280, "height": 900}, {"width": 375, "height": 800}
Page = Any  # playwright.sync_api.Page, which may be absent


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    return page_study(tmp_path_factory.mktemp("results") / "synthetic")


@pytest.fixture(scope="module")
def address(study: Study) -> str:
    """The page of a study whose names and reasons are markup."""
    config = settings() | {"experiment": MARKUP}
    return build(study, study.root / "index.html", config).as_uri()


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


def column(page: Page, title: str) -> list[str]:
    """What a column of the summary is sorted by, in the rows that are shown."""
    heads = page.locator("#summary-table thead th").all_text_contents()
    place = next(i for i, head in enumerate(heads) if head.startswith(title))
    cells = page.locator(f"#summary-table tbody tr:not([hidden]) > :nth-child({place + 1})")
    return [cell.get_attribute("data-order") or "" for cell in cells.all()]


def button(page: Page, title: str) -> Any:
    return page.locator("#summary-table thead").get_by_role("button", name=title)


def is_sorted(values: list[str], reverse: bool = False) -> bool:
    present = [float(value) for value in values if value]
    return present == sorted(present, reverse=reverse) and "" not in values[: len(present)]


def test_a_click_sorts_by_a_column_and_another_turns_it(page: Page) -> None:
    page.select_option("#filter-attack", "")
    assert not is_sorted(column(page, "MSE"))
    head = button(page, "MSE").locator("..")
    for direction, reverse in (("ascending", False), ("descending", True)):
        button(page, "MSE").click()
        assert head.get_attribute("aria-sort") == direction
        values = column(page, "MSE")
        assert is_sorted(values, reverse)
        assert len(set(values)) > 12


def test_the_keyboard_sorts_and_one_column_says_so(page: Page) -> None:
    button(page, "MSE").click()
    button(page, "Leakage").focus()
    page.keyboard.press("Enter")
    values = column(page, "Leakage")
    assert is_sorted(values)
    assert values[-1] == "inf"
    assert page.locator("[aria-sort]").count() == 1
    button(page, "Defence").focus()
    page.keyboard.press("Space")
    names = column(page, "Defence")
    assert names == sorted(names)


def test_filters_leave_the_rows_that_fit_and_count_them(page: Page) -> None:
    rows = page.locator("#summary-table tbody tr:not([hidden])")
    assert rows.count() == 6  # the worst case, to begin with
    page.select_option("#filter-knowledge", "public_data")
    page.select_option("#filter-attack", "decoder")
    assert [row.get_attribute("data-attack") for row in rows.all()] == ["decoder"] * 3
    assert page.locator("#filter-count").text_content() == "3 of 24 rows"
    page.select_option("#filter-attack", "")
    assert rows.count() == 12


def pixels(source: str | None) -> np.ndarray:
    content = base64.b64decode(str(source).partition(",")[2])
    return np.asarray(Image.open(BytesIO(content)).convert("RGB"))


def strip(study: Study, defence: str, seed: int, attack: str) -> list[np.ndarray]:
    """Reconstructions of an attack, as large as they are in the page."""
    folder = study.root / f"runs/{defence}/seed{seed}/attacks/{attack}"
    return [picture[::2, ::2] for picture in read_strip(folder / "reconstructions.png")[1]]


def test_the_gallery_shows_the_chosen_attack(page: Page, study: Study) -> None:
    page.select_option("#shown-attack", "linear")
    page.select_option("#shown-knowledge", "public_data")
    page.select_option("#shown-seed", "1")
    rows = page.locator("#shown .row")
    assert rows.count() == 4
    drawn = [pixels(i.get_attribute("src")) for i in rows.nth(2).locator("img").all()]
    np.testing.assert_array_equal(drawn, strip(study, "noise", 1, "linear-public_data"))
    failed = rows.nth(3)
    assert failed.locator("img").count() == 0
    assert f"failed: {MARKUP}" in str(failed.text_content())


def test_arrows_move_between_images_and_choose_what_is_compared(page: Page, study: Study) -> None:
    first = page.locator("#shown .tile[data-defence='none']").first
    first.click()
    for key in ("ArrowRight", "ArrowRight", "ArrowDown", "ArrowLeft"):
        page.keyboard.press(key)
    chosen = page.locator("#shown [aria-pressed='true']")
    assert chosen.count() == 1
    assert chosen.evaluate("tile => [tile.dataset.defence, tile.dataset.place]") == ["noise", "1"]
    assert chosen.evaluate("tile => tile === document.activeElement")
    assert page.locator("#shown [tabindex='0']").count() == 1
    expected = strip(study, "noise", 0, "decoder-train_data")[1]
    source = page.locator("#wipe-right").get_attribute("src")
    np.testing.assert_array_equal(pixels(source), expected)
    assert "Right noise: MSE 0.0" in str(page.locator("#wipe-words").text_content())


def test_the_slider_wipes_by_the_keyboard(page: Page) -> None:
    clip = "getComputedStyle(document.getElementById('wipe-left')).clipPath"
    page.locator("#wipe-at").focus()
    page.keyboard.press("Home")
    hidden = page.evaluate(clip)
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    assert page.locator("#wipe-at").input_value() == "3"
    assert "97%" in page.evaluate(clip)
    assert "100%" in hidden


def test_the_explorer_shows_the_ends_of_the_scores(page: Page, study: Study) -> None:
    for key, value in (("defence", "noise"), ("attack", "linear"), ("seed", "1")):
        page.select_option(f"#ends-{key}", value)
    folder = study.root / "runs/noise/seed1/attacks/linear-train_data"
    scores = pd.read_parquet(folder / "per_image.parquet").sort_values("mse", kind="stable")
    captions = page.locator("#ends .pair figcaption").all_text_contents()
    ends = pd.concat([scores.head(5), scores.tail(5)])
    assert len(captions) == 10
    for caption, (_, image) in zip(captions, ends.iterrows(), strict=True):
        label = MARKUP if image["label"] == CLASSES - 1 else str(image["label"])
        assert caption.startswith(f"test image {image['index']}, class {label}")
        assert f"SSIM {image['ssim']:.3f}, PSNR {image['psnr']:.1f} dB" in caption
        assert caption.endswith("class recognised") == image["recognised"]
    words = str(page.locator("#ends-words").text_content())
    assert f"median {scores['mse'].median():.3g}" in words


def test_what_failed_has_no_images(page: Page) -> None:
    page.select_option("#ends-defence", "clustering")
    page.select_option("#ends-seed", "1")
    assert "the strongest attack is not known" in str(page.locator("#ends-words").text_content())
    assert page.locator("#ends img").count() == 0


def test_curves_have_a_line_for_each_run_and_a_point_for_each_epoch(page: Page) -> None:
    page.select_option("#curve-a", "noise")
    page.select_option("#curve-b", "clustering")
    charts = page.locator("#curves .chart")
    assert charts.count() == 4
    lines = charts.first.locator("polyline")
    counts = [len(set(str(line.get_attribute("points")).split())) for line in lines.all()]
    assert counts == [EPOCHS, EPOCHS, EPOCHS, 1]  # the failed run came as far as its first epoch
    assert dot(page, lines.last) == (0xC0, 0x4A, 0)  # and can be seen
    page.select_option("#curve-a", "none")
    page.select_option("#curve-b", "")
    assert "No finite value" in str(charts.last.text_content())


def dot(page: Page, line: Any) -> tuple[int, ...]:
    """Colour of the first point of a line, on the screen."""
    line.scroll_into_view_if_needed()
    place = line.evaluate(
        "(line) => { const at = line.points[0].matrixTransform(line.getScreenCTM());"
        " return {x: Math.floor(at.x), y: Math.floor(at.y), width: 1, height: 1}; }"
    )
    pixel = Image.open(BytesIO(page.screenshot(clip=place))).convert("RGB").getpixel((0, 0))
    assert isinstance(pixel, tuple)
    return tuple(map(int, pixel))


def test_text_from_a_study_stays_text(page: Page) -> None:
    assert page.title() == f"{MARKUP} – results"
    assert page.locator("h1").text_content() == MARKUP
    assert page.locator("img[src='x']").count() == 0


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
TEXTS = ("h1", ".kicker", "dt", "dd", ".warning li", "nav a", "thead button", "td", ".spread")
TEXTS += ("figcaption", ".choice span", "select", ".scores", "td.words", "summary", "footer p")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_contrasts_with_its_ground_as_wcag_asks(opened: Opened, scheme: str) -> None:
    page = opened(color_scheme=scheme)
    contrasts = dict(zip(TEXTS, page.evaluate(CONTRASTS, list(TEXTS)), strict=True))
    assert {text: ratio for text, ratio in contrasts.items() if ratio < 4.5} == {}
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(255, 255, 255)") == (scheme == "light")


@pytest.mark.parametrize(("motion", "scroll"), [("reduce", "auto"), ("no-preference", "smooth")])
def test_motion_is_left_to_the_reader(opened: Opened, motion: str, scroll: str) -> None:
    page = opened(reduced_motion=motion)
    found = page.evaluate("getComputedStyle(document.documentElement).scrollBehavior")
    assert found == scroll


def test_without_scripts_table_and_pictures_are_there(opened: Opened) -> None:
    page = opened(java_script_enabled=False)
    assert page.locator("#summary-table tbody tr").count() == 24
    assert all(row.is_visible() for row in page.locator("#summary-table tbody tr").all())
    for name in ("accuracy_mse", "reconstructions_decoder-train_data", "extremes-train_data"):
        assert page.locator(f"[data-figure='{name}']").is_visible()
    assert not any(part.is_visible() for part in page.locator("[data-scripted]").all())


def test_what_scripts_replace_is_folded_but_not_gone(page: Page) -> None:
    figure = page.locator("[data-figure='extremes-train_data']")
    assert not figure.is_visible()
    page.get_by_text("The report’s figures of single images").click()
    assert figure.is_visible()
    page.emulate_media(media="print")
    assert not page.locator("nav").is_visible()
