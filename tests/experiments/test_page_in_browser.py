"""The shipped page as people meet it: in a browser, by mouse and keyboard, narrow and wide, light and dark.

`make test-page` installs what this needs. Every test ends with a look at the console and at what was requested.
"""

import math
import os
import re
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from experiments.claims.data import sources
from experiments.claims.judge import FAULTY, SEVERITIES
from experiments.page.explorer import POSITIONS
from experiments.page.row_means import RELATIVE_ERROR
from sdpa import row_diagnostics, softmax
from sdpa.theory import attention_expectations, divisor_for

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "results" / "index.html"
AXE = ROOT / ".venv" / "package" / "axe.min.js"
SCREENSHOTS = ROOT / ".venv" / "screenshots"  # to be looked at
CHROMIUM = Path(os.environ.get("CHROMIUM", "/usr/bin/chromium"))
OPTIONS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
PHONE, DESKTOP, LAPTOP = (390, 844), (1280, 800), (1280, 900)
VIEWS = [(size, scheme) for size in (PHONE, DESKTOP) for scheme in ("light", "dark")]
PLAIN = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
# A page that takes longer than this to answer a step of the slider does not feel immediate.
MILLISECONDS_PER_STEP = 16


class State(NamedTuple):
    """The choices of a reader."""

    d_k: int
    n_keys: int
    p: float
    seed: int


START = State(64, 64, 0.5, seed=0)

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

    def open_page(path: Path = PAGE, size=DESKTOP, scheme="light", fragment="", **options):
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
        opened.update((path.as_uri(), path.as_uri() + fragment))
        page.goto(path.as_uri() + fragment)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert said == []
    assert [url for url in requested if url not in opened and not url.startswith("data:")] == []


def embedded(page) -> dict:
    """The data of the explorer."""
    return page.evaluate("JSON.parse(document.getElementById('explorer-data').textContent)")


def scores_of(page, state: State) -> np.ndarray:
    """The scores of a draw of the page."""
    return np.array(page.evaluate("([...of]) => attention.draw(...of)", [state.seed, state.d_k, state.n_keys]))


def shown_value(page, rule: int, metric: str, of: str) -> float:
    """A number of the table of the explorer; NaN for a dash."""
    cell = page.locator(f".quantities [data-rule='{rule}'][data-metric={metric}][data-of={of}]")
    exact, text = cell.get_attribute("data-value"), cell.text_content()
    if text == "–":
        assert exact == ""
        return math.nan
    shown = float(text.translate(PLAIN).replace(" × 10", "e").replace(",", ""))
    assert shown == pytest.approx(float(exact), rel=5e-3)
    return float(exact)


def assert_shows(page, state: State) -> None:
    """The page shows the row, the expectations and the bars of these choices, without the division and with it."""
    scores = scores_of(page, state)
    for rule, divisor in enumerate((1.0, state.d_k**state.p)):
        row = row_diagnostics(scores[None, None], [divisor])
        values = {name: getattr(row, name).item() for name in ("max_weight", "entropy", "jacobian_norm")}
        values["effective_keys"] = math.exp(values["entropy"])
        for metric, value in values.items():
            assert shown_value(page, rule, metric, "row") == pytest.approx(value, rel=1e-9), metric
        for metric, value in expected_of(state.d_k, state.n_keys, divisor).items():
            error = RELATIVE_ERROR * (10 if metric == "effective_keys" else 1)  # e^H, H at most ln n
            assert shown_value(page, rule, metric, "expected") == pytest.approx(value, rel=error), metric
        chart = page.locator(".chart").nth(rule)
        path = chart.locator("path").get_attribute("d")
        heights = [1 - float(top) / 100 for top in re.findall(r"V(?!100z)([\d.]+)H", path)]
        assert len(heights) == min(state.n_keys, 64)
        top = float(chart.locator(".top").text_content().translate(PLAIN).replace(" × 10", "e"))
        assert max(heights) * top == pytest.approx(values["max_weight"], rel=1e-3)
        assert max(heights) > 0.6
        if state.n_keys <= 64:
            assert sum(heights) * top == pytest.approx(1, abs=1e-3)
    answer = page.locator("#answer").text_content()
    assert answer.startswith(f"At dk = {state.d_k} with {state.n_keys:,} keys, the largest weight averages")


def expected_of(d_k: int, n_keys: int, divisor: float) -> dict[str, float]:
    exact = attention_expectations(d_k, n_keys, divisor)
    names = ("max_weight", "entropy", "jacobian_norm", "query_gradient_norm")
    return {name: getattr(exact, name) for name in names} | {"effective_keys": math.exp(exact.entropy)}


def drag_to(page, share: float) -> None:
    """Drag the thumb of the slider to a share of its way, in a few moves."""
    control = page.locator("#exponent")
    control.scroll_into_view_if_needed()
    box = control.bounding_box()
    thumb = page.evaluate("1.6 * parseFloat(getComputedStyle(document.documentElement).fontSize)")
    now = int(control.input_value()) / POSITIONS
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
    page.screenshot(path=SCREENSHOTS / f"{size[0]}-{scheme}.png", full_page=True, timeout=60_000)
    page.evaluate("for (const details of document.querySelectorAll('details')) details.open = true")
    page.locator("#more").click()
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate("axe.run()")
    assert [(v["id"], [node["target"] for node in v["nodes"]][:3]) for v in found["violations"]] == []
    assert len(found["passes"]) > 20
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).every(part => part < 60)")
    assert dark == (scheme == "dark")


@pytest.mark.parametrize("size", [PHONE, LAPTOP])
def test_the_first_screen_has_the_answer_and_its_picture(visit, size):
    page = visit(size=size)
    for name in ("h1", "#law", "#answer", "#sizes", ".panel.plain .chart", ".panel.scaled .chart"):
        box = page.locator(name).bounding_box()
        assert box["y"] + box["height"] <= size[1], name
    assert "without the division" in page.locator("#answer").text_content()
    assert "With √dk, typical gradients are smaller here" in page.locator("#sizes").text_content()
    answers = page.locator(".answers summary")
    assert answers.count() > 5
    for text in answers.all_text_contents():
        assert len(re.findall(r"(?<![\w])\d[\d.,]*", text)) <= 2, text


def test_without_scripts_no_control_is_shown(visit):
    page = visit(java_script_enabled=False)
    assert page.locator("#strip noscript p").is_visible()
    assert not page.locator("#strip").locator("button, input, select, [role=slider]").locator("visible=true").count()
    assert page.locator(".answers summary").first.is_visible()


@pytest.mark.parametrize("width", [390, 768, 1280])
def test_the_labels_of_the_map_can_be_read(visit, width):
    page = visit(size=(width, 900))
    assert page.evaluate("document.getElementById('map').getScreenCTM().a * 12") >= 11


def test_nothing_moves_while_the_page_loads(visit):
    page = visit()
    moved = page.evaluate("""() => new Promise((resolve) => {
      new PerformanceObserver((list) => resolve(list.getEntries().reduce((sum, entry) => sum + entry.value, 0)))
        .observe({ type: "layout-shift", buffered: true });
      setTimeout(() => resolve(0), 500);
    })""")
    assert moved == 0


@pytest.mark.parametrize(("size", "scheme"), VIEWS)
def test_the_mouse_drags_the_slider(visit, size, scheme):
    page = visit(size=size, scheme=scheme)
    assert_shows(page, START)
    drag_to(page, 0)
    assert_shows(page, START._replace(p=0.0))
    drag_to(page, 0.75)
    assert_shows(page, START._replace(p=int(page.locator("#exponent").input_value()) / POSITIONS))


def focused(page) -> str:
    return page.evaluate("document.activeElement.id || document.activeElement.name || document.activeElement.className")


def test_the_keyboard_alone_does_everything(visit):
    page = visit()
    for _ in range(30):
        page.keyboard.press("Tab")
        if focused(page).startswith("chart"):
            break
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    assert focused(page) == "map"
    page.keyboard.press("ArrowUp")
    assert_shows(page, START._replace(n_keys=256))
    page.keyboard.press("ArrowLeft")
    assert_shows(page, START._replace(n_keys=256, d_k=32))
    assert page.locator("#map").get_attribute("aria-valuetext") == "d_k 32, 256 keys"
    page.keyboard.press("Tab")
    assert focused(page) == "d_k"
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Tab")
    assert focused(page) == "n_keys"
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Tab")
    assert focused(page) == "again"
    page.keyboard.press("Enter")
    assert_shows(page, State(128, 16, 0.5, seed=1))
    page.keyboard.press("Tab")
    assert focused(page) == "exponent"
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("ArrowRight")
    text = page.locator("#exponent").get_attribute("aria-valuetext")
    assert text.startswith("p = 61/120, divided by 128^(61/120)")
    assert_shows(page, State(128, 16, 61 / 120, seed=1))
    page.keyboard.press("Home")
    assert page.locator("#exponent").get_attribute("aria-valuetext") == "p = 0, not divided"
    for _ in range(3):
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert_shows(page, State(128, 16, 0.5, seed=1))


def test_values_of_bars_are_read_by_mouse_touch_and_keyboard(visit):
    page = visit()
    scores = scores_of(page, START)
    weights = [softmax(scores), softmax(scores / 8)]
    readout, charts = page.locator("#readout"), page.locator(".chart")

    def assert_reads(key: int) -> None:
        before, after = (f"{weight[key]:.3g}" for weight in weights)
        text = readout.text_content().translate(PLAIN).replace(" × 10", "e")
        assert text.startswith(f"In this random row, key {key + 1} has the ")
        numbers = [float(number) for number in re.findall(r"[\d.]+(?:e-?\d+)?(?= (?:not )?divided)", text)]
        assert numbers == pytest.approx([float(before), float(after)], rel=1e-2)
        labels = [
            label.translate(PLAIN).replace(" × 10", "e") for label in charts.locator(".value").all_text_contents()
        ]
        assert [float(label) for label in labels] == numbers

    assert_reads(int(scores.argmax()))
    box = charts.nth(0).bounding_box()
    for key in (0, 20, 63):
        charts.nth(1 if key else 0).hover(position={"x": (key + 0.5) / 64 * box["width"], "y": 30})
        assert_reads(key)
    charts.nth(0).focus()
    page.keyboard.press("ArrowLeft")
    assert_reads(62)
    assert charts.nth(0).get_attribute("aria-valuetext").startswith("key 63: weight ")
    page.keyboard.press("Home")
    assert_reads(0)
    phone = visit(size=PHONE)
    box = phone.locator(".chart").nth(1).bounding_box()
    phone.touchscreen.tap(box["x"] + box["width"] * 10.5 / 64, box["y"] + 20)
    assert "key 11 has the weight" in phone.locator("#readout").text_content()


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
    assert said.startswith(
        "For independent standard normal q and k without a mask: d_k 64, 64 keys, p = 1/2, divided by 64^(1/2) = 8;"
        " mean largest weight 0.791 not divided"
    )
    assert page.get_by_role("slider", name="Exponent p").count() == 1
    data = embedded(page)
    assert page.get_by_role("radio").count() == len(data["d_k"]) + len(data["n_keys"])


def test_choices_are_in_the_address_and_come_from_it(visit):
    page = visit()
    assert page.evaluate("location.hash") == ""
    page.locator("input[name=d_k][value='512'] + span").click()
    page.locator("[data-position='40']").click()
    page.locator("#again").click()
    page.wait_for_url(lambda url: url.endswith("#d_k=512&n_keys=64&p=1/3&seed=1"))
    page.evaluate("location.hash = '#d_k=8&n_keys=16&p=0.4375&seed=3'")
    assert_shows(page, State(8, 16, 0.4375, seed=3))
    page.evaluate("location.hash = '#findings'")
    assert page.evaluate("scrollY") > 500
    assert_shows(page, State(8, 16, 0.4375, seed=3))
    assert_shows(visit(fragment="#d_k=4096&n_keys=4096&p=1/2&seed=7"), State(4096, 4096, 0.5, seed=7))
    assert_shows(visit(fragment="#n_keys=16"), START._replace(n_keys=16))
    for wrong in ("d_k=63", "n_keys=many", "p=1.5", "p=-1", "p=1/0", "seed=0.5", "d_k=8&p=2", "seed=1e99", "d_k="):
        assert_shows(visit(fragment=f"#{wrong}"), START)


def test_the_map_shows_the_crossings_and_moves_the_choice(visit):
    page = visit()
    crossings = embedded(page)["crossings"]
    assert page.locator("#map .measured.jacobian").count() == len(crossings["jacobian"]) > 3
    found = page.evaluate("points => [16, 64, 128, 4, 8192].map(n => map.crossing(points, n))", crossings["jacobian"])
    assert found[:2] == [crossings["jacobian"][0][2], crossings["jacobian"][1][2]]
    assert found[1] < found[2] < crossings["jacobian"][2][2]
    assert found[3:] == [None, None]
    assert f"≈ {found[1]:.2g} through the softmax (|J|F)" in page.locator("#sizes").text_content()
    for d_k, said in ((64, "smaller"), (256, "larger through the softmax, smaller at the query"), (1024, "larger")):
        page.evaluate(f"location.hash = '#d_k={d_k}'")
        page.locator("#sizes", has_text=f"typical gradients are {said} here: with 64 keys").wait_for()
    compared = page.evaluate("[1, 70, 72, 75, 90].map(d_k => map.compared(d_k, 72))")
    assert compared == [*4 * ["about as large"], "larger"]
    chosen = page.locator("#map .choice").nth(0)
    chosen.click(force=True)
    assert_shows(page, START._replace(d_k=8, n_keys=4))
    said = "With √dk, typical gradients are larger through the softmax, smaller at the query here (measured)."
    assert page.locator("#sizes").text_content() == said
    assert page.evaluate("[999.4, 999.7, 1000].map(words.digits)") == ["999", "1,000", "1,000"]
    you, cell = page.locator("#map .you circle").bounding_box(), chosen.bounding_box()
    apart = math.hypot(
        *(you[axis] + you[size] / 2 - cell[axis] - cell[size] / 2 for axis, size in (("x", "width"), ("y", "height")))
    )
    assert apart < 1


APART = """() => {
  const box = (element) => {
    const { left, right, top, bottom } = element.getBoundingClientRect();
    return { left, right, top: top + 3, bottom: bottom - 3 }; // room for accents and descenders
  };
  const here = box(document.querySelector("#map .you text"));
  const others = [...document.querySelectorAll("#map > text:is(.jacobian, .query_gradient)")].map(box);
  const beside = (one) => here.right <= one.left || one.right <= here.left;
  return others.every((one) => beside(one) || here.bottom <= one.top || one.bottom <= here.top);
}"""


@pytest.mark.parametrize("d_k", [8, 512, 1024, 4096])
def test_the_label_of_the_choice_covers_no_name_in_the_top_row(visit, d_k):
    assert visit(fragment=f"#d_k={d_k}&n_keys=4096").evaluate(APART)


def test_medians_are_shown_where_they_were_measured_and_nowhere_else(visit):
    page = visit()
    measured = {tuple(cell[:2]): cell for cell in embedded(page)["medians"] if cell[2] == 8.0}[64, 64]
    assert shown_value(page, 1, "jacobian_norm", "median") == measured[3]
    assert shown_value(page, 1, "query_gradient_norm", "median") == measured[4]
    page.locator("#exponent").press("ArrowRight")
    assert math.isnan(shown_value(page, 1, "jacobian_norm", "median"))
    assert shown_value(page, 0, "jacobian_norm", "median") > 0


@pytest.mark.parametrize(
    ("target", "wanted", "d_k", "n_keys"),
    [("max_weight", 0.2, 64, 64), ("entropy_share", 0.9, 8, 4), ("entropy_share", 0.5, 4096, 4096)],
)
def test_the_divisor_for_a_wanted_row_is_the_librarys(visit, target, wanted, d_k, n_keys):
    page = visit(fragment=f"#d_k={d_k}&n_keys={n_keys}")
    page.locator("#target").select_option(target)
    page.locator("#wanted").fill(str(wanted))
    divisor = float(page.locator("#needed").get_attribute("data-divisor"))
    assert divisor == pytest.approx(divisor_for(target, wanted, d_k, n_keys), rel=10 * RELATIVE_ERROR)
    assert f"{divisor:.3g}" in page.locator("#needed").text_content()
    page.locator("#use").click()
    power = math.log(divisor, d_k)
    assert_shows(page, State(d_k, n_keys, power, seed=0))
    found = shown_value(page, 1, "max_weight" if target == "max_weight" else "entropy", "expected")
    assert found / (1 if target == "max_weight" else math.log(n_keys)) == pytest.approx(wanted, rel=1e-4)


def test_an_impossible_wish_gets_the_possible_range(visit):
    page = visit()
    for wanted in ("0.01", "1", ""):
        page.locator("#wanted").fill(wanted)
        assert page.locator("#needed").text_content() == "none; choose more than 0.0157 and less than 0.980"
        assert page.locator("#use").is_disabled()
    page.locator("#wanted").fill("0.9")
    assert re.search(r"−0\..* \(not on the slider\)$", page.locator("#needed").text_content())
    assert page.locator("#use").is_disabled()


@pytest.mark.parametrize(("d_k", "n_keys"), [(8, 4), (4096, 4096), (8, 4096), (4096, 4)])
def test_sizes_are_chosen_by_touch(visit, d_k, n_keys):
    page = visit(size=PHONE)
    page.locator(f"input[name=d_k][value='{d_k}'] + span").tap()
    page.locator(f"input[name=n_keys][value='{n_keys}'] + span").tap()
    for position in (0, 40, 120):
        page.locator(f"[data-position='{position}']").tap()
        assert_shows(page, State(d_k, n_keys, position / POSITIONS, seed=0))
    assert page.locator("#shown").text_content().startswith("The largest 64 of 4,096") == (n_keys == 4096)


def test_dragging_feels_immediate(visit):
    page = visit()
    page.locator("input[name=n_keys][value='64'] + span").click()
    spent = page.evaluate("""() => {
      const slider = document.getElementById("exponent"), started = performance.now();
      for (let i = 0; i <= slider.max; i++) {
        slider.value = i;
        slider.dispatchEvent(new Event("input"));
        document.querySelector(".chart").getBoundingClientRect();
      }
      return (performance.now() - started) / slider.max;
    }""")
    assert spent < MILLISECONDS_PER_STEP


# Rows that random draws do not cover: two keys, equal scores, a tie of the largest, one far ahead, one far behind.
ODD_ROWS = ([0.5, -0.25], [3.0] * 5, [7.0, 7.0, 1.0], [600.0, 1.0, 0.0, -2.5], [-600.0, 0.0, 0.1])


def rows_of_the_library() -> list[dict]:
    """Rows of scores with the library's results under a divisor."""
    rng = np.random.default_rng(0)
    rows = [(rng.standard_normal((n, d)) @ rng.standard_normal(d), d) for d in (4, 64, 512) for n in (4, 16, 64)]
    cases = [(scores, d**p) for scores, d in rows for p in (0.0, 1 / 3, 1 / 2, 2 / 3, 1.0)]
    results = []
    for scores, divisor in [*cases, *((np.array(row), 1.0) for row in ODD_ROWS)]:
        found = row_diagnostics(scores[None, None], [divisor])
        values = {name: getattr(found, name).item() for name in ("max_weight", "entropy", "jacobian_norm")}
        results.append(
            {"scores": scores.tolist(), "divisor": divisor, "weights": softmax(scores / divisor).tolist(), **values}
        )
    return results


WORST = """(rows) => {
  const apart = (got, expected) => got === expected ? 0 : Math.abs(got - expected) / Math.abs(expected);
  let worst = 0, compared = 0;
  for (const expected of rows) {
    const got = attention.rowOf(expected.scores, expected.divisor);
    const pairs = expected.weights.map((weight, j) => [got.weights[j], weight]);
    for (const name of ["max_weight", "entropy", "jacobian_norm"]) pairs.push([got[name], expected[name]]);
    for (const [one, other] of pairs) {
      const error = apart(one, other);
      worst = error <= worst ? worst : error; // NaN counts
      compared += 1;
    }
  }
  return [worst, compared];
}"""


def test_the_page_computes_what_the_library_does(visit):
    worst, compared = visit().evaluate(WORST, rows_of_the_library())
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
    assert visit(path).evaluate(WORST, rows_of_the_library())[0] > 1e-6


def test_expectations_are_those_of_theory_within_the_stated_error(visit):
    page = visit()
    data = embedded(page)
    rng = np.random.default_rng(0)
    points = [(int(rng.choice(data["d_k"])), int(rng.choice(data["n_keys"])), p) for p in rng.uniform(-0.05, 1, 60)]
    call = "([rows, points]) => points.map(([d_k, n, p]) => attention.expected(rows, d_k, n, d_k ** p))"
    for (d_k, n_keys, p), got in zip(points, page.evaluate(call, [data["rows"], points]), strict=True):
        for metric, value in expected_of(d_k, n_keys, d_k**p).items():
            error = RELATIVE_ERROR * (10 if metric == "effective_keys" else 1)
            assert got[metric] == pytest.approx(value, rel=error), (d_k, n_keys, p, metric)


def test_its_draws_average_to_the_expectations(visit):
    """Means over 2,000 draws lie within four standard errors of theory: the generator and the draw are right."""
    page = visit()
    call = """() => Array.from({ length: 2000 }, (_, seed) => {
      const row = attention.rowOf(attention.draw(seed, 8, 16), 3);
      return [row.max_weight, row.entropy, row.jacobian_norm ** 2];
    })"""
    draws = np.array(page.evaluate(call))
    exact = attention_expectations(8, 16, 3.0)
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
    long = scores_of(page, State(64, 64, 0.5, seed=0))
    assert scores_of(page, State(64, 4, 0.5, seed=0)).tolist() == long[:4].tolist()
    narrow = scores_of(page, State(8, 64, 0.5, seed=0))
    assert (long / narrow).std() < 1e-12 < long[0] / narrow[0] - 1
    assert scores_of(page, State(64, 64, 0.5, seed=1)).tolist() != long.tolist()


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
    page.locator("#source").select_option(sources()["notebook"].label)
    assert all(sources()["notebook"].label in text for text in entries.locator(".ids").all_text_contents())
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
    for hidden in ("nav", "#again", ".filters", ".chips", ".marks", "#exponent", ".inverse"):
        assert not page.locator(hidden).first.is_visible(), hidden
    for shown in (".finding table", ".finding pre", ".drawing svg", ".chart", "#map", ".answers details p"):
        assert page.locator(shown).first.is_visible(), shown
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator("details[open]").count() == 0
    assert page.pdf(format="A4").startswith(b"%PDF")


def test_its_links_lead_somewhere_on_it(visit):
    page = visit()
    for link in page.locator("a[href]").evaluate_all("links => links.map(link => link.getAttribute('href'))"):
        assert link.startswith("#"), link
        assert page.locator(link).count() == 1, link


@pytest.mark.parametrize("key", ["mouse", "keyboard", "touch"])
def test_a_copy_in_an_empty_folder_saves_tables(visit, tmp_path, key):
    copy = shutil.copy(PAGE, tmp_path / "page.html")
    page = visit(copy, size=PHONE if key == "touch" else DESKTOP)
    tables = page.locator("#made").get_by_role("button")
    names = tables.all_text_contents()
    assert len(names) == page.locator("script[data-table]").count() > 20
    assert not page.locator("#cannot-save").is_visible()
    for name, table in list(zip(names, tables.all(), strict=True))[::8]:  # Chromium asks before the eleventh
        with page.expect_download(timeout=60_000) as saved:
            {"mouse": table.click, "keyboard": lambda table=table: table.press("Enter"), "touch": table.tap}[key]()
        assert saved.value.suggested_filename == name.replace("/", "-")
        assert Path(saved.value.path()).read_bytes() == (PAGE.parent / name).read_bytes(), name


def test_the_tables_of_a_finding_are_saved_beside_it(visit):
    page = visit()
    finding = page.locator("#dimension-variance")
    finding.locator("summary").click()
    with page.expect_download(timeout=60_000) as saved:
        finding.get_by_role("button", name="dimension.csv").click()
    assert Path(saved.value.path()).read_bytes() == (PAGE.parent / "dimension.csv").read_bytes()


@pytest.mark.parametrize("without", ["scripts", "DecompressionStream"])
def test_a_browser_that_cannot_save_tables_says_where_they_are(visit, tmp_path, without):
    copy = Path(shutil.copy(PAGE, tmp_path / "page.html"))
    if without == "DecompressionStream":
        text = copy.read_text(encoding="utf-8")
        copy.write_text(text.replace("<script>", "<script>delete window.DecompressionStream;</script><script>", 1))
    page = visit(copy, java_script_enabled=without != "scripts")
    assert page.locator("#cannot-save").is_visible()
    assert page.locator("button.csv").count() == 0
    assert page.locator("#made .csv", has_text="dimension.csv").count() > 0


def test_drawings_use_the_fonts_of_the_page(visit):
    page = visit()
    page.evaluate("document.fonts.ready")
    fonts = page.evaluate("[...document.fonts].map(font => [font.family, font.weight, font.style, font.status])")
    assert ["DejaVuSans", "normal", "normal", "loaded"] in fonts
    text = page.locator(".drawing text", has_text=re.compile("^unscaled$")).first
    assert text.evaluate("text => getComputedStyle(text).fontFamily").startswith("DejaVuSans")
    assert 8 * 4 < text.evaluate("text => text.getComputedTextLength()") < 8 * 7.5
