"""The shipped page as people meet it: in a browser, by mouse and keyboard, narrow and wide, light
and dark.

`make test-page` installs what this needs. Every test ends with a look at the console and at what
was requested.
"""

import json
import math
import os
import re
from collections import namedtuple
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from experiments.config.loader import load_config
from experiments.page import heads
from experiments.page.explorer import RELATIVE_ERROR
from experiments.page.index import make_page
from experiments.tables.all_results import AllResults
from sdpa import Scaling, row_diagnostics, softmax
from sdpa.theory import attention_expectations, attention_medians
from tests.numerics import is_mean
from tests.suite_process import ROOT
from tests.tools.command import sdpa

PAGE = ROOT / "results" / "index.html"
AXE = ROOT / ".venv" / "package" / "axe.min.js"
SCREENSHOTS = ROOT / ".venv" / "screenshots"  # to be looked at
CHROMIUM = Path(os.environ.get("CHROMIUM", "/usr/bin/chromium"))
OPTIONS = "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync"
OPTIONS += " --disable-background-networking --disable-component-update"
PHONE, DESKTOP = (390, 664), (1280, 900)
VIEWS = [(size, scheme) for size in (PHONE, DESKTOP) for scheme in ("light", "dark")]
PLAIN = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")


State = namedtuple("State", "d_k n_keys p seed")  # the choices of a reader
START = State(64, 64, 0.5, seed=0)

pytestmark = pytest.mark.page
if find_spec("playwright") is None or not (CHROMIUM.exists() and AXE.exists()):
    reason = (
        f"the page is not tested without a browser: `make test-page` installs all but {CHROMIUM}"
    )
    pytest.skip(reason, allow_module_level=True)


@pytest.fixture(scope="session")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=str(CHROMIUM), args=OPTIONS.split())
        yield running
        running.close()


@pytest.fixture
def visit(browser):
    """Open the page at a size and in a colour scheme; at the end nothing was said and nothing asked
    for.
    """
    pages, said, requested = [], [], []

    def open_page(size=DESKTOP, scheme="light", path=PAGE, **more):
        viewport = {"width": size[0], "height": size[1]}
        page = browser.new_page(
            viewport=viewport, color_scheme=scheme, reduced_motion="reduce", **more
        )
        pages.append(page)
        page.set_default_timeout(20_000)
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: requested.append(request.url))
        page.goto(path.as_uri())
        return page

    yield open_page
    for page in pages:
        page.close()
    assert said == []
    own = ("file:", "data:")  # figures that are not part of the page
    assert [url for url in requested if not url.startswith(own)] == []


def shown_value(page, rule, metric, of):
    """A number of the table of the explorer."""
    cell = page.locator(f".quantities [data-rule='{rule}'][data-metric={metric}][data-of={of}]")
    exact, text = cell.get_attribute("data-value"), cell.text_content()
    shown = float(text.translate(PLAIN).replace(" × 10", "e").replace(",", ""))
    assert shown == pytest.approx(float(exact), rel=5e-3)
    return float(exact)


def assert_shows(page, state):
    """The page shows the row, the expectations and the bars of these choices, without the division
    and with it.
    """
    drawn = [state.seed, state.d_k, state.n_keys]
    scores = np.array(page.evaluate("of => attention.draw(...of)", drawn))
    for rule, divisor in enumerate((1.0, state.d_k**state.p)):
        row = row_diagnostics(scores[None, None], [divisor])
        values = {
            name: getattr(row, name).item() for name in ("max_weight", "entropy", "jacobian_norm")
        }
        values["effective_keys"] = math.exp(values["entropy"])
        for metric, value in values.items():
            assert shown_value(page, rule, metric, "row") == pytest.approx(value, rel=1e-9), metric
        expected = expected_of(state.d_k, state.n_keys, divisor)
        assert {name: shown_value(page, rule, name, "expected") for name in expected} == expected
        chart = page.locator(".chart").nth(rule)
        path = chart.locator("path").get_attribute("d")
        heights = [1 - float(top) / 100 for top in re.findall(r"V(?!100z)([\d.]+)H", path)]
        top = float(chart.locator(".top").text_content().translate(PLAIN).replace(" × 10", "e"))
        shown = np.sort(softmax(scores / divisor))[-64:]
        np.testing.assert_allclose(np.sort(heights) * top, shown, atol=1e-4 * top)
    tops = page.locator(".chart .top").all_text_contents()
    assert tops[0] == tops[1]  # one axis, so that bars of the two charts compare
    said = f"At dk = {state.d_k} with {state.n_keys:,} keys, the mean largest weight is"
    assert page.locator("#answer").text_content().startswith(said)


def expected_of(d_k, n_keys, divisor):
    """The expectations, within the error that the page states; e^H has H, at most ln n, times it."""
    exact = attention_expectations(d_k, n_keys, divisor)
    names = ("max_weight", "entropy", "jacobian_norm", "query_gradient_norm")
    close = partial(pytest.approx, rel=RELATIVE_ERROR)
    effective = pytest.approx(math.exp(exact.entropy), rel=10 * RELATIVE_ERROR)
    return {name: close(getattr(exact, name)) for name in names} | {"effective_keys": effective}


@pytest.mark.parametrize("size, scheme", VIEWS)
def test_nothing_hinders_anyone_and_nothing_is_cut_off(visit, size, scheme):
    page = visit(size=size, scheme=scheme)
    for name in ("h1", "#strip .plain .chart", "#strip .scaled .chart", ".slider"):
        box = page.locator(name).bounding_box()
        assert box["y"] + box["height"] <= size[1], name
    page.screenshot(path=SCREENSHOTS / f"{size[0]}-{scheme}.png", full_page=True, timeout=60_000)
    assert page.locator("main details[open]").count() == 0
    assert size != DESKTOP or page.evaluate("document.documentElement.scrollHeight") <= 7000
    page.evaluate("for (const details of document.querySelectorAll('details')) details.open = true")
    page.evaluate(AXE.read_text())
    actual = page.evaluate("axe.run()")
    assert actual["violations"] == []
    assert len(actual["passes"]) > 20
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]


def test_every_control_works(visit):
    page = visit()
    assert_shows(page, START)
    page.locator("input[name=d_k][value='512'] + span").click()
    page.locator("input[name=n_keys][value='4096'] + span").click()
    page.locator("[data-position='40']").click()
    page.locator("#again").click()
    assert_shows(page, State(512, 4096, 1 / 3, seed=1))
    page.wait_for_url(lambda url: url.endswith("#d_k=512&n_keys=4096&p=1/3&seed=1"))
    said = page.locator("#summary").text_content()
    assert "p = 1/3, divided by 512^(1/3) = 8." in said
    page.locator("#map .choice").nth(0).click(force=True)
    assert_shows(page, State(8, 4, 1 / 3, seed=1))
    exponent = page.locator("#exponent")
    exponent.press("ArrowRight")
    said = exponent.get_attribute("aria-valuetext")
    assert said.startswith("p = 41/120, divided by 8^(41/120)")
    exponent.press("Home")
    page.keyboard.press("Shift+Tab")
    page.locator("#again").press("Enter")
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("ArrowRight")
    assert_shows(page, State(8, 16, 0.0, seed=2))


def test_terms_and_quiz_answer_to_the_keyboard(visit):
    page = visit(size=PHONE)
    shown = page.locator("dfn").last.evaluate(
        "term => { term.focus(); return getComputedStyle(term, '::after').display; }"
    )
    assert shown == "block"
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE[0]
    question = page.locator(".quiz fieldset").first
    question.locator("input").first.focus()
    page.keyboard.press("ArrowDown")
    assert question.locator("details[open] [role=status]").text_content() == "Yes:"


def heights_of_cards(page):
    """In pixels."""
    return [card.bounding_box()["height"] for card in page.locator(".cards > li").all()]


@pytest.mark.parametrize("size", [PHONE, DESKTOP])
def test_the_gradient_is_guessed_before_it_is_seen(visit, size):
    """By keyboard and without JavaScript, and nothing moves."""
    page = visit(size=size, java_script_enabled=False)
    card = page.locator("[id='card.gradients']")
    found = card.locator("h3, .curve, .pair, summary").all()
    before = heights_of_cards(page)
    assert size == PHONE or len({*before}) == 1
    assert [each.is_visible() for each in found] == [False] * 4
    assert "typical gradient grow or shrink" in card.locator("legend").inner_text()
    card.locator("input").first.focus()
    page.keyboard.press("ArrowDown")
    assert [each.is_visible() for each in found] == [True] * 4
    assert card.locator("fieldset").inner_text().strip() == "shrinks"
    assert heights_of_cards(page) == before
    assert "grow or shrink" not in page.locator("#quiz").text_content()


MODELS = ("DeepSeek-V3, MLA", "Gemma", "Granite", "Qwen", "SSMax")
KEYS = 4096


def numbers_of(page):
    """The pairs of the sentence on your head, without the division and with it."""
    texts = page.locator("#head-answer strong").all_text_contents()
    return np.reshape(
        [float(text.translate(PLAIN).replace(" × 10", "e")) for text in texts], (3, 2)
    )


def test_your_head_agrees_with_sdpa_design_for_deployed_models(visit):
    page = visit()
    deployed = pd.read_csv(ROOT / "docs" / "deployed.csv", dtype=str)
    for model in MODELS:
        head = deployed[deployed["what"].str.startswith(model)].iloc[0]
        for name, value in (("width", head.d_k), ("keys", str(KEYS)), ("rule", head.rule)):
            page.locator(f"#fields [name={name}]").fill(value)
        d_k = int(head.d_k)
        divisor = Scaling.parse(head.rule).divisor(d_k, KEYS)
        variance = attention_expectations(d_k, KEYS, divisor).row_variance
        sizes = ["--d-k", d_k, "--n-keys", KEYS]
        table = json.loads(sdpa("design", *sizes, "--row-variance", variance, "--json").stdout)
        (designed,) = (row for row in table if row["n_keys"] == KEYS)
        plain = vars(attention_expectations(d_k, KEYS, 1.0))
        means = [[row["max_weight"], row["entropy"]] for row in (plain, designed)]
        rules = 1.0, designed["divisor"]
        medians = [attention_medians(d_k, KEYS, rule).query_gradient_norm for rule in rules]
        exact = np.transpose(
            [[*of_rule, median] for of_rule, median in zip(means, medians, strict=True)]
        )
        np.testing.assert_allclose(
            numbers_of(page), exact, rtol=heads.RELATIVE_ERROR, err_msg=model
        )
        drawn = page.locator("#head-curve .dot").evaluate_all(
            "all => all.map((dot) => dot.getAttribute('d'))"
        )
        heights = [1 - float(re.fullmatch(r"M\S+ (\S+)h0", path)[1]) / 100 for path in drawn]
        expected = [0.75, *exact[1] / np.log(KEYS)]  # first the limit at half the critical spread
        np.testing.assert_allclose(heights, expected, atol=0.002, err_msg=model)


def test_your_head_by_keyboard_with_its_link_and_config(visit):
    page = visit(size=PHONE)
    page.locator("[name=width]").focus()
    for typed in ("64", "100", "d_k^1/3"):
        page.keyboard.press("Control+A")
        page.keyboard.type(typed)
        page.keyboard.press("Tab")
    assert page.locator("[name=spread]").input_value() == "2"
    with page.expect_download() as saved:
        page.locator("#mine").press("Enter")
    saved.value.save_as(SCREENSHOTS / saved.value.suggested_filename)
    (sweep,) = load_config(SCREENSHOTS / "mine.yaml").sweeps
    sizes = {(cell.d_k, cell.n_keys, *map(str, cell.scaling)) for cell in sweep.cells}
    assert sizes == {(64, n, "unscaled", "d_k^1/3") for n in (7, 25, 100)}
    page.locator("[name=spread]").fill("4")
    assert page.locator("[name=rule]").input_value() == "2"
    page.locator("#head-link").press("Enter")
    other = visit(size=PHONE)
    other.goto(page.url)
    other.reload()
    assert (numbers_of(other) == numbers_of(page)).all()
    assert other.evaluate("scrollY") > PHONE[1]
    assert other.evaluate("document.documentElement.scrollWidth") <= PHONE[0]
    for name, value, said in (
        (
            "rule",
            "d_k^-1/2",
            "Expected a divisor such as d_k^1/2; one that falls as d_k grows was meant as a factor.",
        ),
        ("rule", "0.1", "Expected a spread from 0.001 to 64; divided by 0.100, scores have 80.0."),
        ("keys", "1", "Expected a whole number of keys from 2 to 65,536."),
        ("width", "4", "Expected a whole width from 8 to 4,096."),
    ):
        other.locator(f"[name={name}]").fill(value)
        assert other.locator("#head-answer").text_content() == said


RULES = ["unscaled", "1/0.12", "d_k ^ 2/3", "d_k**(1/2)", "max(8, d_k^.5)*2 - 1e-1"]
RULES += ["sqrt(d_k) / (1 + floor(n_keys/4))", "d_k^1/2/max(1,ln(n_keys)/ln(2048))", "", "0", "ln"]
RULES += ["d_k**1/2", "(n_keys+1)^1/2", "max(8)", "d_k^1/2)", "d_k d_k", "factor"]


def test_your_head_reads_the_rules_of_configs(visit):
    call = "rules => rules.map((rule) => attention.divisorOf(rule, 100, 5))"
    for rule, actual in zip(RULES, visit().evaluate(call, RULES), strict=True):
        try:
            expected = Scaling.parse(rule).divisor(100, 5)
        except ValueError:
            expected = math.nan
        assert actual == pytest.approx(expected, rel=1e-12, nan_ok=True), rule


@pytest.mark.usefixtures("quick_slider")
def test_a_page_of_ones_own_fits_a_phone(visit, drawn):
    config, folder = drawn
    page = folder / "index.html"
    config = replace(config, path=Path("a-long-name-of-a-config.yaml"))
    page.write_bytes(make_page(AllResults(config, folder)))
    assert visit(size=PHONE, path=page).evaluate("document.documentElement.scrollWidth") <= PHONE[0]


def test_draws_average_to_expectations(visit):
    """Means over 2,000 draws within five standard errors of theory."""
    call = """() => Array.from({ length: 2000 }, (_, seed) => {
      const row = attention.rowOf(attention.draw(seed, 8, 16), 3);
      return [row.max_weight, row.entropy, row.jacobian_norm ** 2];
    })"""
    draws = np.array(visit().evaluate(call))
    exact = attention_expectations(8, 16, 3.0)
    expected = exact.max_weight, exact.entropy, exact.jacobian_norm**2
    assert all(map(is_mean, draws.T, expected))
