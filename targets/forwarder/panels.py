"""Panels of the age study's figures, drawn as one SVG: a line a primitive over R, ages with their intervals.

Assumes rows as figures.py has them. A point that is in no figure has no mark. Ages and rates have logarithmic axes.
"""

import html
import math

WIDE, HIGH, LEFT, TOP, RIGHT, BELOW = 460, 300, 70, 34, 14, 46
COLOURS = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#cc79a7",
    "#e69f00",
    "#56b4e9",
    "#000000",
    "#7f3c8d",
    "#8c564b",
    "#666666",
    "#aacc00",
    "#ff0066",
)

LETTERS = {("figure-4", 0.01): ("4(a) ", "4(b) ", ""), ("figure-4", 0.1): ("4(d) ", "4(e) ", "4(f) ")}


class Axis:
    """From values to places between two ends."""

    def __init__(self, values, ends, is_log, is_round=True):
        self.is_log = is_log and min(values) > 0
        low, high = (min(values), max(values)) if self.is_log else (0, max(values))
        if self.is_log and is_round:
            decades = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 2)
            steps = [step * 10.0**decade for decade in decades for step in (1, 2, 5)]
            low, high = max(one for one in steps if one <= low), min(one for one in steps if one > high)
        self.low, self.high, self.ends = low, high if high > low else low + 1, ends

    def at(self, value):
        low, high, value = ((math.log(one) if self.is_log else one) for one in (self.low, self.high, value))
        return self.ends[0] + (value - low) / (high - low) * (self.ends[1] - self.ends[0])

    def ticks(self):
        if not self.is_log:
            return [self.low + (self.high - self.low) * part / 4 for part in range(5)]
        decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        few = (1, 2, 5) if len(decades) < 5 else (1,)
        found = [step * 10.0**decade for decade in decades for step in few]
        return [tick for tick in found if self.low * 0.999 <= tick <= self.high * 1.001]


def text(x, y, words, more=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" {more}>{html.escape(words)}</text>'


def short(value):
    return f"{value:.4g}" if value < 1e4 else f"{value:.0f}" if value < 1e5 else f"{value / 1e6:.3g}M"


def panel(title, x_name, y_name, lines, colours, is_scatter=False):
    """One panel; `lines`: by name, points (x, median, low, high). Shares and counts begin at 0."""
    is_share = y_name.startswith("of ")
    points = [point for line in lines.values() for point in line]
    parts = [text(LEFT, 18, title, 'font-weight="bold"')]
    if not points:
        return [*parts, text(LEFT, HIGH / 2, "no trial may be used")]
    x = Axis([point[0] for point in points], (LEFT, WIDE - RIGHT), True, is_scatter)
    y = Axis([end for point in points for end in point[1:] if end is not None], (HIGH - BELOW, TOP), y_name == "us")
    for tick in x.ticks() if is_scatter else sorted({point[0] for point in points}):
        parts.append(f'<path d="M{x.at(tick):.1f} {TOP}V{HIGH - BELOW}" stroke="#ddd"/>')
        parts.append(text(x.at(tick), HIGH - BELOW + 15, short(tick), 'text-anchor="middle"'))
    for tick in y.ticks():
        parts.append(f'<path d="M{LEFT} {y.at(tick):.1f}H{WIDE - RIGHT}" stroke="#ddd"/>')
        parts.append(text(LEFT - 5, y.at(tick) + 4, f"{tick:.2%}" if is_share else short(tick), 'text-anchor="end"'))
    parts.append(text((LEFT + WIDE) / 2, HIGH - 12, x_name, 'text-anchor="middle"'))
    parts.append(text(12, HIGH / 2, y_name, f'text-anchor="middle" transform="rotate(-90 12 {HIGH / 2})"'))
    for name, line in lines.items():
        colour = colours[name]
        places = [(x.at(point[0]), y.at(point[1])) for point in sorted(line)]
        if not is_scatter:
            way = " ".join(f"{left:.1f},{top:.1f}" for left, top in places)
            parts.append(f'<polyline points="{way}" fill="none" stroke="{colour}"/>')
        for place, low, high in ((point[0], *point[2:]) for point in line):
            if low is not None and high is not None:
                ends = f"M{x.at(place):.1f} {y.at(low):.1f}V{y.at(high):.1f}"
                parts.append(f'<path d="{ends}" stroke="{colour}"/>')
        radius = 1.2 if is_scatter else 3
        parts += [f'<circle cx="{left:.1f}" cy="{top:.1f}" r="{radius}" fill="{colour}"/>' for left, top in places]
    return parts


def lines_of(rows, point):
    """By primitive, where `point` finds something."""
    lines = {}
    for row in rows:
        found = point(row)
        if found and found[0] is not None:
            lines.setdefault(row["values"].get("fib", "no table"), []).append((row["values"]["rate"], *found))
    return lines


def count(name):
    def found(row):
        value = row["counts"][name]
        return value is not None and (value, None, None)

    return found


def panels_of(name, rows, ends):
    """Title, unit of the y axis, and lines."""
    if name == "figure-3":
        yield "3(a) average age", "us", lines_of(rows, lambda row: row["ages"][0])
        yield "3(b) packets a batch", "packets", lines_of(rows, count("sent_batch_mean"))
        return
    for cdr in sorted({row["values"].get("cdr", "") for row in rows}):
        some = [row for row in rows if row["values"].get("cdr", "") == cdr]
        of = f", CDR {cdr}" if cdr != "" else ""
        letters = LETTERS.get((name, cdr), ("", "", ""))
        for at, end in enumerate(ends):
            title = f"{letters[0] if at == 0 else ''}average age at {end}{of}"
            yield title, "us", lines_of(some, lambda row, at=at: row["ages"][at])
        yield f"age of user 0{of}", "us", lines_of(some, lambda row: row["user_0"])
        yield f"{letters[1]}data dropped{of}", "of data", lines_of(some, count("data_drop_share"))
        yield f"{letters[2]}misaddressed{of}", "of received", lines_of(some, count("misaddressed_share"))
        yield f"versions at once{of}", "versions", lines_of(some, count("versions_most"))


def panel_of_users(values, ages, colours):
    """Panel 4(c): each user's age in a trial at those parameters."""
    points = [(rank, age, None, None) for rank, age in enumerate(sorted(ages), 1)]
    of = ", ".join(str(value) for value in values.values())
    return panel(f"4(c) age of each user at {of}", "users by their age", "us", {"rwl-spin": points}, colours, True)


def draw(file, name, rows, ends, users=None):
    """Writes all panels of that figure; `users`: parameters of a trial, and the age of each of its users."""
    found = list(panels_of(name, rows, ends))
    names = list(dict.fromkeys(row["values"].get("fib", "no table") for row in rows))
    colours = {one: COLOURS[at % len(COLOURS)] for at, one in enumerate(names)}
    drawn = [panel(title, "R, packets a second", unit, lines, colours) for title, unit, lines in found]
    drawn += [panel_of_users(*users, colours)] if users else []
    across = 3 if len(drawn) > 2 else 2
    height = HIGH * math.ceil(len(drawn) / across) + 34
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{across * WIDE}" height="{height}" '
        'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="#fff"/>'
    ]
    for at, one in enumerate(names):
        parts.append(f'<circle cx="{LEFT + 118 * at}" cy="16" r="4" fill="{colours[one]}"/>')
        parts.append(text(LEFT + 118 * at + 9, 20, one))
    for at, one in enumerate(drawn):
        parts.append(f'<g transform="translate({at % across * WIDE} {at // across * HIGH + 34})">')
        parts += [*one, "</g>"]
    with open(file, "w", encoding="utf-8") as out:
        out.write("\n".join([*parts, "</svg>\n"]))
