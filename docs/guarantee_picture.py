"""Draws docs/guarantee.svg: brackets as constraints, the cone that each one opens, and the envelope of all of them.

What is drawn is computed as brackets are: the slowest and the fastest slope that the declared rho allows, the tightest of all
lower and of all upper bounds. The vertical axis is the offset between the two clocks, so a clock of constant rate is level.
"""

import math
from pathlib import Path

WIDTH, HEIGHT = 820, 420
LEFT, RIGHT, TOP, BOTTOM = 30, 800, 40, 380
SECONDS, MICROSECONDS = 10.0, 24.0  # what the axes span
RHO = 1.1  # us/s, that is ppm: how fast the offset may change

# (at, lower, upper): seconds, and us below and above the truth that the message's delays leave; None: that side is
# open.
BRACKETS = [
    (0.6, 4.2, 3.0), (1.5, None, 2.2), (2.3, 1.6, 6.5), (3.3, 5.0, None), (4.1, 2.4, 1.9),
    (5.6, None, 4.5), (6.3, 3.4, 7.0), (7.4, 1.5, None), (8.6, 4.5, 2.6), (9.5, 2.8, 3.9),
]
SHOWN = 4  # the bracket whose cone is drawn


def truth(at):
    """The true offset: its slope stays within RHO."""
    return 11.0 + 1.6 * math.sin(0.55 * at)


def ends(bracket):
    at, below, above = bracket
    return at, None if below is None else truth(at) - below, None if above is None else truth(at) + above


def cone(at, end, where, side):
    """The bound that one end of a bracket puts on the offset at `where`; side -1: from below, 1: from above."""
    return end + side * RHO * abs(where - at)


def envelope(where):
    lower = [cone(at, low, where, -1) for at, low, _ in map(ends, BRACKETS) if low is not None]
    upper = [cone(at, high, where, 1) for at, _, high in map(ends, BRACKETS) if high is not None]
    return max(lower), min(upper)


def x(at):
    return LEFT + at / SECONDS * (RIGHT - LEFT)


def y(offset):
    return BOTTOM - offset / MICROSECONDS * (BOTTOM - TOP)


def path(points):
    return "M" + " L".join(f"{x(at):.1f} {y(offset):.1f}" for at, offset in points)


def bar(bracket):
    at, low, high = ends(bracket)
    bottom, top = (truth(at) - 7.5 if low is None else low), (truth(at) + 7.5 if high is None else high)
    parts = [f'<path class="bracket" d="M{x(at):.1f} {y(bottom):.1f} V{y(top):.1f}"/>']
    for end, side in ((low, bottom), (high, top)):
        if end is None:  # open: an arrow
            tip, back = y(side), 6 if side < truth(at) else -6
            parts.append(f'<path class="bracket" d="M{x(at) - 4:.1f} {tip - back:.1f} L{x(at):.1f} {tip:.1f} L{x(at) + 4:.1f} {tip - back:.1f}"/>')
        else:
            parts.append(f'<path class="bracket" d="M{x(at) - 5:.1f} {y(end):.1f} h10"/>')
    return "".join(parts)


def label(at, offset, words, kind="", anchor="start"):
    return f'<text class="{kind}" x="{x(at):.1f}" y="{y(offset):.1f}" text-anchor="{anchor}">{words}</text>'


def drawing():
    steps = [SECONDS * step / 400 for step in range(401)]
    bounds = [envelope(at) for at in steps]
    lower, upper = [list(zip(steps, side)) for side in zip(*bounds)]
    middle = [(at, (low + high) / 2) for at, (low, high) in zip(steps, bounds)]
    at, low, high = ends(BRACKETS[SHOWN])
    reach = 3.2
    cones = [[(at - reach, cone(at, end, at - reach, side)), (at, end), (at + reach, cone(at, end, at + reach, side))]
             for end, side in ((low, -1), (high, 1))]
    shapes = [
        f'<path class="band" d="{path(lower + upper[::-1])} Z"/>',
        *[f'<path class="cone" d="{path(points)}"/>' for points in cones],
        f'<path class="edge" d="{path(lower)}"/>', f'<path class="edge" d="{path(upper)}"/>',
        f'<path class="middle" d="{path(middle)}"/>',
        f'<path class="truth" d="{path([(at, truth(at)) for at in steps])}"/>',
        *map(bar, BRACKETS),
        f'<path class="axis" d="M{LEFT} {BOTTOM} H{RIGHT}"/>',
    ]
    words = [
        label(5.75, 19.6, "one message: open on one side", "bracket-word"),
        label(0.0, 23.6, "offset of B's clock against A's", "axis-word"),
        label(10.0, -2.0, "B's own tick", "axis-word", "end"),
        label(at - 0.9, 22.3, "the cone that one bracket opens:", "cone-word", "middle"),
        label(at - 0.9, 21.2, "as fast as rho lets a clock drift", "cone-word", "middle"),
        label(8.05, 3.4, "hi and lo: the tightest of all cones.", "edge-word", "middle"),
        label(8.05, 2.3, "The true clock (dotted) lies between,", "edge-word", "middle"),
        label(8.05, 1.2, "dashes: the estimate, its middle", "edge-word", "middle"),
        label(2.15, 2.9, "a bracket: no earlier", "bracket-word", "middle"),
        label(2.15, 1.8, "than its foot, no later than its head", "bracket-word", "middle"),
    ]
    return shapes + words


STYLE = """
  text { font: 14px system-ui, sans-serif; fill: #333 }
  .band { fill: #2a6fbb; fill-opacity: .16 } .edge { stroke: #2a6fbb; stroke-width: 2.5; fill: none } .edge-word { fill: #1f5a9c }
  .middle { stroke: #2a6fbb; stroke-width: 1.5; stroke-dasharray: 7 5; fill: none }
  .truth { stroke: #222; stroke-width: 2; stroke-dasharray: 1.5 4; stroke-linecap: round; fill: none }
  .cone { stroke: #b2541a; stroke-width: 1.5; fill: none } .cone-word { fill: #99440f }
  .bracket { stroke: #555; stroke-width: 2; fill: none } .axis { stroke: #777; fill: none } .axis-word { fill: #666 }
  @media (prefers-color-scheme: dark) {
    text { fill: #ddd } .band { fill: #6ab0ff } .edge, .middle { stroke: #6ab0ff } .edge-word { fill: #8cc2ff }
    .truth { stroke: #eee } .cone { stroke: #f0a060 } .cone-word { fill: #f4b684 }
    .bracket { stroke: #bbb } .axis { stroke: #999 } .axis-word { fill: #aaa }
  }
"""


def picture():
    title = "Brackets bound the offset of two clocks at some instants; between them the bound opens as fast as rho allows."
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{title}">'
    return "\n".join([head, f"<title>{title}</title>", f"<style>{STYLE}</style>", *drawing(), "</svg>", ""])


if __name__ == "__main__":
    Path(__file__).with_name("guarantee.svg").write_text(picture())
