"""The page of a run in a browser, offline: it draws, answers pointer and keyboard, and can be read by everybody.

The browser is the system's Chromium; nothing is downloaded. Contrast is computed from the colours that are drawn.
"""

import random
import re
import subprocess
from fractions import Fraction

import lossy_run
import pytest
from conftest import TREE
from page_look import COLOUR, CUT, GRAPHIC_CONTRAST, TEXT_CONTRAST, TEXTS, contrast

FIGURES = ["overview", "trace", "boxes", "histogram", "clock-map-0", "clock-map-1"]


@pytest.fixture(scope="module")
def report(tickscope, tmp_path_factory):
    run = lossy_run.make(tmp_path_factory.mktemp("runs") / "a run<img src=x onerror='window.owned = 3'>&")
    subprocess.run([tickscope, "report", run], check=True, capture_output=True)
    return run / "report.html"


@pytest.fixture(scope="module")
def open_page(opened, report):
    """Opens the page anew, with all its figures drawn."""

    def open_it(width=1200, dark=False):
        page = opened(report.as_uri(), width, dark)
        page.wait_for_function("ids => ids.every(id => document.querySelector(`#${id} .main-svg`))", arg=FIGURES)
        return page

    return open_it


@pytest.fixture(scope="module")
def shared_page(open_page):
    """The page as other tests left it, at its top: for those that need not be the first. Opening it takes seconds."""
    pages = {}

    def share(width=1200, dark=False):
        page = pages.get((width, dark)) or pages.setdefault((width, dark), open_page(width, dark))
        page.evaluate("scrollTo(0, 0)")
        return page

    return share


def chosen(page):
    """What the list, the figure and the words say is chosen."""
    option = page.locator("#list [aria-selected=true]")
    drawn = page.evaluate("() => { const box = document.getElementById('trace'); return box.data[box.data.length - 1].text.find(Boolean) }")
    return option.locator("span").first.inner_text(), drawn.split(" · ")[0], page.locator("#trace-words strong").inner_text()


def test_the_page_draws_all_its_figures_without_a_word_of_trouble_and_without_a_request(shared_page):
    page = shared_page()
    for figure in FIGURES:
        assert page.evaluate("id => document.getElementById(id).data.length", figure) > 0, figure
    page.locator("#boxes-log").check()
    page.locator("#histogram-log").check()
    page.wait_for_timeout(500)
    page.locator("#boxes-log").uncheck()
    page.locator("#histogram-log").uncheck()
    assert page.trouble == []


def test_no_text_of_the_run_was_executed(shared_page):
    page = shared_page()
    assert page.evaluate("window.owned") is None
    assert page.locator("img").count() == 0
    assert page.get_by_text(lossy_run.HOSTILE).count() == 6
    assert page.title().startswith("a run<img src=x onerror='window.owned = 3'>&")


def test_a_trace_is_chosen_by_click(open_page):
    page = open_page()
    typical = page.locator("#list [role=option]").first.locator("span").first.inner_text()
    assert chosen(page) == (typical, typical, typical), "a typical one is shown first"
    slow = f"id {lossy_run.SLOW}"
    page.locator("#list [role=option]").nth(1).click()
    assert chosen(page) == (slow, slow, slow), "then the slowest"
    other = page.locator("#list [role=option]").nth(7)
    name = other.locator("span").first.inner_text()
    other.click()
    assert name != slow and chosen(page) == (name, name, name)
    assert page.locator("#list").get_attribute("aria-activedescendant") == other.get_attribute("id")


def test_a_trace_is_chosen_by_keyboard_and_scrolled_into_view(shared_page):
    page = shared_page()
    page.locator("#list").focus()
    page.keyboard.press("Home")
    options = page.locator("#list [role=option]")
    names = [options.nth(number).locator("span").first.inner_text() for number in range(12)]
    last = options.last.locator("span").first.inner_text()
    for key, name in (("ArrowDown", names[1]), ("ArrowDown", names[2]), ("ArrowUp", names[1]), ("PageDown", names[9]),
                      ("Home", names[0]), ("ArrowUp", names[0]), ("End", last), ("ArrowDown", last)):
        page.keyboard.press(key)
        assert chosen(page) == (name, name, name), key
        inside = page.evaluate("""() => {
          const list = document.getElementById("list").getBoundingClientRect();
          const option = document.querySelector("#list [aria-selected=true]").getBoundingClientRect();
          return option.top >= list.top && option.bottom <= list.bottom;
        }""")
        assert inside, key
    assert last == f"id {lossy_run.LOST[-1]}"
    assert "No stamp at server.received, server.delivered" in page.locator("#trace-words").inner_text()
    assert page.trouble == []


@pytest.mark.parametrize("width", [1400, 400])
def test_two_clicks_lead_from_the_first_screen_to_the_worst_trace(shared_page, width):
    page = shared_page(width=width)
    in_sight = lambda of: 0 <= of.bounding_box()["y"] < 900
    first = page.get_by_role("link", name="All traces over time")
    assert in_sight(first), "it is on the first screen"
    first.click()
    second = page.get_by_role("button", name="The slowest trace")
    assert in_sight(second) and in_sight(page.locator("#overview"))
    second.click()
    slow = f"id {lossy_run.SLOW}"
    assert chosen(page) == (slow, slow, slow) and in_sight(page.locator("#list"))
    page.locator("#list [role=option]").first.click()


PLACE = """which => {
  const box = document.getElementById("overview"), { xaxis, yaxis, _size } = box._fullLayout;
  const { left, top } = box.getBoundingClientRect(), { x, y } = box.data.find((one) => one.customdata);
  return [left + _size.l + xaxis.l2p(x[which]), top + yaxis._offset + yaxis.l2p(y[which])];
}"""


def test_the_overview_is_zoomed_by_dragging_and_by_buttons_and_a_circle_leads_to_its_trace(shared_page):
    page = shared_page(width=1000)
    page.get_by_role("link", name="Over time", exact=True).click()
    shown = "document.getElementById('overview')._fullLayout.xaxis.range"
    span = lambda: page.evaluate(f"{shown}.map(Number)")
    wait = lambda what: page.wait_for_function(f"() => {{ const [from, to] = {shown}; return {what}; }}")
    whole = span()
    box = page.locator("#overview .nsewdrag").first.bounding_box()
    at = lambda share: (box["x"] + share * box["width"], box["y"] + box["height"] / 2)
    page.mouse.move(*at(0.2))
    page.mouse.down()
    page.mouse.move(*at(0.6), steps=5)
    page.mouse.up()
    wait(f"to - from < {0.5 * (whole[1] - whole[0])}")
    page.get_by_role("button", name="Zoom in").click()
    wait(f"to - from < {0.3 * (whole[1] - whole[0])}")
    before = span()
    page.get_by_role("button", name="Earlier").click()
    wait(f"from < {before[0]}")
    page.get_by_role("button", name="Whole run").click()
    wait(f"Math.abs(from - {whole[0]}) < 1e-6 && Math.abs(to - {whole[1]}) < 1e-6")
    page.mouse.click(*page.evaluate(PLACE, 0))
    page.wait_for_function(f"document.querySelector('#trace-words strong').textContent === 'id {lossy_run.SLOW}'")
    placed = "data[data.length - 1].x[0] === data.find((one) => one.customdata).x[0]"
    assert page.evaluate(f"() => {{ const {{ data }} = document.getElementById('overview'); return {placed}; }}")
    page.locator("#list [role=option]").first.click()
    assert page.trouble == []


def test_error_bars_are_those_of_the_data(shared_page):
    page = shared_page()
    page.locator("#list [role=option]").nth(1).click()
    drawn = page.evaluate("() => { const box = document.getElementById('trace'); const { x, error_x } = box.data[box.data.length - 1]; return { x, above: error_x.array, below: error_x.arrayminus } }")
    data = page.evaluate("() => JSON.parse(document.getElementById('figures').textContent)")
    places = [place for place, point in zip(data["worst"][0]["since_first"], data["points"]) if point["on_path"]]
    per_tick = data["unit"]["per_second"] / data["unit"]["hertz"]
    for number, (estimate, below, above) in enumerate(places):
        assert drawn["x"][number] == pytest.approx(estimate * per_tick)
        assert drawn["below"][number] == pytest.approx(below * per_tick)
        assert drawn["above"][number] == pytest.approx(above * per_tick)
    assert places[0] == [0, 0, 0] and places[1][1] > 0


@pytest.mark.parametrize("figure", FIGURES)
def test_a_figure_is_zoomed_and_moved_by_keyboard(shared_page, figure):
    page = shared_page()
    span = lambda: page.evaluate("id => document.getElementById(id)._fullLayout.xaxis.range.map(Number)", figure)
    whole = span()
    page.locator(f"#{figure}").focus()
    page.keyboard.press("+")
    zoomed = span()
    assert zoomed[1] - zoomed[0] < whole[1] - whole[0]
    page.keyboard.press("ArrowRight")
    assert span()[0] > zoomed[0]
    page.keyboard.press("0")
    assert span() == pytest.approx(whole)


def test_everything_that_can_be_operated_is_reached_with_the_tab_key_alone(open_page):
    page = open_page()
    reached = set()
    for _ in range(100):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("() => document.activeElement.id || document.activeElement.tagName + (document.activeElement.name ?? '')"))
        if page.evaluate("() => document.activeElement === document.body"):
            break
    assert {*FIGURES, "list", "boxes-log", "histogram-log", "SUMMARY", "INPUTtheme", "A"} <= reached


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_text_has_the_contrast_of_level_aa(shared_page, dark):
    page = shared_page(dark=dark)
    page.locator("details").evaluate_all("all => all.forEach((more) => { more.open = true })")
    texts = page.evaluate(TEXTS)
    assert len(texts) > 300 and sum(text["drawn"] for text in texts) > 50
    for text in texts:
        assert text["behind"], text
        assert text["colour"][3] == 255 and text["opacity"] == 1, text
        assert contrast(text["colour"], text["behind"]) >= TEXT_CONTRAST, text


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_what_figures_are_drawn_with_stands_out(shared_page, dark):
    page = shared_page(dark=dark)
    colours = {name: page.evaluate(COLOUR, name) for name in ("ink", "muted", "accent", "second", "third", "paper", "lane")}
    for ground in ("paper", "lane"):
        for mark in ("ink", "muted", "accent", "second", "third"):
            assert contrast(colours[mark], colours[ground]) >= GRAPHIC_CONTRAST, (mark, ground)
    assert (sum(colours["paper"][:3]) < 150) == dark


def test_the_bar_is_to_scale_and_tells_its_figures_to_pointer_and_keyboard(shared_page):
    page = shared_page(width=1400)
    ends = "all => all.map((at) => at.getBoundingClientRect()).map(({ left, right }) => [left, right])"
    boxes = page.locator(".segment").evaluate_all(ends)
    labels = page.locator(".segment").evaluate_all("all => all.map((at) => at.getAttribute('aria-label'))")
    shares = [float(re.search(r", (\S+)\s% of the path", label)[1]) for label in labels]
    whole = boxes[-1][1] - boxes[0][0]
    assert len(boxes) == 4 and all(one[1] == pytest.approx(other[0], abs=0.1) for one, other in zip(boxes, boxes[1:]))
    for (left, right), share in zip(boxes, shares):
        assert 100 * (right - left) / whole == pytest.approx(share, abs=0.6)
    assert page.locator(".segment.perhaps").count() == 2, "which is the slowest is not resolved"
    told = page.locator(".told:visible")
    assert told.count() == 0
    page.locator(".segment").nth(2).focus()
    assert "relay.sent → server.received: median" in told.inner_text()
    page.locator(".segment").first.hover()
    assert "client.send → relay.received: median" in told.inner_text()
    table = page.locator("[aria-label='Table of stages']").bounding_box()
    assert table["y"] < 900, "bar and table begin on the first screen"


def test_a_head_leads_to_what_it_means(shared_page):
    page = shared_page()
    page.get_by_role("link", name="common").click()
    assert page.get_by_text("how far all values of a stage may be shifted together").is_visible()


def test_no_two_places_of_the_page_have_one_name(shared_page):
    ids = shared_page().evaluate("() => [...document.querySelectorAll('[id]:not(svg *)')].map(e => e.id)")
    assert len(ids) > len(FIGURES) and sorted(ids) == sorted(set(ids))


def test_the_switch_changes_the_colours_of_page_and_figures(shared_page):
    page = shared_page()
    look = lambda: page.evaluate("() => [getComputedStyle(document.documentElement).backgroundColor, document.getElementById('boxes').layout.font.color]")
    light = look()
    page.locator("input[name=theme]").first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert page.locator("input[value=dark]").is_checked()
    dark = look()
    page.locator("input[name=theme]").first.check()
    assert dark[0] != light[0] and dark[1] != light[1]


@pytest.mark.parametrize("width", [1400, 1000, 400, 320])
def test_nothing_overlaps_is_cut_off_or_makes_the_page_scroll_sideways(shared_page, width):
    page = shared_page(width=width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.locator("details").evaluate_all("all => all.forEach((more) => { more.open = true })")
    for text in page.evaluate(TEXTS):
        assert text["box"][0] >= 0 and text["box"][2] <= width, text
    assert page.evaluate(CUT) == []
    if width < 640:
        # In a card a cell lays its parts out beside its label: a number and its bounds, no more.
        crowded = "() => [...document.querySelectorAll('.cards td')].filter((cell) => getComputedStyle(cell).display === 'flex' && cell.childNodes.length > 3)"
        assert page.evaluate(f"({crowded})().map((cell) => cell.textContent)") == []
    for figure in FIGURES:
        texts = page.evaluate("""id => {
          const box = document.getElementById(id).getBoundingClientRect();
          return [...document.querySelectorAll(`#${id} text`)].filter((text) => text.textContent.trim()).map((text) => {
            const { left, top, right, bottom } = text.getBoundingClientRect();
            return { text: text.textContent, box: [left - box.left, top - box.top, right - box.left, bottom - box.top], room: [box.width, box.height] };
          });
        }""", figure)
        assert len(texts) > 4
        for number, one in enumerate(texts):
            left, top, right, bottom = one["box"]
            assert left >= -1 and top >= -1 and right <= one["room"][0] + 1 and bottom <= one["room"][1] + 1, (figure, one)
            for other in texts[number + 1:]:
                apart = right <= other["box"][0] + 1 or other["box"][2] <= left + 1 or bottom <= other["box"][1] + 2 or other["box"][3] <= top + 2
                assert apart, (figure, one, other)


def test_print_is_dark_on_light_with_figures_that_fit_the_sheet(shared_page):
    page = shared_page(dark=True)
    page.evaluate("dispatchEvent(new Event('beforeprint'))")  # a browser says so while it still shows the screen
    page.emulate_media(media="print")
    page.wait_for_function("getComputedStyle(document.documentElement).colorScheme == 'light'")
    for figure in FIGURES:
        page.wait_for_function("id => document.getElementById(id)._fullLayout.width <= 700", arg=figure)
    texts = [text for text in page.evaluate(TEXTS) if text["behind"]]
    assert texts and all(contrast(text["colour"], (255, 255, 255)) >= TEXT_CONTRAST for text in texts)


def test_what_the_script_writes_of_a_bound_is_rounded_outward(shared_page):
    """Its own functions, taken out of the file, asked of any ticks at any rate."""
    script = (TREE / "crates/show/page/page.js").read_text()
    functions = script[script.index("const units =") : script.index("const interval =")]
    drawn = random.Random(7)
    page = shared_page()
    for hertz in (1, 997, 999_999_937, 2_299_998_035, 10_000_000_000):
        for per_second, decimals in ((1_000_000, 2), (1_000, 3), (1, 4), (1_000_000_000, 0)):
            ticks = [0, 1, -1, 2**53 - 1, -(2**53), 2**63 - 1, -(2**63)] + [drawn.randrange(-(10**n), 10**n) for n in range(1, 19)]
            unit = {"hertz": hertz, "per_second": per_second, "decimals": decimals}
            asked = f"([unit, ticks]) => {{ {functions} return ticks.map((one) => [down(one), near(one), up(one)]); }}"
            for tick, shown in zip(ticks, page.evaluate(asked, [unit, [float(tick) for tick in ticks]]), strict=True):
                down, near, up = (Fraction(text.replace("\u2212", "-")) for text in shown)
                exact, step = Fraction(tick * per_second, hertz), Fraction(1, 10**decimals)
                assert down <= exact <= up and down <= near <= up, (hertz, unit, tick, shown)
                if abs(tick) < 2**53:
                    assert up - down <= step and abs(near - exact) <= step / 2
