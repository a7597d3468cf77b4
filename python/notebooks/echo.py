"""The report's figures, from the tables: a UDP echo between two nodes, measured for 3 s.

`marimo edit python/notebooks/echo.py` to look and change; `marimo export html` for a page; as a script it computes the same.
"""

import marimo

app = marimo.App(width="medium", app_title="Where a datagram's time goes")


@app.cell
def _():
    from pathlib import Path

    import marimo as mo
    import plotly.graph_objects as go
    import tickscope
    from plotly.subplots import make_subplots

    run = tickscope.open(Path(__file__).parent / "echo")
    ticks_per_us = run.figures()["frequency"]["hertz"] / 1e6
    return go, make_subplots, mo, run, ticks_per_us


@app.cell
def _(mo, run):
    _figures = run.figures()
    _slowest = " or ".join(_figures["slowest"])
    _clock_map = _figures["clock_maps"][0]
    mo.md(f"""
    # Where a datagram's time goes
    {run.manifest["nodes"][1]["name"]} to {run.manifest["nodes"][0]["name"]} and back. The slowest stage at the median is
    **{_slowest}**. {_clock_map["domain"]} is known to ±{-(-_clock_map["half_width_ns"] // 1):.0f} ns (median over the run),
    if its rate stays within {_clock_map["rho_ppm"]:g} ppm of one value.
    """)
    return


@app.cell
def _(run):
    # Microseconds, for people; the ticks beside them are exact.
    stages = run.stages().query(
        "stages",
        """select stage, count,
                  p50_ns / 1000 as p50_us, p50_lo_ns / 1000 as p50_lo_us, p50_hi_ns / 1000 as p50_hi_us,
                  p99_ns / 1000 as p99_us, p99_lo_ns / 1000 as p99_lo_us, p99_hi_ns / 1000 as p99_hi_us, sign, spread
           from stages""",
    )
    stages.to_arrow_table()
    return (stages,)


@app.cell
def _(make_subplots, run, ticks_per_us):
    # Each stage of the path from where the one before ended, with its interval: the slowest trace and a typical one.
    _path = [stage["stage"] for stage in run.figures()["stages"] if stage["role"] == "path"]
    _by_length = run.durations().order('"end-to-end", id').fetchall()
    _by_length = [row for row in _by_length if None not in row]
    _columns = run.durations().columns
    traces = make_subplots(rows=2, cols=1, vertical_spacing=0.3)
    for _place, (_name, _row) in enumerate(
        (("typical", _by_length[len(_by_length) // 2]), ("slowest", _by_length[-1])), 1
    ):
        _trace = dict(zip(_columns, _row, strict=True))
        _start = 0.0
        for _number, _stage in enumerate(_path):
            _length, _lo, _hi = (_trace[_stage + end] / ticks_per_us for end in ("", ".lo", ".hi"))
            traces.add_bar(
                orientation="h",
                y=[f"{_name}, id {_trace['id']}"],
                x=[_length],
                base=[_start],
                name=_stage,
                legendgroup=_stage,
                showlegend=_name == "typical",
                marker_color=["#4477aa", "#ee6677", "#228833", "#ccbb44"][_number % 4],
                error_x={"type": "data", "symmetric": False, "array": [_hi - _length], "arrayminus": [_length - _lo]},
                row=_place,
                col=1,
            )
            _start += _length
    traces.update_layout(barmode="overlay", xaxis2_title="us since it was sent", title="Two traces over both nodes")
    traces
    return (traces,)


@app.cell
def _(go, run, ticks_per_us):
    _rows = run.boxes().fetchall()
    boxes = go.Figure()
    for _stage, _q1, _median, _q3, _lower, _upper, _outliers in _rows:
        _values = [[tick / ticks_per_us] for tick in (_q1, _median, _q3, _lower, _upper)]
        boxes.add_box(
            name=_stage,
            x=[f"{_stage}<br>{_outliers} beyond"],
            **dict(zip(("q1", "median", "q3", "lowerfence", "upperfence"), _values, strict=True)),
        )
    boxes.update_layout(
        showlegend=False, yaxis_title="us", title="Each stage: quartiles, whiskers at 1.5 times their distance"
    )
    boxes
    return (boxes,)


@app.cell
def _(go, run, ticks_per_us):
    _bins = run.histogram("end-to-end").fetchall()
    histogram = go.Figure(
        go.Bar(
            x=[start / ticks_per_us for start, _, _ in _bins],
            width=[(end - start) / ticks_per_us for start, end, _ in _bins],
            offset=0,
            y=[count for *_, count in _bins],
        )
    )
    histogram.update_layout(xaxis_title="us", yaxis_title="datagrams", yaxis_type="log", title="End to end")
    histogram
    return (histogram,)


@app.cell
def _(go, run, ticks_per_us):
    # The server's clock against the client's, a straight line taken off: every constraint, the band they leave, the
    # estimate.
    clock_map = run.clock_map("server")
    _probes = run.brackets().filter("domain = 'server.tsc'")
    _first, _last = _probes.aggregate('min("at"), max("at")').fetchall()[0]
    _ticks = [_first + (_last - _first) * step // 400 for step in range(401)]
    _rate = float(sum(clock_map.slopes)) / 2
    _zero = clock_map.estimate(_first)

    def _offset(at, reference):
        return ((reference - _zero) - (at - _first) * _rate) / ticks_per_us

    def _seconds(ticks):
        return [(tick - _first) / ticks_per_us / 1e6 for tick in ticks]

    band = go.Figure()
    for _name, _column, _symbol in (
        ("no earlier than", "before", "triangle-up"),
        ("no later than", "after", "triangle-down"),
    ):
        _known = _probes.filter(f"{_column} is not null").project(f'"at", {_column}').fetchall()
        band.add_scatter(
            x=_seconds(at for at, _ in _known),
            y=[_offset(at, tick) for at, tick in _known],
            mode="markers",
            marker={"symbol": _symbol, "size": 4},
            name=_name,
        )
    _lo, _hi = (ends.to_pylist() for ends in clock_map.intervals(_ticks))
    for _name, _values in (
        ("lower bound", _lo),
        ("upper bound", _hi),
        ("estimate", clock_map.estimates(_ticks).to_pylist()),
    ):
        _offsets = [_offset(at, tick) for at, tick in zip(_ticks, _values, strict=True)]
        band.add_scatter(x=_seconds(_ticks), y=_offsets, mode="lines", name=_name)
    band.update_layout(
        xaxis_title="s", yaxis_title="us from a straight line", title=f"What is known of {clock_map.domain}"
    )
    band.update_yaxes(range=[-60, 60])
    band
    return band, clock_map


@app.cell
def _(run):
    # The same evidence under other assumptions: no stamp is joined again.
    widths = {
        rho: [clock_map["half_width_ns"] for clock_map in run.figures(rho)["clock_maps"]]
        for rho in ("unknown", "server-room")
    }
    widths
    return (widths,)


@app.cell
def _(run):
    run.events().to_arrow_table()
    return


if __name__ == "__main__":
    app.run()
