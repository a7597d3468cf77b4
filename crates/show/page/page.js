// Draws what was computed: places numbers, names and colours, and answers the pointer and the keyboard. No statistics here.
"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const data = JSON.parse(byId("figures").textContent);
  const { unit, points, stages } = data;

  // ---- words ----------------------------------------------------------------------------------------------------------

  // Where a number of ticks is drawn; what is written comes from whole numbers.
  const units = (ticks) => (ticks * unit.per_second) / unit.hertz;
  const [scaled, hertz] = [BigInt(unit.per_second) * 10n ** BigInt(unit.decimals), BigInt(unit.hertz)];
  const floored = (numerator, denominator) => {
    const quotient = numerator / denominator;
    return numerator < quotient * denominator ? quotient - 1n : quotient;
  };
  // JSON's numbers are doubles: beyond 53 bits the tick that was meant, or a sum of some, lies so far away at most.
  const slack = (ticks) => (Number.isSafeInteger(ticks) ? 0n : BigInt(2 ** Math.max(0, Math.ceil(Math.log2(Math.abs(ticks))) - 50)));
  const written = (digits) => {
    const text = String(digits < 0n ? -digits : digits).padStart(unit.decimals + 1, "0");
    const point = text.length - unit.decimals;
    return (digits < 0n ? "\u2212" : "") + text.slice(0, point) + (unit.decimals ? `.${text.slice(point)}` : "");
  };
  const near = (ticks) => written(floored(2n * BigInt(ticks) * scaled + hertz, 2n * hertz));
  // Outward: a bound stays a bound to the digit that is shown.
  const down = (ticks) => written(floored((BigInt(ticks) - slack(ticks)) * scaled, hertz));
  const up = (ticks) => written(-floored(-(BigInt(ticks) + slack(ticks)) * scaled, hertz));
  const interval = ([estimate, below, above]) => `[${down(estimate - below)}, ${up(estimate + above)}]`;
  const signed = (ticks) => (ticks > 0 ? "+" : "") + near(ticks);
  const count = (number) => String(number).replace(/\B(?=(\d{3})+$)/g, "\u202f");
  const full = (point) => `${points[point].node}.${points[point].name}`;
  const arrow = (stage) => (stages[stage].role === "end-to-end" ? "end to end" : `${full(stages[stage].from)} → ${full(stages[stage].to)}`);
  const cut = (text, letters) => (text.length > letters ? `${text.slice(0, letters - 1)}…` : text);
  // In lines of so many letters, broken after a point or a hyphen where there is one; cut only beyond the last line.
  const folded = (text, letters, most = 2) => {
    const pieces = text.split(/(?<=[.\-_])/).flatMap((piece) => piece.match(new RegExp(`.{1,${letters}}`, "gsu")) ?? []);
    const lines = [""];
    for (const piece of pieces) {
      if (lines[lines.length - 1].length + piece.length > letters && lines[lines.length - 1]) lines.push("");
      lines[lines.length - 1] += piece;
      if (lines.length > most) break;
    }
    if (lines.length > most) lines.splice(most - 1, 2, cut(lines[most - 1] + lines[most], letters));
    return lines.map(plain).join("<br>");
  };
  // The library reads a little markup in its texts; nothing of a run may be that.
  const plain = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const whole = stages.findIndex((stage) => stage.role === "end-to-end");

  const element = (name, attributes, ...children) => {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  };

  // ---- figures --------------------------------------------------------------------------------------------------------

  const probe = document.body.appendChild(element("span", { hidden: "" }));
  const colour = (name) => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  };
  const faded = (name, share) => colour(name).replace("rgb(", "rgba(").replace(")", `, ${share})`);

  const axis = (title, more = {}) => ({
    title: { text: title, standoff: 10, font: { size: 13 } },
    gridcolor: colour("rule"), zerolinecolor: colour("rule"), linecolor: colour("rule"), tickcolor: colour("rule"),
    ticks: "outside", ticklen: 4, tickangle: 0, automargin: true, fixedrange: false, ...more,
  });
  const layout = (more) => ({
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", showlegend: false, dragmode: "zoom",
    font: { family: getComputedStyle(document.documentElement).fontFamily, size: 12, color: colour("muted") },
    hoverlabel: { bgcolor: colour("paper"), bordercolor: colour("rule"), font: { color: colour("ink") }, align: "left" },
    margin: { l: 10, r: 18, t: 14, b: 10 }, ...more,
  });
  const drawing = new Map();
  const draw = (id) => {
    const { traces, figure } = drawing.get(id)();
    if (printed) figure.width = printed;
    return Plotly.react(byId(id), traces, figure, { displayModeBar: false, responsive: !printed, doubleClick: "reset" });
  };
  let printed = 0;
  const redraw = () => drawing.forEach((_, id) => draw(id));

  // Zoom and move along the time or duration axis, for who has no pointer.
  const move = (id, key) => {
    const steps = {
      "+": [0.15, -0.15], "=": [0.15, -0.15], "-": [-0.2, 0.2], ArrowLeft: [-0.1, -0.1], ArrowRight: [0.1, 0.1],
    };
    if (key === "0") draw(id);
    else if (steps[key]) {
      const [from, to] = byId(id)._fullLayout.xaxis.range.map(Number);
      const [first, last] = steps[key];
      Plotly.relayout(id, { "xaxis.range": [from + (to - from) * first, to + (to - from) * last] });
    } else return false;
    return true;
  };
  const keyboard = (id, label) => {
    const box = byId(id);
    box.tabIndex = 0;
    box.setAttribute("role", "group");
    box.after(element("p", { class: "keys" }, "Drag or + − to zoom, ← → to move, 0 or a double click to show all."));
    box.setAttribute("aria-label", `${label} Plus and minus zoom, left and right move, 0 shows all.`);
    box.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.target !== box) return;
      if (move(id, event.key)) event.preventDefault();
    });
  };
  const figure = (id, label, drawn) => {
    drawing.set(id, drawn);
    keyboard(id, label);
  };
  // 1, 2, 5, 10, ... of a logarithmic axis; every decade alone where there is no room for more.
  const decades = (id, low, high) => {
    const steps = 3 * Math.log10(high / low) > byId(id).clientWidth / 60 ? [1] : [1, 2, 5];
    const first = Math.floor(Math.log10(low)), last = Math.ceil(Math.log10(high));
    const values = [];
    for (let power = first; power <= last; power++) values.push(...steps.map((step) => step * 10 ** power));
    const tickvals = values.filter((value) => value >= low && value <= high);
    return { tickvals, ticktext: tickvals.map((value) => (value < 1 ? String(Number(value.toPrecision(1))) : count(value))) };
  };
  const range = (values, pad = 0.04) => {
    const low = Math.min(...values), high = Math.max(...values);
    const room = (high - low || 1) * pad;
    return [low - room, high + room];
  };

  // ---- one trace ------------------------------------------------------------------------------------------------------

  // A lane a node, a row a point, in the order of the path; branches' points below those of their node.
  const lanes = [];
  points.forEach((point, index) => {
    let lane = lanes.find((known) => known.node === point.node);
    if (!lane) lanes.push((lane = { node: point.node, rows: [] }));
    lane.rows.push(index);
  });
  const height = []; // by point
  let floor = 0;
  for (const lane of lanes) {
    lane.top = floor;
    lane.head = floor - 0.5;
    floor -= 1.4;
    for (const row of lane.rows) height[row] = floor--;
    lane.bottom = floor + 0.4;
    floor += 0.15;
  }

  const incomplete = data.incomplete.filter((trace) => !data.worst.some((other) => other.id === trace.id && other.kind === trace.kind && other.occurrence === trace.occurrence));
  const typical = data.typical ? [data.typical] : [];
  const listed = [...typical, ...data.worst, ...incomplete];
  const slowest = (index) => index - typical.length; // its place among the slowest
  const isSlow = (index) => slowest(index) >= 0 && slowest(index) < data.worst.length;
  let chosen = 0;

  const called = (trace) => trace.original === undefined ? trace.id : `${trace.original} (${trace.id})`;
  const named = (trace) => `id ${called(trace)}${trace.kind ? `, kind ${trace.kind}` : ""}${trace.occurrence ? `, passage ${trace.occurrence}` : ""}`;
  const blame = (trace) => {
    if (!trace.cause) return "no stage above its median";
    const by = `${signed(trace.cause.excess_ticks)} ${unit.name}`;
    return trace.cause.resolved ? `${arrow(trace.cause.stage)} ${by}` : `cause not resolved; perhaps ${arrow(trace.cause.stage)} ${by}`;
  };
  const lacks = (trace) => points.map((point, index) => (point.on_path && !trace.since_first[index] ? full(index) : "")).filter(Boolean);

  const line = (trace, order, style) => {
    const at = order.map((point) => trace.since_first[point]);
    return {
      type: "scatter", mode: "lines+markers", cliponaxis: false,
      x: at.map((place) => (place ? units(place[0]) : null)), y: order.map((point) => height[point]),
      line: { color: style.colour, width: style.width, dash: style.dash },
      marker: { color: style.hollow ? colour("paper") : style.colour, size: style.size, symbol: style.symbols ?? style.symbol, line: { color: style.colour, width: style.hollow ? 1.5 : 0 } },
      error_x: {
        type: "data", symmetric: false, color: style.colour, thickness: 1.4, width: 5,
        array: at.map((place) => (place ? units(place[2]) : 0)), arrayminus: at.map((place) => (place ? units(place[1]) : 0)),
        visible: at.some((place) => place && (place[1] || place[2])),
      },
      text: order.map((point, index) => (at[index] ? `${style.what} · ${plain(full(point))}<br>${near(at[index][0])} ${unit.name} ${interval(at[index])}` : "")),
      hovertemplate: "%{text}<extra></extra>",
    };
  };
  const path = points.map((_, index) => index).filter((index) => points[index].on_path);
  const branches = stages.filter((stage) => stage.role === "branch");

  const traceFigure = () => {
    const trace = listed[chosen];
    const drawn = [];
    const add = (what, order, style) => drawn.push(line(what, order, style));
    if (data.typical) {
      const style = { colour: colour("muted"), width: 1.3, dash: "solid", symbol: "circle", size: 6, hollow: true, what: "typical" };
      add(data.typical, path, style);
    }
    if (trace) {
      for (const branch of branches) {
        const style = { colour: colour("second"), width: 1.8, dash: "dash", symbols: [points[branch.from].on_path ? "circle" : "diamond", "diamond"], size: 9, what: "branch" };
        if (trace.since_first[branch.from] && trace.since_first[branch.to]) add(trace, [branch.from, branch.to], style);
      }
      add(trace, path, { colour: colour("accent"), width: 2.4, dash: "solid", symbol: "circle", size: 9, what: plain(named(trace)) });
    }
    const shownTraces = [trace, data.typical].filter(Boolean);
    const ends = shownTraces.flatMap((one) => one.since_first.filter(Boolean).flatMap(([at, below, above]) => [units(at - below), units(at + above)]));
    const narrow = byId("trace").clientWidth < 480;
    const letters = narrow ? 16 : 28;
    return {
      traces: drawn,
      figure: layout({
        height: 60 + 36 * points.length + 42 * lanes.length,
        hovermode: "closest",
        xaxis: axis(`${unit.name} after ${folded(full(0), narrow ? 24 : 40, 1)}`, { range: range([0, ...ends]), zeroline: true }),
        yaxis: axis("", {
          range: [floor + 0.2, 0], fixedrange: true, showgrid: false, zeroline: false, ticks: "", ticklabelstandoff: 8,
          tickvals: [...height, ...lanes.map((lane) => lane.head)],
          ticktext: [...points.map((point) => folded(point.name, letters)), ...lanes.map((lane) => `<b>${folded(lane.node, letters, 1)}</b>`)],
        }),
        shapes: lanes.map((lane) => ({ type: "rect", layer: "below", xref: "paper", x0: 0, x1: 1, y0: lane.bottom, y1: lane.top, line: { width: 0 }, fillcolor: colour("lane") })),
      }),
    };
  };

  const words = () => {
    const trace = listed[chosen];
    if (!trace) return byId("trace-words").replaceChildren(element("p", {}, "No trace to show."));
    const missing = lacks(trace);
    const took = trace.stages[whole];
    const first = element("p", {}, element("strong", {}, named(trace)));
    first.append(took ? `: ${near(took[0])} ${unit.name} end to end${took[1] || took[2] ? " " + interval(took) : ""}` : ": never seen from end to end");
    if (isSlow(chosen)) first.append(`, ${slowest(chosen) ? `no. ${count(slowest(chosen) + 1)} of the slowest` : "the slowest"} of ${count(data.measured)}. Against the medians: ${blame(trace)}.`);
    else first.append(trace === data.typical ? ", nearest to the median of a thousand taken at random." : ".");
    if (missing.length) first.append(` No stamp at ${missing.join(", ")}.`);
    const rows = stages.map((stage, index) => {
      const place = trace.stages[index];
      const median = stage.quantiles && stage.quantiles.median.estimate;
      const against = place && median !== null && median !== undefined ? signed(place[0] - median) : "–";
      return element("tr", {},
        element("th", { scope: "row" }, arrow(index)),
        element("td", { "data-label": "took" }, place ? near(place[0]) : "–"),
        element("td", { "data-label": "surely in" }, place ? interval(place) : "–"),
        element("td", { "data-label": "against the median" }, against));
    });
    const heads = ["stage", `took, ${unit.name}`, "surely in", "against the median"].map((text) => element("th", { scope: "col" }, text));
    const table = element("table", { class: "cards" }, element("thead", {}, element("tr", {}, ...heads)), element("tbody", {}, ...rows));
    byId("trace-words").replaceChildren(first, element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Stages of the chosen trace" }, table));
  };

  const list = byId("list");
  const options = [];
  const fillList = () => {
    const some = data.worst.length < data.measured;
    const part = Math.round((1000 * data.worst.length) / data.measured) / 10;
    byId("list-label").textContent = some
      ? `A typical trace, and the slowest ${part < 0.1 ? "<\u202f0.1" : part} % (${count(data.worst.length)} of ` +
        `${count(data.measured)}: as many as are kept and fit into the page), in ${unit.name}. Click, or use the arrow keys.`
      : `All ${count(data.measured)} traces, slowest first, in ${unit.name}. Click, or use the arrow keys.`;
    const heads = new Map([[typical.length + data.worst.length, "Traces that lack a point"], [typical.length, "The slowest"]]);
    if (typical.length) heads.set(0, "A typical one");
    listed.forEach((trace, index) => {
      if (heads.has(index)) list.append(element("div", { class: "group", role: "presentation" }, heads.get(index)));
      const took = trace.stages[whole];
      const option = element("div", { role: "option", id: `option-${index}`, "aria-selected": "false" },
        element("span", {}, named(trace)),
        element("span", { class: "took" }, took ? near(took[0]) : "–"),
        element("span", { class: "cause" }, index < typical.length + data.worst.length ? blame(trace) : `no stamp at ${lacks(trace).join(", ")}`));
      option.addEventListener("click", () => choose(index));
      options.push(option);
      list.append(option);
    });
  };
  const choose = (index) => {
    if (!options.length) return words();
    options[chosen].setAttribute("aria-selected", "false");
    chosen = Math.max(0, Math.min(index, options.length - 1));
    const option = options[chosen];
    option.setAttribute("aria-selected", "true");
    list.setAttribute("aria-activedescendant", option.id);
    if (option.offsetTop < list.scrollTop) list.scrollTop = option.offsetTop;
    if (chosen === 0) list.scrollTop = 0; // its heading too
    const below = option.offsetTop + option.offsetHeight - list.clientHeight;
    if (below > list.scrollTop) list.scrollTop = below;
    byId("typical-legend").hidden = listed[chosen] === data.typical;
    draw("trace");
    words();
    mark();
  };
  const show = (index) => {
    choose(index);
    byId("traces").scrollIntoView();
    list.focus({ preventScroll: true });
  };
  list.addEventListener("keydown", (event) => {
    const moves = { ArrowDown: chosen + 1, ArrowUp: chosen - 1, PageDown: chosen + 8, PageUp: chosen - 8, Home: 0, End: options.length - 1 };
    if (!(event.key in moves) || event.ctrlKey || event.metaKey || event.altKey) return;
    choose(moves[event.key]);
    event.preventDefault();
  });

  // ---- over time -----------------------------------------------------------------------------------------------

  const { overview } = data;
  const seconds = (ticks) => ticks / unit.hertz;
  const begun = listed.map((trace) => (trace.begins_ticks !== undefined && trace.stages[whole] ? trace : null));
  // A row's scale: by powers of ten where one column flattens the others, of logarithms that are computed here.
  const scale = (columns, also) => {
    const known = columns.filter(Boolean);
    const ends = [...known.flatMap(([shortest, , longest]) => [shortest[0], longest[0]]), ...also].map(units);
    let low = Math.min(...ends), high = Math.max(...ends);
    const log = low > 0 && high > 20 * low;
    high = known.reduce((most, [, , longest]) => Math.max(most, units(longest[0] + longest[2])), high);
    if (!log) low = known.reduce((least, [shortest]) => Math.min(least, units(shortest[0] - shortest[1])), low);
    const beyond = Math.log10(low) - 9; // what is no duration has no place: below the row
    const at = (ticks) => (log ? (ticks > 0 ? Math.log10(units(ticks)) : beyond) : units(ticks));
    const span = log ? range([Math.log10(low), Math.log10(high)], 0.12) : range([low, high], 0.12);
    return { log, at, span, ticks: log ? powers(span) : {} };
  };
  const powers = ([low, high]) => {
    const every = [];
    for (let power = Math.ceil(low); power <= high; power++) every.push(power);
    const step = Math.ceil(every.length / 4);
    const tickvals = every.filter((_, index) => index % step === 0);
    const label = (power) => (power < 0 ? (10 ** power).toFixed(-power) : count(10 ** power));
    return { tickvals, ticktext: tickvals.map(label) };
  };
  const place = ([estimate, below, above]) => `${near(estimate)} ${interval([estimate, below, above])}`;
  const rowName = (number) => (number ? arrow(overview.stages[number].stage) : "end to end");
  const row = ({ columns }, number, x, also) => {
    const { at, span, ticks, log } = scale(columns, also);
    const axes = { xaxis: "x", yaxis: number ? `y${number + 1}` : "y" };
    const bars = (ends, tone, share) => ({
      type: "bar", x, width: seconds(overview.column_ticks), ...axes, hoverinfo: "skip",
      base: columns.map((of) => of && at(ends(of)[0])), y: columns.map((of) => of && at(ends(of)[1]) - at(ends(of)[0])),
      marker: { color: faded(tone, share), line: { width: 0 } },
    });
    const possible = bars(([low, , high]) => [low[0] - low[1], high[0] + high[2]], "second", 0.25);
    const estimated = bars(([low, , high]) => [low[0], high[0]], "accent", 0.3);
    const middle = columns.map((of) => of && of[1]);
    const words = ([shortest, median, longest], column) =>
      `${plain(rowName(number))}<br>${count(overview.traces[column])} traces` +
      `<br>longest ${place(longest)} ${unit.name}<br>median ${place(median)}<br>shortest ${place(shortest)}`;
    const medians = {
      type: "scatter", mode: "markers", x, ...axes, y: middle.map((of) => of && at(of[0])),
      marker: { size: 3.5, color: colour("accent") },
      error_y: {
        type: "data", symmetric: false, thickness: 1, width: 0, color: colour("second"),
        array: middle.map((of) => (of ? at(of[0] + of[2]) - at(of[0]) : 0)),
        arrayminus: middle.map((of) => (of ? at(of[0]) - at(of[0] - of[1]) : 0)),
      },
      text: columns.map((of, column) => of && words(of, column)), hovertemplate: "%{text}<extra></extra>",
    };
    return { traces: [possible, estimated, medians], at, span, ticks, log, axes };
  };
  const singles = ({ at, axes }) => {
    const shown = begun.map((trace, index) => ({ trace, index })).filter(({ trace, index }) => trace && isSlow(index));
    const slow = {
      type: "scatter", mode: "markers", ...axes, customdata: shown.map(({ index }) => index),
      x: shown.map(({ trace }) => seconds(trace.begins_ticks)), y: shown.map(({ trace }) => at(trace.stages[whole][0])),
      marker: { symbol: "circle-open", size: 6, color: colour("third"), line: { width: 1.2 } },
      text: shown.map(({ trace }) => `${plain(named(trace))}<br>${place(trace.stages[whole])} ${unit.name}`),
      hovertemplate: "%{text}<extra></extra>",
    };
    const marker = { symbol: "diamond", size: 10, color: colour("ink") };
    return [slow, { ...slow, ...chosenPlace(at), customdata: undefined, text: "the chosen trace", marker }];
  };
  const chosenPlace = (at) => {
    const shown = [begun[chosen]].filter(Boolean);
    const [x, y] = [(trace) => seconds(trace.begins_ticks), (trace) => at(trace.stages[whole][0])];
    return { x: shown.map(x), y: shown.map(y) };
  };
  let markAt = null;
  const mark = () => {
    const box = byId("overview");
    if (!markAt || !box.data) return;
    const { x, y } = chosenPlace(markAt);
    Plotly.restyle(box, { x: [x], y: [y] }, [box.data.length - 1]);
  };
  const lost = ({ axes, span: [low, high] }, x) => {
    const holes = overview.holes.map((number, column) => ({ number, column })).filter(({ number }) => number);
    return {
      type: "scatter", mode: "markers", ...axes, x: holes.map(({ column }) => x[column]),
      y: holes.map(() => low + (high - low) * 0.04),
      marker: { symbol: "x-thin", size: 6, line: { width: 1.4, color: colour("second") } },
      text: holes.map(({ number }) => `${count(number)} lack a stamp`), hovertemplate: "%{text}<extra></extra>",
    };
  };
  const overviewFigure = () => {
    const x = overview.traces.map((_, column) => seconds(overview.column_ticks * (column + 0.5)));
    const slow = begun.filter((trace, index) => trace && isSlow(index));
    const singly = slow.map((trace) => trace.stages[whole][0]);
    const rows = overview.stages.map((stage, number) => row(stage, number, x, number ? [] : singly));
    const [top] = rows;
    const letters = Math.floor((byId("overview").clientWidth - 110) / 7.5);
    const heights = rows.map((_, number) => (number ? 84 : 190)), gap = 38, above = 26, below = 52;
    const inside = heights.reduce((sum, height) => sum + height, 0) + gap * (rows.length - 1);
    let from = inside;
    const axes = {}, annotations = [];
    rows.forEach(({ span, ticks, log }, number) => {
      const domain = [Math.max(0, (from - heights[number]) / inside), from / inside];
      const name = number ? `yaxis${number + 1}` : "yaxis";
      const labels = { nticks: number ? 3 : 5, ...ticks };
      axes[name] = axis("", { range: span, domain, fixedrange: true, zeroline: false, ...labels });
      const more = (number ? "" : `, ${unit.name}`) + (log ? ", log" : "");
      const words = cut(rowName(number), letters - (log ? 10 : 4)) + more;
      annotations.push({
        text: plain(words), showarrow: false, font: { color: colour("ink"), size: 12 },
        xref: "paper", x: 0, xanchor: "left", yref: "paper", y: domain[1], yanchor: "bottom", yshift: 8,
      });
      from -= heights[number] + gap;
    });
    const end = seconds(overview.column_ticks * overview.traces.length);
    const across = range([0, end, ...slow.map((trace) => seconds(trace.begins_ticks))], 0.01);
    const anchor = rows.length > 1 ? `y${rows.length}` : "y";
    markAt = top.at;
    return {
      traces: [...rows.flatMap(({ traces }) => traces), lost(top, x), ...singles(top)],
      figure: layout({
        height: inside + above + below, hovermode: "closest", barmode: "overlay", annotations, ...axes,
        margin: { l: 10, r: 18, t: above, b: 10 },
        xaxis: axis("seconds since the first trace", { range: across, anchor, zeroline: false }),
      }),
    };
  };
  const overviewWords = () => {
    const sum = (numbers) => numbers.reduce((all, number) => all + number, 0);
    const { column_ticks, holes_elsewhere, more_stages } = overview;
    const shown = begun.filter((trace, index) => trace && isSlow(index)).length;
    const lacking = sum(overview.holes) + holes_elsewhere;
    const elsewhere = holes_elsewhere ? `, ${count(holes_elsewhere)} of them without a known beginning` : "";
    const without = lacking ? `; ${count(lacking)} more lack a stage${elsewhere}` : "";
    byId("overview-caption").textContent =
      `${count(sum(overview.traces))} traces with every stage, in ${count(overview.traces.length)} columns of ` +
      `${up(column_ticks)} ${unit.name}${without}. The ${count(shown)} slowest are drawn one by one.` +
      (more_stages ? ` ${count(more_stages)} further stages are not drawn.` : "");
    byId("holes-legend").hidden = !sum(overview.holes);
  };

  // ---- boxes ----------------------------------------------------------------------------------------------------------

  const boxesFigure = () => {
    const log = byId("boxes-log").checked;
    const known = stages.map((stage, index) => ({ ...stage, index })).filter((stage) => stage.quantiles);
    const fits = (ticks) => (log && ticks <= 0 ? null : units(ticks));
    const row = new Map(known.map((stage, at) => [stage.index, -at]));
    const tone = { path: "accent", "end-to-end": "ink" };
    const boxes = known.map(({ index, role, quantiles: q }) => ({
      type: "box", orientation: "h", y: [row.get(index)], width: 0.32, hoverinfo: "skip",
      q1: [fits(q.q1.estimate)], median: [fits(q.median.estimate)], q3: [fits(q.q3.estimate)],
      lowerfence: [fits(q.whiskers[0])], upperfence: [fits(q.whiskers[1])],
      line: { color: colour(tone[role] ?? "second"), width: 1.6 }, fillcolor: faded(tone[role] ?? "second", 0.16),
    })).filter((box) => !log || (box.lowerfence[0] !== null && box.q1[0] !== null));
    const marked = (which, symbol, name, under) => ({
      type: "scatter", mode: "markers", cliponaxis: false,
      x: known.map((stage) => fits(stage.quantiles[which].estimate)), y: known.map((stage) => row.get(stage.index) - under),
      marker: { symbol, size: 8, color: known.map((stage) => colour(tone[stage.role] ?? "second")) },
      error_x: {
        type: "data", symmetric: false, thickness: 1.4, width: 5, color: colour("muted"),
        array: known.map(({ quantiles: q }) => units(q[which].hi - q[which].estimate)),
        arrayminus: known.map(({ quantiles: q }) => units(q[which].estimate - (log && q[which].lo <= 0 ? q[which].estimate : q[which].lo))),
      },
      text: known.map(({ index, quantiles: { [which]: q } }) => `${plain(arrow(index))}<br>${name} ${near(q.estimate)} ${unit.name} [${down(q.lo)}, ${up(q.hi)}]`),
      hovertemplate: "%{text}<extra></extra>",
    });
    const reach = known.flatMap(({ quantiles: q }) => [q.whiskers[0], q.whiskers[1], q.median.lo, q.median.hi, q.p99.lo, q.p99.hi].map(units));
    const positive = reach.filter((value) => value > 0);
    const span = log ? range(positive.map(Math.log10)) : range([0, ...reach]);
    const beyond = known.reduce((most, stage) => (stage.quantiles.most.estimate > most.quantiles.most.estimate ? stage : most), known[0]);
    byId("boxes-caption").textContent = known.length
      ? (units(beyond.quantiles.most.estimate) > Math.max(...reach) ? `What is longer, up to ${near(beyond.quantiles.most.estimate)} ${unit.name} (${arrow(beyond.index)}), lies to the right of the figure.` : "") +
        (log ? " Nothing at or below 0 can be shown on this axis." : "")
      : "No stage has a duration.";
    const narrow = byId("boxes").clientWidth < 560;
    const letters = narrow ? 15 : 32;
    const arrowed = ({ from, to }) => `${folded(full(from), letters + 2)}<br>→ ${folded(full(to), letters)}`;
    const label = (stage) => (stage.role === "end-to-end" ? "end to end" : arrowed(stage));
    return {
      traces: [...boxes, marked("median", "circle", "median", 0.34), marked("p99", "diamond", "99 %", 0.55)],
      figure: layout({
        height: 70 + 76 * Math.max(1, known.length), hovermode: "closest", boxmode: "overlay",
        xaxis: axis(log ? `${unit.name}, logarithmic` : unit.name, { type: log ? "log" : "linear", range: span, ...(log ? decades("boxes", 10 ** span[0], 10 ** span[1]) : {}) }),
        yaxis: axis("", { tickvals: known.map((stage) => row.get(stage.index) - 0.15), ticktext: known.map(label), range: [-known.length + 0.2, 0.4], fixedrange: true, showgrid: false, zeroline: false, ticks: "", ticklabelstandoff: 8 }),
      }),
    };
  };

  // ---- end to end -----------------------------------------------------------------------------------------------------

  // A band far higher than the bars would leave them flat: it then goes on above the figure, and the caption says so.
  const highest = (shown) => Math.min(Math.max(...shown.most), 2.5 * Math.max(...shown.count));
  const histogramFigure = () => {
    const shown = data.end_to_end;
    if (!shown) return { traces: [], figure: layout({ height: 120, xaxis: { visible: false }, yaxis: { visible: false } }) };
    const log = byId("histogram-log").checked;
    const edges = shown.edges.map(units);
    if (shown.logarithmic && edges[0] <= 0) edges[0] = edges[1] / 1.02;
    const steps = (counts) => [...counts, counts[counts.length - 1]].map((number) => (log && number === 0 ? 0.5 : number));
    const area = (counts, style, fill) => ({
      type: "scatter", mode: "lines", x: edges, y: steps(counts), line: { shape: "hv", width: style.width, color: style.colour, dash: style.dash },
      fill, fillcolor: style.fill, hoverinfo: "skip",
    });
    const open = shown.count.some((_, bin) => shown.least[bin] !== shown.most[bin]);
    const text = [...shown.count.keys(), shown.count.length - 1].map((bin) =>
      `${down(shown.edges[bin])} to ${up(shown.edges[bin + 1])} ${unit.name}<br>${count(shown.count[bin])} traces` +
      (open ? `, truly ${count(shown.least[bin])} to ${count(shown.most[bin])}` : ", exactly"));
    const estimate = { width: 1.6, colour: colour("accent"), fill: faded("accent", 0.22) };
    const bound = { width: 1, colour: colour("second"), dash: "dash", fill: faded("second", 0.16) };
    const traces = [area(shown.count, estimate, "tozeroy")];
    if (open) traces.push(area(shown.least, { ...bound, fill: undefined }, "none"), area(shown.most, bound, "tonexty"));
    traces.push({ type: "scatter", mode: "lines", x: edges, y: steps(shown.count), line: { shape: "hv", width: 0, color: "rgba(0,0,0,0)" }, text, hovertemplate: "%{text}<extra></extra>" });
    const q = stages[whole].quantiles;
    const marks = [["median", q.median], ["99 %", q.p99]];
    const place = (ticks) => (shown.logarithmic ? Math.log10(units(ticks)) : units(ticks));
    const ends = [edges[0], edges[edges.length - 1]];
    const across = shown.logarithmic ? ends.map(Math.log10) : ends;
    const top = highest(shown);
    const narrow = byId("histogram").clientWidth < 560;
    const tight = byId("histogram").clientWidth < 340; // no room for a label beside its line
    const { from, to } = stages[whole];
    const ends_of = (space) => `${folded(full(from), 30, 1)}${space}to ${folded(full(to), 30, 1)}`;
    return {
      traces,
      figure: layout({
        height: 360, hovermode: "closest", margin: { l: 10, r: 18, t: 44, b: 10 },
        xaxis: axis(`${unit.name} from ${ends_of(narrow ? "<br>" : " ")}${shown.logarithmic ? ", logarithmic" : ""}`, {
          type: shown.logarithmic ? "log" : "linear", range: across, ...(shown.logarithmic ? decades("histogram", ...ends) : {}),
        }),
        yaxis: axis(log ? "traces, logarithmic" : "traces", { type: log ? "log" : "linear", fixedrange: true, range: log ? [Math.log10(0.5), Math.log10(top * 1.6)] : [0, top * 1.05], dtick: log ? 1 : undefined }),
        shapes: marks.map(([, { estimate: at }]) => ({ type: "line", x0: units(at), x1: units(at), yref: "paper", y0: 0, y1: 1, line: { color: colour("ink"), width: 1, dash: "dot" } })),
        annotations: marks.map(([name, { estimate: at, lo, hi }], index) => {
          const left = place(at) < (across[0] + across[1]) / 2;
          return {
            text: `${name} ${near(at)}${lo === hi ? "" : ` [${down(lo)}, ${up(hi)}]`}`, xanchor: left ? "left" : "right", xshift: left ? 2 : -2,
            ...(tight ? { xref: "paper", x: left ? 0 : 1 } : { x: place(at) }),
            yref: "paper", y: 1, yanchor: "bottom", yshift: index ? 15 : -1, showarrow: false, font: { color: colour("ink"), size: 12 },
          };
        }),
      }),
    };
  };
  const histogramWords = () => {
    const shown = data.end_to_end;
    if (!shown) return void (byId("histogram-note").textContent = "No trace has both ends of the path.");
    const open = shown.count.some((_, bin) => shown.least[bin] !== shown.most[bin]);
    byId("histogram-note").textContent = open
      ? "How many traces took how long. For each bin by itself the dashed band holds the number that truly belongs there, whatever the clocks did within their bounds."
      : "How many traces took how long. Both ends of the path read one counter, so the clocks leave nothing open: fewest, most and estimate are one line.";
    byId("histogram-band").hidden = !open;
    const [estimate, least, most] = shown.beyond;
    const bounds = least === most ? "" : ` (truly ${count(least)} to ${count(most)})`;
    const cut = Math.max(...shown.most) > highest(shown) ? ` The band reaches up to ${count(Math.max(...shown.most))} traces, above the figure.` : "";
    const right = estimate || most ? `${count(estimate)} traces${bounds} took longer than ${up(shown.edges[shown.edges.length - 1])} ${unit.name} and lie to the right of the figure.` : "";
    byId("histogram-caption").textContent = right + cut;
  };

  // ---- clocks ---------------------------------------------------------------------------------------------------------

  const tones = ["accent", "second", "third", "ink"];
  const clockMapFigure = (curve) => () => {
    const seconds = (place) => place / unit.hertz;
    const samples = curve.samples;
    const x = samples.map(([place]) => seconds(place));
    const edge = (at, more) => ({ type: "scatter", mode: "lines", x, y: samples.map((sample) => units(sample[at])), hoverinfo: "skip", line: { color: colour("accent"), width: 1 }, ...more });
    const sides = (source, tight) => {
      const shown = curve.brackets.filter((bracket) => bracket[4] === source && Boolean(bracket[3]) === tight);
      const tone = colour(tones[source % tones.length]);
      return {
        type: "scatter", mode: "markers", x: shown.map(([place]) => seconds(place)), y: shown.map(([, at]) => units(at)),
        marker: { symbol: shown.map(([, , above]) => (above ? "triangle-down" : "triangle-up") + (tight ? "" : "-open")), size: tight ? 6 : 5, color: tone, opacity: tight ? 0.75 : 0.35 },
        text: shown.map(([place, at, above]) => `${plain(curve.sources[source].name)}: not ${above ? `above ${up(at)}` : `below ${down(at)}`} ${unit.name}<br>${tight ? "the band stands on it" : "another is tighter"}`),
        hovertemplate: "%{text}<extra></extra>",
      };
    };
    // Where the evidence was poor for a moment the band is far wider: it may leave the figure, the rest stays readable.
    const band = samples.flatMap(([, lo, , hi]) => [units(lo), units(hi)]).sort((a, b) => a - b);
    const [low, high] = range([band[Math.floor(band.length * 0.02)], band[Math.ceil(band.length * 0.98) - 1]], 0.5);
    return {
      traces: [
        edge(1), edge(3, { fill: "tonexty", fillcolor: faded("accent", 0.14) }),
        ...curve.sources.map((_, source) => sides(source, false)), ...curve.sources.map((_, source) => sides(source, true)),
        edge(2, { line: { color: colour("ink"), width: 1.6 }, hoverinfo: "x+y", hovertemplate: `estimate %{y:.2f} ${unit.name}<br>%{x:.3f} s<extra></extra>` }),
      ],
      figure: layout({
        height: 360, hovermode: "closest",
        xaxis: axis("seconds since the first bracket", { range: range(x, 0.01) }),
        yaxis: axis(`${unit.name} off a straight line`, { range: [low, high] }),
      }),
    };
  };
  const clockMapWords = (id, curve) => {
    const tight = curve.brackets.filter((bracket) => bracket[3]).length;
    const tone = (source) => ["accent", "second", "third", "ink"][source % tones.length];
    const legend = element("p", { class: "legend" },
      element("span", {}, element("i", { class: "area" }), "the band: all that is possible"), element("span", {}, element("i", { class: "line ink" }), "the estimate, its middle"),
      ...curve.sources.map((source, index) => element("span", {}, element("b", { class: `mark ${tone(index)}` }, "▲ ▼"), ` ${source.name}`)));
    const caption = byId(`${id}-caption`);
    caption.before(legend);
    caption.textContent = `${count(tight)} of the ${count(curve.tight)} sides of brackets that the band stands on are shown, and ${count(curve.brackets.length - tight)} of the ${count(curve.sides - curve.tight)} others, evenly thinned; some lie above or below the figure.`;
  };

  // ---- the page -------------------------------------------------------------------------------------------------------

  if (overview) {
    figure("overview", "All traces over time, end to end and each stage.", overviewFigure);
    overviewWords();
  } else {
    const why = "No trace has every stage, or nothing relates the first point's clock to the reference.";
    byId("over-time").replaceChildren(element("h2", {}, "Over time"), element("p", {}, why));
  }
  figure("trace", "The chosen trace over time, a lane for each node.", traceFigure);
  figure("boxes", "Box plots of every stage; the same in numbers below.", boxesFigure);
  figure("histogram", "Histogram of the durations from end to end.", histogramFigure);
  data.clock_maps.forEach((curve, number) => {
    const id = `clock-map-${number}`;
    if (!byId(id)) return;
    figure(id, "Band and brackets of a clock over the run.", clockMapFigure(curve));
    clockMapWords(id, curve);
  });
  byId("branch-legend").hidden = branches.length === 0;
  fillList();
  choose(0);
  words();
  histogramWords();
  redraw();

  if (overview) byId("overview").on("plotly_click", ({ points: [point] }) => {
    if (point.customdata !== undefined) show(point.customdata);
  });
  for (const button of document.querySelectorAll("#over-time button[data-key]")) {
    button.addEventListener("click", () => move("overview", button.dataset.key));
  }
  for (const way of document.querySelectorAll(".to-slowest")) {
    way.hidden = !data.worst.length;
    way.addEventListener("click", (event) => {
      event.preventDefault();
      show(typical.length);
    });
  }
  byId("boxes-log").addEventListener("change", () => draw("boxes"));
  byId("histogram-log").addEventListener("change", () => draw("histogram"));
  for (const choice of document.getElementsByName("theme")) {
    choice.addEventListener("change", redraw);
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  addEventListener("beforeprint", () => {
    printed = 680; // what is left of A4 at 96 dots an inch
    document.documentElement.dataset.theme = "light"; // paper is
    for (const more of document.querySelectorAll("details")) more.open = true;
    redraw();
  });
  addEventListener("afterprint", () => {
    printed = 0;
    delete document.documentElement.dataset.theme;
    redraw();
  });
})();
