"""Curves over the number of threads as an SVG, each kind of figure beside the level that bounds it."""

import html

WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 460, 300, 56, 40, 46
COLOURS = ("#1b6ca8", "#c4501b", "#3b8f3e", "#7a4fa3", "#8a6d1d", "#555555")


def drawn(panels):
    """`panels`: title, unit, curves by name as (threads, value) pairs, and levels by name."""
    parts = [panel(number * WIDTH, *each) for number, each in enumerate(panels)]
    size = f'width="{WIDTH * len(parts)}" height="{HEIGHT + 90}"'
    opened = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="11">'
    return f"{opened}\n{''.join(parts)}</svg>\n"


def panel(left, title, unit, curves, levels):
    points = [point for curve in curves.values() for point in curve]
    most = 1.1 * max([value for _, value in points] + [value for value in levels.values()])
    threads = sorted({count for count, _ in points})
    inner_width, inner_height = WIDTH - LEFT - 20, HEIGHT - TOP - BOTTOM

    def x(count):
        return left + LEFT + inner_width * (0.5 + threads.index(count)) / len(threads)

    def y(value):
        return TOP + inner_height * (1 - value / most)

    lines = [text(left + LEFT, 16, title), text(left + LEFT, 30, unit)]
    lines += [text(x(count) - 3, HEIGHT - BOTTOM + 16, str(count)) for count in threads]
    lines.append(text(left + LEFT, HEIGHT - BOTTOM + 32, "threads"))
    for tick in range(5):
        value = most * tick / 4
        lines.append(line([(left + LEFT, y(value)), (left + WIDTH - 20, y(value))], "#dddddd"))
        lines.append(text(left + 8, y(value) + 4, f"{value:.0f}"))
    names = list(curves) + list(levels)
    for number, name in enumerate(names):
        colour = COLOURS[number % len(COLOURS)]
        if name in curves:
            shown = [(x(count), y(value)) for count, value in sorted(curves[name])]
            lines.append(line(shown, colour))
            lines += [f'<circle cx="{at:.1f}" cy="{of:.1f}" r="3" fill="{colour}"/>\n' for at, of in shown]
        else:
            lines.append(line([(left + LEFT, y(levels[name])), (left + WIDTH - 20, y(levels[name]))], colour, "5,4"))
        lines.append(text(left + LEFT + 210 * (number % 2), HEIGHT + 14 * (number // 2), name, colour))
    return "".join(lines)


def line(points, colour, dashes=""):
    places = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{places}" fill="none" stroke="{colour}" stroke-dasharray="{dashes}"/>\n'


def text(x, y, what, colour="#222222"):
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}">{html.escape(what)}</text>\n'
