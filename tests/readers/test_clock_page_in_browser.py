"""The pages of `tickscope clock` in a browser, offline: figures say what the numbers say, read off their own axes, and can be read by everybody."""

import json
import math
import re
import subprocess

import pytest
from conftest import TREE, free_port
from page_look import COLOUR, CUT, GRAPHIC_CONTRAST, TEXT_CONTRAST, TEXTS, contrast

ASKED = {
    "benchmark": ["--seconds", "6", "--load", "0,1", "--readers", "3", "--json"],
    "sweep": ["sweep", "--seconds", "3", "--load", "1", "--json"],
    "example": ["example", "--json"],
}
PAGES = list(ASKED)
# Smaller letters than these are not read, pixels.
LEAST_LETTERS = 9

# A figure's labels with their places, and what is drawn in it, in the figure's own pixels.
FIGURE = """svg => {
  const of = (name, keys) => [...svg.querySelectorAll(name)].map((at) => Object.fromEntries(keys.map((key) => [key, Number(at.getAttribute(key))])));
  return {
    texts: [...svg.querySelectorAll("text")].map((at) => ({ text: at.textContent, x: Number(at.getAttribute("x")), y: Number(at.getAttribute("y")), anchor: at.getAttribute("text-anchor") })),
    lines: [...svg.querySelectorAll("polyline")].map((at) => at.getAttribute("points").split(" ").filter(Boolean).map((point) => point.split(",").map(Number))),
    marks: [...svg.querySelectorAll("line.mark")].map((at) => [Number(at.getAttribute("x1")), at.getAttribute("style").includes("dasharray")]),
    levels: of("line.level", ["y1"]).map((at) => at.y1),
    bands: of("rect", ["y", "height"]).map((at) => [at.y, at.y + at.height]),
  };
}"""

# Pairs of a figure's texts that overlap, and those that leave it.
CROWDED = """() => [...document.querySelectorAll("svg[role=img]")].filter((svg) => svg.checkVisibility()).flatMap((svg) => {
  const room = svg.getBoundingClientRect();
  const texts = [...svg.querySelectorAll("text")].map((at) => [at.textContent, at.getBoundingClientRect()]);
  const out = texts.filter(([, box]) => box.left < room.left - 1 || box.right > room.right + 1 || box.top < room.top - 1 || box.bottom > room.bottom + 1);
  const over = texts.flatMap(([text, one], number) => texts.slice(number + 1).filter(([, other]) =>
    one.right > other.left + 1 && other.right > one.left + 1 && one.bottom > other.top + 2 && other.bottom > one.top + 2).map(([other]) => `${text} on ${other}`));
  return [...out.map(([text]) => `${text} leaves the figure`), ...over].map((trouble) => `${svg.getAttribute("aria-label")}: ${trouble}`);
})"""


@pytest.fixture(scope="module")
def example_run(tickscope, tmp_path_factory):
    """A short run of targets/cm-star over loopback."""
    folder = tmp_path_factory.mktemp("cm-star")
    program = folder / "cm-star"
    source = TREE / "targets/cm-star/cm-star.c"
    subprocess.run([TREE / "tests/compiled.py", "cc", "-D_GNU_SOURCE", "-o", program, source], check=True)
    text = (TREE / "experiments/cm-star.toml").read_text()
    for was, now in {
        "../build/cm-star": str(program), '"auto"': '"loopback"', "probes_hz = 1000": f"probes_hz = 500\nprobe_port = {free_port()}",
        '"512"': '"8", "--interval", "500"',
    }.items():
        assert was in text, was
        text = text.replace(was, now)
    (folder / "run.toml").write_text(text)
    subprocess.run([tickscope, "run", folder / "run.toml", "--out", folder / "run"], check=True, capture_output=True)
    return folder / "run"


@pytest.fixture(scope="module")
def made(tickscope, example_run, tmp_path_factory):
    """What the command wrote and what it printed, by page; each is made once."""
    folder, done = tmp_path_factory.mktemp("clock"), {}

    def make(name):
        if name not in done:
            place = folder / f"{name}.html"
            ran = subprocess.run([tickscope, "clock", *ASKED[name], *([example_run] if name == "example" else []), "--html", place],
                                 capture_output=True, text=True)
            assert ran.returncode in (0, 3), ran.stderr  # 3: a clock of this machine breaks its promise
            done[name] = place, json.loads(ran.stdout)
        return done[name]

    return make


@pytest.fixture(scope="module")
def open_page(opened, made):
    """Opens a page anew, folded."""
    return lambda name, width=1200, dark=False: opened(made(name)[0].as_uri(), width, dark)


@pytest.fixture(scope="module")
def shared_page(open_page):
    """A page as other tests left it, all of it unfolded; laying it out takes seconds."""
    pages = {}

    def share(name, width=1200, dark=False):
        key = (name, width, dark)
        if key not in pages:
            pages[key] = open_page(*key)
            pages[key].locator("details").evaluate_all("all => all.forEach((more) => { more.open = true })")
        return pages[key]

    return share


def nanoseconds(label):
    """The number that a label stands for, or nothing."""
    if raised := re.match(r"10([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)", label):
        power = raised[1].translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789"))
        label = f"{10 ** int(power):.40f}{label[raised.end() :]}"
    found = re.fullmatch(r"(-?[\d.]+)(?: (ns|µs|ms|s|%))?", label)
    return found and float(found[1]) * {"ns": 1, "µs": 1e3, "ms": 1e6, "s": 1e9, "%": 0.01, None: 1}[found[2]]


def scale(labels):
    """From pixels to values, by the labels beside an axis: in even steps, or by powers of ten if the labels are."""
    (value_1, at_1), (value_2, at_2) = labels[0], labels[-1]
    if value_1 > 0 and value_2 / value_1 >= 10 and math.log10(value_2 / value_1) == pytest.approx(round(math.log10(value_2 / value_1))):
        return lambda at: value_1 * (value_2 / value_1) ** ((at - at_1) / (at_2 - at_1))
    return lambda at: value_1 + (value_2 - value_1) * (at - at_1) / (at_2 - at_1)


def read(svg):
    """A figure as its reader takes it: everything drawn, in the units of its axes."""
    figure = svg.evaluate(FIGURE)
    named = lambda anchor: [(nanoseconds(text["text"]), text["x" if anchor == "middle" else "y"] - (0 if anchor == "middle" else 4))
                            for text in figure["texts"] if text["anchor"] == anchor and nanoseconds(text["text"]) is not None]
    x, y = scale(named("middle")), scale(named("end"))
    return {
        "lines": [[[x(at[0]), y(at[1])] for at in line] for line in figure["lines"]],
        "marks": [(x(at), dashed) for at, dashed in figure["marks"]],
        "bands": [[y(end) for end in band] for band in figure["bands"]],
        "levels": [y(at) for at in figure["levels"]],
        "names": [text["text"] for text in figure["texts"]],
    }


def near(found, expected, places=()):
    """The same to a pixel or two of a figure 150 high, whether its axis goes in even steps or by powers of ten."""
    room = max(abs(value) for value in [*expected, *places, 1e-9])
    return len(found) == len(expected) and all(abs(a - b) <= max(0.03 * abs(b), 0.015 * room) for a, b in zip(found, expected))


def part(page, title):
    return page.locator("main > section").filter(has=page.get_by_role("heading", name=title, level=2, exact=True))


def panel(within, title):
    return within.locator(".panel").filter(has=within.page.get_by_role("heading", name=title, level=3, exact=True))


@pytest.mark.parametrize("name", PAGES)
def test_a_page_opens_without_a_word_of_trouble_without_a_request_and_without_a_script(shared_page, name):
    page = shared_page(name)
    page.wait_for_timeout(200)
    assert page.trouble == []
    policy = page.locator("meta[http-equiv=Content-Security-Policy]").get_attribute("content")
    assert "base-uri 'none'; form-action 'none'" in policy
    assert page.locator("script").count() == 0 and page.locator("svg[role=img]").count() > 0
    assert page.locator("svg[role=img]:not([aria-label])").count() == 0


def test_advice_comes_first_and_whole(shared_page, made):
    page, found = shared_page("benchmark"), made("benchmark")[1]
    first = page.locator("main > *").first
    assert first.get_attribute("aria-label") == "Advice"
    on_page = lambda words: re.sub(r"(\d) us\b", r"\1 µs", words)
    assert first.locator("p").all_inner_texts() == [on_page(words) for words in found["findings"] + found["advice"]]


@pytest.mark.parametrize("name", ["benchmark", "sweep", "example"])
def test_every_part_is_in_the_list_below_the_advice_and_the_list_leads_there(shared_page, name):
    page = shared_page(name)
    titles = page.locator("main > section h2").all_inner_texts()
    assert page.locator("nav a").all_inner_texts() == titles and len(titles) > 1
    for link, title in zip(page.locator("nav a").all(), titles):
        place = link.get_attribute("href")
        assert page.locator(f"main > section:is({place}, :has({place})) h2").inner_text() == title


def test_every_term_that_a_table_of_the_study_uses_is_explained(shared_page):
    page = shared_page("benchmark")
    terms = [term for entry in page.locator("dl.terms dt").all_inner_texts() for term in entry.split(", ")]
    tables = page.get_by_role("region", name=re.compile("Cost and resolution|What methods leave|Factors of method-1|At a glance"))
    columns = set(tables.locator("thead th:not(:first-child)").all_inner_texts())
    methods = {"none", "constant", "long-term", "method-1", "method-2"}
    explained = page.locator("dl.terms").all_inner_texts()
    for column in columns - methods:
        assert column in terms or re.sub(r"^\S+ % from", "... % from", column) in terms, column
    assert all(any(method in text for text in explained) for method in methods)
    names = [name for entry in terms for name in [entry.strip(". ")]]
    for clock in ("tsc plain", "ticker thread", "mutex", "unix socket", "udp socket"):
        assert clock in names or clock in terms, clock


def test_every_ramp_is_there_and_says_what_was_measured(shared_page, made):
    page, found = shared_page("benchmark"), made("benchmark")[1]
    ramps = part(page, "While readers start and stop")
    per_ns = found["counter"]["hertz"] / 1e9
    load_words = {0: "with the machine as it is", 1: "with 1 busy process running"}
    count = 0
    for clock in found["clocks"]:
        for load in clock["loads"]:
            for cell in load["cells"]:
                if cell["readers"] == 1:
                    continue
                count += 1
                if clock["clock"] not in ("mutex", "tsc plain", "udp socket"):
                    continue
                title = f"{clock['clock']}, {cell['readers']} readers, {load_words[load['busy_processes']]}"
                drawn, ramp = read(panel(ramps, title).locator("svg[role=img]")), cell["ramp"]
                whole = ramp["ticks"] / per_ns
                slices = len(ramp["slices"])
                points = [[(number + 0.5) / slices * whole, one["cost_ticks"] / per_ns]
                          for number, one in enumerate(ramp["slices"]) if one["cost_ticks"] is not None]
                at = [point for line in drawn["lines"] for point in line]
                assert near([x for x, _ in at], [x for x, _ in points], [whole]), title
                assert near([y for _, y in at], [y for _, y in points]), title
                assert near([x for x, dashed in drawn["marks"] if not dashed], [start * whole for start in ramp["started"]], [whole]), title
                assert near([x for x, dashed in drawn["marks"] if dashed], [stop * whole for stop in ramp["stopped"]], [whole]), title
                assert {"time", "median cost of a reading"} <= {name.removesuffix(", log") for name in drawn["names"]}
                assert len(ramp["started"]) == cell["readers"] - 1
    assert ramps.locator(".panel").count() == count > 0


def felt(ramp):
    """Twice the cost in the middle, as the words above the figures say."""
    costs = [one["cost_ticks"] for one in ramp["slices"]]
    middle_of = lambda part: sorted(cost for cost in part if cost is not None)
    first, middle = middle_of(costs[:4]), middle_of(costs[9:14])
    return bool(first and middle) and middle[len(middle) // 2] >= 2 * first[len(first) // 2]


def test_ramps_that_are_felt_are_shown_and_the_others_one_click_away(open_page, made):
    page, found = open_page("benchmark"), made("benchmark")[1]
    ramps = part(page, "While readers start and stop")
    assert not any(title.is_visible() for title in ramps.locator("h3").all()), "chapters are folded"
    ramps.locator("summary").first.click()
    shown = [title for title in ramps.locator("h3").all() if title.is_visible()]
    expected = [clock["clock"] for clock in found["clocks"] for load in clock["loads"] if felt(load["cells"][-1]["ramp"])]
    assert [title.inner_text().split(",")[0] for title in shown] == expected
    ramps.locator("details details summary").focus()
    page.keyboard.press("Enter")
    assert ramps.locator("h3").last.is_visible()


def test_cost_and_resolution_are_drawn_against_the_number_of_readers_for_every_clock(shared_page, made):
    page, found = shared_page("benchmark"), made("benchmark")[1]
    crowds = part(page, "Several readers at once")
    assert crowds.locator(".panel").count() == len(found["clocks"])
    for clock in found["clocks"]:
        figures = panel(crowds, clock["clock"]).locator("svg[role=img]")
        for number, of in enumerate((lambda cell: cell["cost"]["median_ns"], lambda cell: cell["usable_ns"])):
            if not any(of(cell) for load in clock["loads"] for cell in load["cells"]):
                continue
            drawn = read(figures.nth(number))
            highest = [of(cell) or 0 for load in clock["loads"] for cell in load["cells"]]
            assert len(drawn["lines"]) == len(clock["loads"])
            for line, load in zip(drawn["lines"], clock["loads"]):
                cells = [cell for cell in load["cells"] if of(cell)]
                assert near([x for x, _ in line], [cell["readers"] for cell in cells]), clock["clock"]
                assert near([y for _, y in line], [of(cell) for cell in cells], highest), clock["clock"]


def test_k_is_drawn_against_the_pulses_with_the_place_where_it_stops_helping(shared_page, made):
    page, found = shared_page("sweep"), made("sweep")[1]["tests"]
    helps = part(page, "Does subtracting help?")
    for clock in {test["clock"] for test in found}:
        tests = sorted((test for test in found if test["clock"] == clock), key=lambda test: -test["pulse_ns"])
        factors = [next((one["k_untouched"] for one in test["test"]["outcomes"] if one["method"] == "method-1"), None) for test in tests]
        k = [factor and factor["median"] for factor in factors]
        predicted = [test["test"]["k_predicted"] and test["test"]["k_predicted"]["median"] for test in tests]
        drawn = read(panel(helps, clock).locator("svg[role=img]"))
        for line, values in zip(drawn["lines"], (k, predicted), strict=True):
            expected = [(test["pulse_ns"], value) for test, value in zip(tests, values) if value is not None]
            assert [x for x, _ in line] == pytest.approx([x for x, _ in expected], rel=0.03), clock
            assert [y for _, y in line] == pytest.approx([y for _, y in expected], rel=0.03), clock
        assert drawn["bands"][0][0] == pytest.approx(1, rel=0.02), "what does not help is shaded from 1 down"
        ends = [factor and factor["between"] or [None, None] for factor in factors]
        good = [lo is not None and lo > 1 for lo, _ in ends]
        fails = [hi is not None and hi < 1 for _, hi in ends]
        last = max((at for at, helped in enumerate(good) if helped), default=None)
        following = [at for at, bad in enumerate(fails) if bad and last is not None and at > last]
        stops = [x for x, dashed in drawn["marks"] if not dashed]
        if following:
            assert tests[following[0]]["pulse_ns"] < stops[0] < tests[last]["pulse_ns"] and len(stops) == 1, clock
        else:
            assert stops == [], clock
        cost = max(one["residual_median"] for test in tests for one in test["test"]["outcomes"] if one["method"] == "none")
        assert [x for x, dashed in drawn["marks"] if dashed] == pytest.approx([cost], rel=0.03), clock
    assert page.get_by_role("region", name="Every clock under every pulse").locator("tbody tr").count() == len(found)
    assert len(part(page, "What is left").locator(".panel").all()) == len({test["clock"] for test in found})


K = ["StarOS: 0.8", "Medusa: 3.57", "StarOS: 1.14", "Medusa: 1.11"]
STUDY = {f"As figure {figure}": k for figure, k in enumerate(K, 12)}


def test_the_figures_of_the_cm_star_study_show_what_was_measured(shared_page, made):
    page, found = shared_page("benchmark"), made("benchmark")[1]
    spreads = part(page, "Cm*, figures 4 to 7: how readings are spread")
    load_words = {0: "with the machine as it is", 1: "with 1 busy process running"}
    assert spreads.locator(".panel").count() == 2 * len(found["clocks"])
    for clock in found["clocks"]:
        for load in clock["loads"]:
            one = panel(spreads, f"{clock['clock']}, {load_words[load['busy_processes']]}")
            cells = [cell for cell in load["cells"] if cell["cost"]["density"]]
            assert len(one.locator("svg[role=img]").evaluate(FIGURE)["lines"]) == len(cells) == one.locator(".legend span").count()
            turns = [("taking turns" in words) for words in one.locator(".legend span").all_inner_texts()]
            assert turns == [cell["takes_turns"] for cell in cells], clock["clock"]
    nothing = part(page, "Cm*, figures 12 to 15: nothing, measured")
    for clock in found["clocks"]:
        titles = [title for title in nothing.locator("h3").all_inner_texts() if f": {clock['clock']}, method" in title]
        outcomes = [one for load in clock["loads"] for one in load["zero"]["outcomes"] if one["method"] in ("method-1", "method-2")]
        drawn = [title for title in titles if panel(nothing, title).locator("svg[role=img]").count()]
        assert len(drawn) == len(outcomes), clock["clock"]
        for title in titles:
            said = "Not drawn: " if title not in drawn else f"the study's, {STUDY[title.split(':')[0]]}"
            assert said in panel(nothing, title).inner_text(), title


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_every_text_has_the_contrast_of_level_aa_and_figures_stand_out(shared_page, name, dark):
    page = shared_page(name, dark=dark)
    texts = page.evaluate(TEXTS)
    assert len(texts) > 100 and sum(text["drawn"] for text in texts) > 10
    for text in texts:
        assert text["behind"] and text["colour"][3] == 255 and text["opacity"] == 1, text
        assert contrast(text["colour"], text["behind"]) >= TEXT_CONTRAST, text
    colours = {mark: page.evaluate(COLOUR, mark) for mark in ("muted", "accent", "second", "third", "paper", "soft")}
    for ground in ("paper", "soft"):
        for mark in ("muted", "accent", "second", "third"):
            assert contrast(colours[mark], colours[ground]) >= GRAPHIC_CONTRAST, (mark, ground)
    assert (sum(colours["paper"][:3]) < 150) == dark


def test_the_switch_changes_the_colours_without_a_script(shared_page):
    page = shared_page("example")
    paper = lambda: page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    light = paper()
    page.locator("input[value=dark]").check()
    dark = paper()
    page.locator("input[value=light]").check()
    assert dark != light == paper()


@pytest.mark.parametrize("width", [1400, 1000, 800, 400, 320])
@pytest.mark.parametrize("name", PAGES)
def test_nothing_overlaps_is_cut_off_or_makes_the_page_scroll_sideways(shared_page, name, width):
    page = shared_page(name, width=width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for text in page.evaluate(TEXTS):
        assert text["box"][0] >= -0.5 and text["box"][2] <= width + 0.5, text
    assert page.evaluate(CROWDED) == []
    letters = page.evaluate("() => [...document.querySelectorAll('svg[role=img] text')].filter((at) => at.checkVisibility()).map((at) => 12 * at.getScreenCTM().a)")
    assert letters and min(letters) >= LEAST_LETTERS
    assert page.evaluate(CUT) == []


@pytest.mark.parametrize("name", PAGES)
def test_print_is_dark_on_light_with_figures_that_fit_the_sheet(shared_page, name):
    page = shared_page(name, width=700, dark=True)
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "light"
    widths = page.evaluate("() => [...document.querySelectorAll('svg[role=img]')].map((svg) => svg.getBoundingClientRect().right)")
    assert widths and max(widths) <= 700
    texts = [text for text in page.evaluate(TEXTS) if text["behind"]]
    assert texts and all(contrast(text["colour"], (255, 255, 255)) >= TEXT_CONTRAST for text in texts)
