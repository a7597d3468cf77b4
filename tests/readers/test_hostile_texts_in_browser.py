"""Pages of a run whose texts are hostile, in a browser: nothing of them runs, is an element, asks or widens."""

import json
import os
import subprocess

import lossy_run
import pytest

OWN = "window.owned = 1"
# What is tried; each has a mark by which it is found again.
TEXTS = [
    f"<script>{OWN}</script>",
    f"</script><script>{OWN}</script>",
    f"<img src=x onerror='{OWN}'>",
    f"<svg onload='{OWN}'></svg>",
    f"\"><svg/onload=\"{OWN}\">",
    f"' autofocus onfocus='{OWN}' x='",
    f"javascript:{OWN}",
    f"<a href=\"javascript:{OWN}\">go</a>",
    f"<iframe srcdoc=\"<script>parent.{OWN}</script>\"></iframe>",
    "</style><style>* { display: none !important }</style>",
    "</title></head><body><!-- <plaintext>",
    "<base href='http://192.0.2.1/'><link rel=stylesheet href=x.css>",
    "<meta http-equiv=refresh content='0;url=http://192.0.2.1/'>",
    "<form action=http://192.0.2.1/><button autofocus>send</button></form>",
    "&lt;script&gt; &#60;b&#62; {title} {0} ${7*7} %s",
    "\u001b[2J\u001b]8;;http://192.0.2.1/\u0007link\u0000",
    "\u202egnp.exe\u202c \u2066isolated\u2069",
    "W" * 10_000,
]
WIDTHS = [1400, 1000, 400, 320]


def hostile(run, single):
    """The run with `single` in every field that holds one text, and all of the texts where there may be several."""
    manifest = json.loads((run / "run.json").read_text())
    for node in manifest["nodes"]:
        node |= {"cpu_model": single, "kernel": single, "host": single, "injected": single, "command": [*TEXTS, single]}
        node["counter"] |= {"clocksource": single, "hypervisor": single}
    name = json.dumps(single).replace("\\u0000", "")  # TOML's strings are JSON's, but for this letter
    manifest |= {"tickscope": single, "revision": single, "run_file": f"[run]\nname = {name}\n# {single}"}
    manifest["assumptions"] = [{"statement": text, "origin": text} for text in [*TEXTS, single]]
    (run / "run.json").write_text(json.dumps(manifest))
    event = {"channel": None, "tick": None, "until": None, "what": "target", "value": 1}
    rows = [event | {"node": text, "domain": text, "text": text} for text in TEXTS]
    lossy_run.write_events(run, rows)


SINGLE = ["".join(text for text in TEXTS if len(text) < 1000), "W" * 10_000]


if os.environ.get("TICKSCOPE_TESTS") == "all":
    SINGLE = TEXTS


@pytest.fixture(scope="module", params=SINGLE, ids=lambda text: text[:20])
def report(request, tickscope, tmp_path_factory):
    run = lossy_run.make(tmp_path_factory.mktemp("runs") / "run")
    hostile(run, request.param)
    subprocess.run([tickscope, "report", run], check=True, capture_output=True)
    return run / "report.html"


@pytest.fixture(scope="module")
def page(opened, report):
    page = opened(report.as_uri(), 1200, dark=False)
    page.wait_for_function("() => document.querySelector('#boxes .main-svg')")
    return page


# The page has buttons of its own, by these marks.
FOREIGN = """() => ({
  elements: [...document.querySelectorAll("img, iframe, form, base, object, embed, plaintext")]
    .concat([...document.querySelectorAll("button:not([data-key], .to-slowest)")])
    .concat([...document.querySelectorAll("a:not([href^='#']), link:not([rel=icon])")]).map((at) => at.outerHTML),
  scripts: document.scripts.length,
  handlers: [...document.querySelectorAll("body *")].flatMap((at) => at.getAttributeNames())
    .filter((name) => name.startsWith("on") || name === "autofocus").length,
  owned: window.owned,
  letters: /[\\u0000-\\u0008\\u001b\\u202a-\\u202e\\u2066-\\u2069]/.test(document.body.innerText),
})"""


# What reaches beyond the right edge.
WIDE = """() => [...document.querySelectorAll("main *:not(.figure *)")]
  .filter((at) => at.getBoundingClientRect().right > innerWidth + 1).map((at) => at.outerHTML.slice(0, 200))"""


def test_hostile_texts_run_nothing_make_no_element_ask_for_nothing_and_widen_nothing(page):
    page.locator("details").evaluate_all("all => all.forEach((more) => { more.open = true })")
    assert page.evaluate(FOREIGN) == {"elements": [], "scripts": 3, "handlers": 0, "owned": None, "letters": False}
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        # The figures follow the window a moment later.
        page.wait_for_function("width => document.documentElement.scrollWidth <= width", arg=width, timeout=60_000)
        assert page.evaluate(WIDE) == [], width
    assert page.trouble == []


def test_a_script_that_is_not_the_pages_own_is_refused(page):
    policy = page.locator("meta[http-equiv=Content-Security-Policy]").get_attribute("content")
    assert "base-uri 'none'" in policy and "form-action 'none'" in policy
    made = f"Object.assign(document.createElement('script'), {{ textContent: '{OWN}' }})"
    page.evaluate(f"() => document.body.append({made})")
    page.evaluate(f"() => document.body.insertAdjacentHTML('beforeend', `<i id=tried onclick='{OWN}'>x</i>`)")
    page.evaluate("() => document.getElementById('tried').click()")
    assert page.evaluate("window.owned") is None
