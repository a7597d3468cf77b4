"""Rows of the table: a figure, its unit, what was measured beside it in the same run, its target."""


def figure(name, value, unit, beside=None, target=None, met=None, **more):
    """One row. `beside`: (what, value in the same unit), measured in the same run."""
    row = {"name": name, "value": value, "unit": unit, "target": target, "met": met, **more}
    if beside:
        row["beside"], row["beside_value"] = beside
        row["ratio"] = value / beside[1] if beside[1] else None
    return row


def at_most(name, value, unit, limit, beside=None, **more):
    return figure(name, value, unit, beside, f"<= {limit:g} {unit}", value <= limit, **more)


def at_least(name, value, unit, limit, beside=None, **more):
    return figure(name, value, unit, beside, f">= {limit:g} {unit}", value >= limit, **more)


def none_of(name, count):
    return figure(name, count, "", None, "0", count == 0)


def quantile(values, share):
    return sorted(values)[min(int(len(values) * share), len(values) - 1)]


def median(values):
    return quantile(values, 0.5)


def interval_of_median(values):
    """The order statistics that hold the median in at least 95 % of samples; the ends where there are too few."""
    values, count = sorted(values), len(values)
    below, at, term = 0.0, 0, 0.5**count
    while at < count // 2 and below + term <= 0.025:
        below += term
        at += 1
        term *= (count - at + 1) / at
    at = max(at - 1, 0)
    return values[at], values[count - 1 - at]


def print_table(rows):
    print(f"{'figure':44} {'measured':>14}  {'beside it, in the same run':32} {'ratio':>6}  {'target':22} met")
    for row in rows:
        beside = f"{row['beside']} {shown(row['beside_value'])}" if "beside" in row else "-"
        ratio = f"{row['ratio']:.2f}" if row.get("ratio") else "-"
        met = {True: "yes", False: "NO", None: ""}[row["met"]]
        measured = f"{shown(row['value'])} {row['unit']}"
        between = f" [{shown(row['lo'])}, {shown(row['hi'])}]" if "lo" in row else ""
        line = f"{row['name']:44} {measured:>14}  {beside:32} {ratio:>6}  {row['target'] or '':22} {met:3}{between}"
        print(line.rstrip())


def shown(value):
    return f"{value}" if isinstance(value, int) else f"{value:.2f}"
