"""The page of a report and those of the site in a real browser, where there is one: no error, no
request, nothing wider than the window."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.render.test_site import files

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = next(
    (
        found
        for name in ("chromium", "chromium-browser", "google-chrome")
        if (found := shutil.which(name))
    ),
    None,
)
# seconds a page: CI runs them beside the suite
pytestmark = [
    pytest.mark.ci,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine"),
]

WIDTHS = (1600, 1280, 768, 390, 320)
SCHEMES = ("light", "dark")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        found = started.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )
        yield found
        found.close()


@pytest.fixture(
    scope="module",
    params=["page", pytest.param("hostile_page", marks=pytest.mark.thorough)],
    ids=["page", "hostile"],
)
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("browser") / "report.html"
    path.write_text(request.getfixturevalue(request.param), encoding="utf-8")
    return path


class Opened:
    """A page in a window, and what it said and asked for."""

    def __init__(self, browser: Any, path: Path, width: int = 1280, scheme: str = "light") -> None:
        self.page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.said.append(dialog.message), dialog.dismiss()))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(path.as_uri())
        self.page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")

    def __enter__(self) -> Opened:
        return self

    def __exit__(self, *_: object) -> None:
        self.page.close()


@pytest.mark.alike(4)
@pytest.mark.alike(2)
@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_is_wider_than_the_window_or_asked_for(
    browser: Any, path: Path, width: int
) -> None:
    with Opened(browser, path, width) as opened:
        assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
        wide = opened.page.evaluate(
            """[...document.querySelectorAll('svg, p, h1, h2, h3, li, pre, .scroll')]
            .filter(one => !one.closest('figure') && one.getBoundingClientRect().right > innerWidth + 1)
            .map(one => one.outerHTML.slice(0, 80))"""
        )
        assert not wide  # but for pictures, which scroll in their figures
        assert opened.asked == [path.as_uri()]
        assert not opened.said


@pytest.mark.alike(1)
def test_pictures_fill_the_page_and_their_text_is_of_its_size(browser: Any, path: Path) -> None:
    with Opened(browser, path, 1280) as opened:
        shares = opened.page.evaluate(
            """[...document.querySelectorAll('figure:not(.beside figure) > svg:not(.lines)')].map(one =>
            one.getBoundingClientRect().width / document.querySelector('main').getBoundingClientRect().width)"""
        )
        assert shares
        assert all(share > 0.99 for share in shares)
        scales = opened.page.evaluate(
            """[...document.querySelectorAll('figure:not(.beside figure) > svg:not(.lines)')].map(one =>
            one.getBoundingClientRect().width / one.getAttribute('width'))"""
        )
        assert all(0.8 < scale < 1.25 for scale in scales)


@pytest.mark.alike(2)
@pytest.mark.parametrize("width", [390, 1280])
def test_the_chart_can_be_read_and_its_names_are_apart(
    browser: Any, path: Path, width: int
) -> None:
    with Opened(browser, path, width) as opened:
        sizes = opened.page.evaluate(
            """[...document.querySelectorAll('#decision svg.lines')].map(one =>
            13 * one.getBoundingClientRect().width / one.getAttribute('width'))"""
        )
        assert len(sizes) == 1
        assert 9 < sizes[0] < 18  # pixels of its text
        outside, over = opened.page.evaluate(
            """(() => {
            const texts = [...document.querySelectorAll('#decision svg.lines text')];
            const boxes = texts.map(one => one.getBoundingClientRect());
            const whole = document.querySelector('#decision svg.lines').getBoundingClientRect();
            const outside = boxes.filter(one => one.left < whole.left - 1 || one.right > whole.right + 1);
            let over = 0;
            boxes.forEach((one, at) => boxes.slice(at + 1).forEach(other => {
                const apart = one.right <= other.left || other.right <= one.left;
                if (!apart && one.bottom > other.top + 3 && other.bottom > one.top + 3) over += 1;
            }));
            return [outside.length, over];
            })()"""
        )
        assert (outside, over) == (0, 0)


@pytest.mark.alike(1)
def test_the_verdict_prints_on_two_pages_and_the_rest_on_a_few(browser: Any, path: Path) -> None:
    context = browser.new_context()
    shown = context.new_page()
    shown.goto(path.as_uri())
    shown.emulate_media(media="print")
    # closed on the screen, open on paper
    assert not shown.locator("details[open]").count()
    assert shown.locator("article").last.is_visible()
    assert shown.pdf(prefer_css_page_size=True).count(b"/Type /Page\n") <= 14
    shown.evaluate("document.querySelector('#appendix').remove()")
    assert shown.pdf(prefer_css_page_size=True).count(b"/Type /Page\n") <= 2
    context.close()


@pytest.mark.alike(3)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_text_is_readable_in_light_and_dark(browser: Any, path: Path, scheme: str) -> None:
    """Contrast of text to the page by WCAG 2.1: 4.5 at least."""
    with Opened(browser, path, scheme=scheme) as opened:
        colours = opened.page.evaluate("""[...new Set([...document.querySelectorAll(
            'h1, p, td, th, li, a, code, figure text')].map(one => {
            const style = getComputedStyle(one);
            return one instanceof SVGElement ? style.fill : style.color;
        }))]""")
        paper = opened.page.evaluate("getComputedStyle(document.body).backgroundColor")
        box = opened.page.evaluate(
            "getComputedStyle(document.querySelector('pre')).backgroundColor"
        )
    assert (luminance(paper) > 0.5) == (scheme == "light")
    for colour in colours:
        assert min(contrast(colour, paper), contrast(colour, box)) >= 4.5, colour


def test_paper_is_light_and_cuts_nothing(browser: Any, path: Path) -> None:
    with Opened(browser, path, 718, "dark") as opened:  # A4 less its margins, at 96 dots an inch
        opened.page.emulate_media(media="print")
        assert (
            luminance(opened.page.evaluate("getComputedStyle(document.body).backgroundColor")) > 0.9
        )
        wide = opened.page.evaluate(
            """[...document.querySelectorAll('table, svg, pre')]
            .filter(one => one.getBoundingClientRect().right > innerWidth + 1).map(one => one.textContent.slice(0, 80))"""
        )
        assert not wide
        assert opened.page.pdf(prefer_css_page_size=True)[:5] == b"%PDF-"


@pytest.mark.alike(1)
def test_the_page_reads_without_scripts(browser: Any, path: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    shown = context.new_page()
    shown.goto(path.as_uri())
    assert shown.locator("h2").count() >= 4
    assert shown.locator("figure svg").first.is_visible()
    assert shown.locator("article").first.is_hidden()
    shown.locator("summary").first.click()
    assert shown.locator("article").first.is_visible()
    context.close()


SITE_PAGES = (
    "index.html",
    "scoreboard.html",
    "guides/accuracy.html",
    "machines/nvl72.html",
    "machines/tpu-v6e.html",
)


@pytest.fixture(scope="module")
def site_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    for name, text in files().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


@pytest.mark.alike(3)
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("name", SITE_PAGES)
def test_a_page_of_the_site_is_as_wide_as_the_window(
    browser: Any, site_folder: Path, name: str, width: int
) -> None:
    with Opened(browser, site_folder / name, width) as opened:
        assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
        # what is wider scrolls in a box of its own
        wide = opened.page.evaluate(
            """[...document.querySelectorAll('main *')].filter(one => !one.closest('pre, .scroll')
            && one.getBoundingClientRect().right > innerWidth + 1).map(one => one.outerHTML.slice(0, 80))"""
        )
        assert not wide
        assert all(address.startswith(site_folder.as_uri()) for address in opened.asked)
        assert not opened.said


@pytest.mark.alike(1)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_machine_is_readable_in_light_and_dark_without_scripts(
    browser: Any, site_folder: Path, scheme: str
) -> None:
    context = browser.new_context(java_script_enabled=False, color_scheme=scheme)
    shown = context.new_page()
    shown.goto((site_folder / "machines" / "nvl72.html").as_uri() + "#alltoall")
    assert shown.locator("svg.lines").first.is_visible()
    assert shown.locator("section:has(#all_reduce) table").is_hidden()
    shown.locator("section:has(#all_reduce) > details > summary").click()
    assert shown.locator("section:has(#all_reduce) table").is_visible()
    context.close()
    with Opened(browser, site_folder / "machines" / "nvl72.html", scheme=scheme) as opened:
        colours = opened.page.evaluate("""[...new Set([...document.querySelectorAll(
            'h1, h2, p, td, th, li, p a, h2 a, nav a, summary, figcaption, pre, svg text')].map(one => {
            const style = getComputedStyle(one);
            return one instanceof SVGElement ? style.fill : style.color;
        }))]""")
        paper = opened.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (luminance(paper) > 0.5) == (scheme == "light")
    for colour in colours:
        assert contrast(colour, paper) >= 4.5, colour


def channels(colour: str) -> list[float]:
    """``rgb(26, 26, 26)`` as shares."""
    inside = colour[colour.index("(") + 1 : colour.index(")")]
    return [float(part) / 255 for part in inside.split(",")[:3]]


def luminance(colour: str) -> float:
    """Relative luminance, WCAG 2.1."""
    linear = [
        part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4
        for part in channels(colour)
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """The ratio of two colours, WCAG 2.1."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)
