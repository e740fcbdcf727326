"""The shipped page as people meet it: in a browser, by mouse and keyboard, narrow and wide, light and dark.

`make test-page` installs what this needs. Every test ends with a look at the console and at what was requested.
"""

import math
import os
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from experiments.page import slider
from experiments.statements.sources import SOURCES
from experiments.statements.verdicts import FAULTY, SEVERITIES
from sdpa import row_diagnostics
from sdpa.theory import attention_expectations

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "results" / "index.html"
AXE = ROOT / ".venv" / "package" / "axe.min.js"
SCREENSHOTS = ROOT / ".venv" / "screenshots"  # to be looked at
CHROMIUM = Path(os.environ.get("CHROMIUM", "/usr/bin/chromium"))
OPTIONS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
PHONE, DESKTOP = (390, 844), (1280, 800)
VIEWS = [(size, scheme) for size in (PHONE, DESKTOP) for scheme in ("light", "dark")]
ERRORS = "JSON.parse(document.getElementById('expectations').textContent).errors"
PLAIN = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
METRICS = ("max_weight", "entropy", "effective_keys", "jacobian_norm")
# A page that takes longer than this to answer a step of the slider does not feel immediate.
MILLISECONDS_PER_STEP = 16

pytestmark = pytest.mark.page
if find_spec("playwright") is None or not (CHROMIUM.exists() and AXE.exists()):
    reason = f"the page is not tested without a browser: `make test-page` installs all but {CHROMIUM}"
    pytest.skip(reason, allow_module_level=True)


@pytest.fixture(scope="session")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=str(CHROMIUM), args=OPTIONS)
        yield running
        running.close()


@pytest.fixture
def visit(browser):
    """Open a page at a size and in a colour scheme; at the end nothing was said and nothing asked for."""
    contexts, said, requested, opened = [], [], [], set()

    def open_page(path: Path = PAGE, size=DESKTOP, scheme="light", **options):
        context = browser.new_context(
            viewport={"width": size[0], "height": size[1]},
            color_scheme=scheme,
            has_touch=size == PHONE,
            reduced_motion="reduce",
            **options,
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(10_000)
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: requested.append(request.url))
        opened.add(path.as_uri())
        page.goto(path.as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert said == []
    assert [url for url in requested if url not in opened and not url.startswith("data:")] == []


def readings(page) -> dict[str, dict[str, float]]:
    """What the meters say: the value, as a screen reader hears it, and its expectation."""
    found = {}
    for metric in METRICS:
        track = page.locator(f"[data-metric={metric}] .track")
        found[metric] = {
            "value": float(track.get_attribute("aria-valuenow")),
            "expected": float(track.get_attribute("data-expected")),
            "most": float(track.get_attribute("aria-valuemax")),
        }
    return found


def scores_of(page, width: int, length: int, seed: int = 0) -> np.ndarray:
    """The scores of a draw of the page."""
    call = "([seed, widths, length]) => attention.draw(seed, widths, 64).get(widths.at(-1)).slice(0, length)"
    widths = [w for w in slider.WIDTHS if w != width] + [width]
    return np.array(page.evaluate(call, [seed, widths, length]))


def expected_of(width: int, length: int, p: float) -> dict[str, float]:
    exact = attention_expectations(width, length, width**p)
    values = {name: getattr(exact, name) for name in slider.QUANTITIES}
    return values | {"effective_keys": math.exp(exact.entropy)}


def assert_shows(page, width: int, length: int, p: float, seed: int = 0) -> None:
    """The page shows the row and the expectations of these settings, and says so in words."""
    scores = scores_of(page, width, length, seed)[None, None]
    row = row_diagnostics(scores, [width**p])
    values = {name: getattr(row, name).item() for name in slider.QUANTITIES}
    values["effective_keys"] = math.exp(values["entropy"])
    errors = page.evaluate(ERRORS)
    shown = readings(page)
    for metric in METRICS:
        assert shown[metric]["value"] == pytest.approx(values[metric], rel=1e-9), metric
        assert shown[metric]["expected"] == pytest.approx(
            expected_of(width, length, p)[metric], abs=errors[metric], rel=0
        )
        text = page.locator(f"[data-metric={metric}] .value").text_content()
        assert float(text.translate(PLAIN).replace(" × 10", "e")) == pytest.approx(values[metric], rel=5e-3)
    assert shown["max_weight"]["most"] == 1
    assert shown["entropy"]["most"] == pytest.approx(math.log(length))
    bars = page.locator("#row > span")
    assert bars.count() == length
    weights = bars.evaluate_all("spans => spans.map(span => Number(span.style.getPropertyValue('--weight')))")
    assert sum(weights) == pytest.approx(1)
    assert max(weights) == pytest.approx(values["max_weight"], rel=1e-9)


def drag_to(page, share: float) -> None:
    """Drag the thumb of the slider to a share of its way, in a few moves."""
    control = page.locator("#exponent")
    control.scroll_into_view_if_needed()
    box = control.bounding_box()
    thumb = page.evaluate("1.6 * parseFloat(getComputedStyle(document.documentElement).fontSize)")
    now = int(control.input_value()) / slider.POSITIONS
    middle = box["y"] + box["height"] / 2

    def x(at: float) -> float:
        return box["x"] + thumb / 2 + at * (box["width"] - thumb)

    page.mouse.move(x(now), middle)
    page.mouse.down()
    page.mouse.move(x(share), middle, steps=8)
    page.mouse.up()


@pytest.mark.parametrize(("size", "scheme"), VIEWS)
def test_nothing_hinders_anyone_and_nothing_is_cut_off(visit, size, scheme):
    page = visit(size=size, scheme=scheme)
    page.screenshot(path=SCREENSHOTS / f"{size[0]}-{scheme}.png", full_page=True)
    page.evaluate("for (const details of document.querySelectorAll('details')) details.open = true")
    page.locator("#more").click()
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate("axe.run()")
    assert [(v["id"], [node["target"] for node in v["nodes"]][:3]) for v in found["violations"]] == []
    assert len(found["passes"]) > 20
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).every(part => part < 60)")
    assert dark == (scheme == "dark")


@pytest.mark.parametrize(("size", "scheme"), VIEWS)
def test_the_mouse_drags_the_slider(visit, size, scheme):
    page = visit(size=size, scheme=scheme)
    assert_shows(page, 64, 16, 0.0)
    drag_to(page, 0.5)
    assert page.locator("#exponent").input_value() == str(slider.POSITIONS // 2)
    assert_shows(page, 64, 16, 0.5)
    drag_to(page, 0.75)
    assert_shows(page, 64, 16, int(page.locator("#exponent").input_value()) / slider.POSITIONS)
    drag_to(page, 0)
    assert_shows(page, 64, 16, 0.0)


def test_the_keyboard_alone_does_everything(visit):
    page = visit()

    def focused() -> str:
        return page.evaluate("document.activeElement.id || document.activeElement.name || ''")

    for _ in range(30):
        page.keyboard.press("Tab")
        if focused() == "width":
            break
    page.keyboard.press("ArrowRight")
    assert_shows(page, 128, 16, 0.0)
    page.keyboard.press("Tab")
    assert focused() == "length"
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Tab")
    assert focused() == "again"
    page.keyboard.press("Enter")
    assert_shows(page, 128, 8, 0.0, seed=1)
    page.keyboard.press("Tab")
    assert focused() == "exponent"
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    for _ in range(slider.POSITIONS // 3):
        page.keyboard.press("ArrowRight")
    assert page.locator("#exponent").get_attribute("aria-valuetext").startswith("p = 1/3, scores divided by 128^(1/3)")
    assert_shows(page, 128, 8, 1 / 3, seed=1)
    page.keyboard.press("End")
    assert_shows(page, 128, 8, 1.0, seed=1)
    page.keyboard.press("Home")
    assert page.locator("#exponent").get_attribute("aria-valuetext") == "p = 0, unscaled"
    for _ in range(3):
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert_shows(page, 128, 8, 0.5, seed=1)


def test_a_screen_reader_is_told_once_the_slider_rests(visit):
    page = visit()
    summary = page.locator("#summary")
    assert summary.get_attribute("aria-live") == "polite"
    assert summary.text_content() == ""
    page.locator("#exponent").press("ArrowRight")
    page.locator("[data-position='60']").click()
    assert summary.text_content() == ""
    page.locator("#summary", has_text="largest weight").wait_for(state="attached")
    said = summary.text_content()
    assert said.startswith("d_k 64, 16 keys, p = 1/2, scores divided by 64^(1/2) = 8.00; largest weight 0.")
    assert said.count("expected") == len(METRICS)
    assert page.get_by_role("slider", name="Exponent p").count() == 1
    assert page.get_by_role("radio").count() == len(slider.WIDTHS) + len(slider.LENGTHS)
    assert page.get_by_role("meter").count() == len(METRICS)


@pytest.mark.parametrize(("width", "length"), [(4, 4), (512, 64), (512, 4), (4, 64)])
def test_widths_and_lengths_are_chosen_by_touch(visit, width, length):
    page = visit(size=PHONE)
    page.locator(f"input[name=width][value='{width}'] + span").tap()
    page.locator(f"input[name=length][value='{length}'] + span").tap()
    for position, p in ((0, 0.0), (40, 1 / 3), (60, 0.5), (80, 2 / 3), (120, 1.0)):
        page.locator(f"[data-position='{position}']").tap()
        assert_shows(page, width, length, p)


def test_dragging_feels_immediate(visit):
    page = visit()
    page.locator("input[name=length][value='64'] + span").click()
    spent = page.evaluate("""() => {
      const slider = document.getElementById("exponent"), started = performance.now();
      for (let i = 0; i <= slider.max; i++) {
        slider.value = i;
        slider.dispatchEvent(new Event("input"));
        document.getElementById("row").getBoundingClientRect();
      }
      return (performance.now() - started) / slider.max;
    }""")
    assert spent < MILLISECONDS_PER_STEP


def numbers(value) -> list[float]:
    """All numbers of JSON values, in order."""
    if isinstance(value, dict | list | tuple):
        parts = value.values() if isinstance(value, dict) else value
        return [number for part in parts for number in numbers(part)]
    return [value]


WORST = """() => {
  const apart = (got, expected) => got === expected ? 0 : Math.abs(got - expected) / Math.abs(expected);
  let worst = 0, compared = 0;
  for (const { scores, results } of JSON.parse(document.getElementById("vectors").textContent)) {
    for (const expected of results) {
      const got = attention.rowOf(scores, expected.divisor);
      const pairs = expected.weights.map((weight, j) => [got.weights[j], weight]);
      for (const name of ["max_weight", "entropy", "jacobian_norm"]) pairs.push([got[name], expected[name]]);
      for (const [one, other] of pairs) {
        const error = apart(one, other);
        worst = error <= worst ? worst : error; // NaN counts
        compared += 1;
      }
    }
  }
  return [worst, compared];
}"""


def test_the_page_computes_what_the_library_does(visit):
    page = visit()
    embedded = page.evaluate("JSON.parse(document.getElementById('vectors').textContent)")
    assert numbers(embedded) == pytest.approx(numbers(slider.vectors()), rel=1e-10)
    worst, compared = page.evaluate(WORST)
    assert worst < 1e-9
    assert compared > 1000


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("Math.log1p(t)", "Math.log2(1 + t)"),
        ("Math.exp(-gap / divisor)", "Math.exp(-gap)"),
        ("2 * r * u3", "r * u3"),
        ("along += e * (score - second)", "along += e * score"),
        ("1 / (1 + t) : r * e / e1", "1 - t / (1 + t) : r * e"),
    ],
)
def test_a_planted_fault_in_its_mathematics_is_found(visit, tmp_path, right, wrong):
    text = PAGE.read_text(encoding="utf-8")
    assert text.count(right) == 1
    path = tmp_path / "wrong.html"
    path.write_text(text.replace(right, wrong), encoding="utf-8")
    assert visit(path).evaluate(WORST)[0] > 1e-6


def test_expectations_are_those_of_theory_within_the_stated_error(visit):
    page = visit()
    errors = page.evaluate(ERRORS)
    rng = np.random.default_rng(0)
    points = [(int(rng.choice(slider.WIDTHS)), int(rng.choice(slider.LENGTHS)), p) for p in rng.uniform(size=200)]
    call = """points => {
      const table = JSON.parse(document.getElementById("expectations").textContent);
      return points.map(([width, length, p]) => attention.expected(table, width, length, p));
    }"""
    for (width, length, p), got in zip(points, page.evaluate(call, points), strict=True):
        exact = expected_of(width, length, p)
        for metric in METRICS:
            assert abs(got[metric] - exact[metric]) <= errors[metric], (width, length, p, metric)


def test_its_draws_average_to_the_expectations(visit):
    """Means over 2,000 draws lie within four standard errors of theory: the generator and the draw are right."""
    page = visit()
    call = """() => Array.from({ length: 2000 }, (_, seed) => {
      const row = attention.rowOf(attention.draw(seed, [4, 64], 16).get(64), 8);
      return [row.max_weight, row.entropy, row.jacobian_norm ** 2];
    })"""
    draws = np.array(page.evaluate(call))
    exact = attention_expectations(64, 16, 8.0)
    expected = [exact.max_weight, exact.entropy, exact.jacobian_norm**2]
    errors = draws.std(axis=0, ddof=1) / math.sqrt(len(draws))
    assert (np.abs(draws.mean(axis=0) - expected) < 4 * errors).all()
    normal = np.array(
        page.evaluate("(() => { const n = attention.normals(7); return Array.from({length: 40000}, n) })()")
    )
    assert abs(normal.mean()) < 4 / 200
    assert normal.var() == pytest.approx(1, abs=4 * math.sqrt(2) / 200)
    assert abs(np.corrcoef(normal[:-1], normal[1:])[0, 1]) < 4 / 200


def test_fewer_keys_and_narrower_ones_are_part_of_the_same_draw(visit):
    page = visit()
    assert scores_of(page, 64, 4).tolist() == scores_of(page, 64, 64)[:4].tolist()
    only = page.evaluate("attention.draw(0, [4, 512], 64).get(4)")
    assert only == scores_of(page, 4, 64).tolist()
    assert scores_of(page, 64, 4, seed=1).tolist() != scores_of(page, 64, 4).tolist()


def test_published_statements_are_filtered_searched_and_sorted(visit):
    page = visit()
    entries, count = page.locator("#entries > li"), page.locator("#count")
    total = int(count.text_content().split(" of ")[1].split()[0])
    assert entries.first.locator(".verdict").text_content() == "wrong"
    page.locator("#more").click()
    assert entries.count() == total
    verdicts = entries.evaluate_all("list => list.map(entry => entry.dataset.verdict)")
    severities = entries.evaluate_all("list => list.map(entry => entry.dataset.severity)")
    assert severities == sorted(severities, key=lambda severity: (*SEVERITIES, "").index(severity))
    assert all((verdict in FAULTY) == bool(grave) for verdict, grave in zip(verdicts, severities, strict=True))
    page.locator("#severity").select_option("slip")
    assert set(entries.locator(".severity").all_text_contents()) == {"slip"}
    assert entries.locator(".severity").count() == entries.count() > 0
    page.locator("#severity").select_option("")
    page.locator("#verdict").select_option("misleading")
    assert set(entries.evaluate_all("list => list.map(entry => entry.dataset.verdict)")) == {"misleading"}
    page.locator("#source").select_option(SOURCES["notebook"].label)
    assert all(SOURCES["notebook"].label in text for text in entries.locator(".ids").all_text_contents())
    page.locator("#search").fill("numerically STABLE")
    assert entries.count() == 1
    page.locator("#search").fill("no such words")
    assert count.text_content().startswith("0 of")
    page.locator("#search").fill("")
    page.locator("#source").select_option("")
    page.locator("#order").select_option("statement")
    statements = entries.evaluate_all("list => list.map(e => e.querySelector('.says').textContent)")
    assert statements == sorted(statements, key=str.lower)


def test_without_scripts_the_findings_are_there(visit):
    page = visit(java_script_enabled=False)
    assert page.get_by_role("heading", name="What it does not do").is_visible()
    assert page.locator(".finding .caption").first.is_visible()
    assert page.locator("#entries > li").count() > 100


def test_printing_shows_the_tables_and_no_controls(visit):
    page = visit(scheme="dark")
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    for hidden in ("nav", "#again", ".filters", ".chips", ".marks", "#exponent"):
        assert not page.locator(hidden).first.is_visible(), hidden
    for shown in (".finding table", ".finding pre", ".drawing svg", "#row"):
        assert page.locator(shown).first.is_visible(), shown
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator("details[open]").count() == 0
    assert page.pdf(format="A4").startswith(b"%PDF")


def test_its_links_lead_somewhere(visit):
    page = visit()
    for link in page.locator("a[href]").evaluate_all("links => links.map(link => link.getAttribute('href'))"):
        if link.startswith("#"):
            assert page.locator(link).count() == 1, link
        else:
            assert (PAGE.parent / link).is_file(), link
