# SPDX-License-Identifier: Apache-2.0
"""The report as its readers see it: in Chromium, as wide as a laptop and as a phone, in the dark, and printed."""

from __future__ import annotations

import base64
import io
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from entrepot.workbench.catalogue import scenarios
from entrepot.workbench.report import write_report
from unit.workbench.invented_findings import invented_findings

selenium = pytest.importorskip("selenium", reason="selenium is not installed")
from PIL import Image  # noqa: E402 - comes with matplotlib
from selenium import webdriver  # noqa: E402
from selenium.webdriver.chrome.service import Service  # noqa: E402

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="chromium and chromium-driver are not installed")

LAPTOP, PHONE = 1280, 390
CONTRAST_MIN = 4.5
"""WCAG 2 AA for body text."""
OPEN_ALL = "document.querySelectorAll('details').forEach(one => one.open = true)"
TEXT_COLOURS = """
const clear = value => value === 'transparent' || /, 0\\)$/.test(value);
const ground = element => {
    for (let at = element; at; at = at.parentElement) {
        const value = getComputedStyle(at).backgroundColor;
        if (!clear(value)) return value;
    }
    return 'rgb(255, 255, 255)';
};
const found = new Map();
for (const element of document.querySelectorAll('body *')) {
    const own = [...element.childNodes].some(node => node.nodeType === 3 && node.textContent.trim());
    if (!own || !element.getClientRects().length) continue;
    const style = getComputedStyle(element);
    const colour = element.namespaceURI.endsWith('svg') ? style.fill : style.color;
    const pair = colour + '|' + ground(element);
    if (!found.has(pair)) found.set(pair, element.tagName + '.' + (element.className.baseVal ?? element.className));
}
return [...found];
"""


class Browser:
    """Chromium with the report open."""

    def __init__(self, driver: webdriver.Chrome, address: str) -> None:
        self.driver, self.address = driver, address

    def run(self, script: str) -> Any:
        return self.driver.execute_script(script)

    def open(self, width: int, theme: str = "light") -> None:
        self.command(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500},
        )
        features = [{"name": "prefers-color-scheme", "value": theme}]
        self.command("Emulation.setEmulatedMedia", {"media": "", "features": features})
        self.driver.get(self.address)

    def command(self, name: str, parameters: dict[str, Any]) -> Any:
        return self.driver.execute_cdp_cmd(name, parameters)

    def picture(self) -> Image.Image:
        shot = self.command("Page.captureScreenshot", {"format": "png"})
        return Image.open(io.BytesIO(base64.b64decode(shot["data"]))).convert("RGB")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    folder = tmp_path_factory.mktemp("report")
    page = write_report(invented_findings(), scenarios(), folder)
    options = webdriver.ChromeOptions()
    # Tests run as root in containers with a small /dev/shm: there Chromium has no sandbox, and it loads one local file.
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"):
        options.add_argument(flag)
    options.add_argument(f"--user-data-dir={folder / 'profile'}")
    options.binary_location = str(CHROMIUM)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(str(DRIVER)))
    try:
        yield Browser(driver, Path(page).as_uri())
    finally:
        driver.quit()


def test_page_loads_without_complaint_and_asks_for_nothing_else(browser: Browser) -> None:
    browser.open(LAPTOP)
    assert browser.driver.get_log("browser") == []
    events = [json.loads(entry["message"])["message"] for entry in browser.driver.get_log("performance")]
    asked = [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]
    assert browser.address in asked
    assert {url.partition("#")[0] for url in asked if url.startswith(("http", "file", "ws"))} == {browser.address}


@pytest.mark.parametrize("width", [LAPTOP, PHONE])
def test_page_does_not_scroll_sideways_even_with_all_folds_open(browser: Browser, width: int) -> None:
    browser.open(width)
    assert browser.run("return document.documentElement.scrollWidth") == width
    browser.run(OPEN_ALL)
    assert browser.run("return document.documentElement.scrollWidth") == width
    assert browser.run("return [...document.querySelectorAll('.box')].some(box => box.scrollWidth > box.clientWidth)")


@pytest.mark.parametrize("width", [LAPTOP, PHONE])
def test_every_chart_has_a_size_and_keeps_its_text_inside(browser: Browser, width: int) -> None:
    browser.open(width)
    charts = browser.run(
        """return [...document.querySelectorAll('.panel svg')].map(svg => {
            const box = svg.getBoundingClientRect();
            const out = [...svg.querySelectorAll('text')].filter(text => {
                const own = text.getBoundingClientRect();
                return own.left < box.left - 1 || own.right > box.right + 1
                    || own.top < box.top - 1 || own.bottom > box.bottom + 1;
            }).map(text => text.textContent);
            return [svg.getAttribute('aria-label'), box.width, box.height, svg.querySelectorAll('text').length, out];
        })"""
    )
    assert len(charts) > 40
    for label, wide, high, texts, outside in charts:
        assert wide > 300, label
        assert high > 100, label
        assert texts > 2, label
        assert outside == [], label


def test_text_on_charts_is_at_least_nine_pixels_high_on_a_phone(browser: Browser) -> None:
    browser.open(PHONE)
    scales = browser.run(
        "return [...document.querySelectorAll('.panel svg')].map(svg => "
        "svg.getBoundingClientRect().width / svg.viewBox.baseVal.width * parseFloat(getComputedStyle("
        "svg.querySelector('text')).fontSize))"
    )
    assert min(scales) > 7.5
    narrow = [size for size in scales if size > 9]
    assert len(narrow) > len(scales) / 2


def test_links_of_the_contents_reach_their_targets(browser: Browser) -> None:
    browser.open(LAPTOP)
    targets = browser.run("return [...document.querySelectorAll('nav a')].map(link => link.hash.slice(1))")
    assert len(targets) > 20
    counted = [
        browser.run(f"return document.querySelectorAll('#' + CSS.escape({json.dumps(target)})).length")
        for target in targets
    ]
    assert set(counted) == {1}
    browser.run("document.documentElement.style.scrollBehavior = 'auto'")
    for target in ("coverage", "csiro", "wmq-figure-17", "planning"):
        browser.run(f"document.querySelector('nav a[href=\"#{target}\"]').click()")
        top = browser.run(f"return document.getElementById('{target}').getBoundingClientRect().top")
        assert -1 <= top < 60, target
    place = browser.run("return document.querySelector('nav').getBoundingClientRect().top")
    assert place == 0, "the contents stay in view beside the text"


def test_every_link_within_the_page_has_a_target(browser: Browser) -> None:
    browser.open(LAPTOP)
    assert (
        browser.run(
            "return [...document.querySelectorAll('a[href^=\"#\"]')].map(link => link.hash.slice(1))"
            ".filter(id => !document.getElementById(id))"
        )
        == []
    )
    doubled = browser.run(
        "const ids = [...document.querySelectorAll('[id]')].map(one => one.id);"
        "return ids.filter((id, place) => ids.indexOf(id) !== place)"
    )
    assert doubled == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_stands_out_from_what_is_behind_it(browser: Browser, theme: str) -> None:
    browser.open(LAPTOP, theme)
    browser.run(OPEN_ALL)
    pairs = browser.run(TEXT_COLOURS)
    assert len(pairs) > 5
    weak = {
        where: round(contrast(*colours.split("|")), 2)
        for colours, where in pairs
        if contrast(*colours.split("|")) < CONTRAST_MIN
    }
    assert weak == {}
    ground = browser.run("return getComputedStyle(document.body).backgroundColor")
    assert (luminance(ground) > 0.5) == (theme == "light")


@pytest.mark.parametrize(("width", "theme"), [(LAPTOP, "light"), (PHONE, "dark")])
def test_first_screen_is_not_blank(browser: Browser, width: int, theme: str) -> None:
    browser.open(width, theme)
    picture = browser.picture()
    assert picture.width == width
    colours = sorted(picture.getcolors(picture.width * picture.height) or [], reverse=True)
    paper = colours[0][0] / (picture.width * picture.height)
    assert len(colours) > 50
    assert 0.5 < paper < 0.98


def test_printing_gives_light_pages_without_contents(browser: Browser) -> None:
    browser.open(LAPTOP, "dark")
    printed = browser.command("Page.printToPDF", {"printBackground": True, "preferCSSPageSize": True})
    document = base64.b64decode(printed["data"])
    pages = len(re.findall(rb"/Type\s*/Page\b(?!s)", document))
    assert 12 <= pages <= 60
    browser.command(
        "Emulation.setEmulatedMedia",
        {"media": "print", "features": [{"name": "prefers-color-scheme", "value": "dark"}]},
    )
    assert browser.run("return getComputedStyle(document.querySelector('nav')).display") == "none"
    assert luminance(browser.run("return getComputedStyle(document.body).backgroundColor")) > 0.9
    assert browser.run("return getComputedStyle(document.querySelector('main a')).textDecorationLine") == "none"


def contrast(text: str, ground: str) -> float:
    """WCAG's contrast ratio."""
    light, dark = sorted((luminance(text), luminance(ground)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    shares = [int(value) / 255 for value in re.findall(r"\d+", colour)[:3]]
    red, green, blue = (share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
