//! Age of information: a sentence, a row for each key, and what the figures rest on.
//!
//! Guarantees: ends are rounded outward to the digit that is shown; keys without figures are named with their reason;
//! what may make the age lower than is told stands below. Deliberately absent: computing (`tickscope_analysis::age`).

use tickscope_analysis::{Age, AgeKey, AgeShare, AgeSpan, FEW_UPDATES, KeyAge, NoAge};
use tickscope_tick::Unit as Ticks;

use crate::document::{self, Block, Words};
use crate::drawn_figure::DrawnFigure;
use crate::plot::{Axis, Figure, Ink, short};
use crate::quantity::{Unit, count, counted};
use crate::stage_table::Scale;
use crate::x_lap::short_number;

/// Keys that have a row.
const MOST_ROWS: usize = 12;
/// Keys without figures that are named.
const MOST_NAMED: usize = 5;
/// Parts of a percent that a share is shown to.
const PARTS: f64 = 100.0;

/// The ages between two points, in a unit.
#[derive(Clone, Copy, Debug)]
pub struct AgeTable<'a> {
    /// What was found.
    pub age: &'a Age,
    /// Ticks of the reference a second.
    pub hertz: u64,
    /// `None`: the unit that fits.
    pub scale: Option<Scale>,
}

impl AgeTable<'_> {
    /// As text for a terminal.
    pub fn text(&self) -> String {
        let mut blocks: Vec<Block> = self.age.findings.iter().map(|finding| Block::Alarm(finding.clone())).collect();
        blocks.extend([Block::paragraph(self.sentence()), Block::paragraph(""), self.table(), Block::paragraph("")]);
        blocks.extend(self.remarks().into_iter().map(Block::paragraph));
        document::text(&blocks)
    }

    /// As a chapter of a page.
    pub(crate) fn blocks(&self) -> Vec<Block> {
        let alarms = self.age.findings.iter().map(|finding| Block::Alarm(finding.clone()));
        let figures = self.figure().map(DrawnFigure::blocks).unwrap_or_default();
        let remarks = Block::List(self.remarks().into_iter().map(Words::from).collect());
        alarms
            .chain([Block::paragraph(self.sentence()), self.table()])
            .chain(figures)
            .chain([Block::Heading("What this rests on".into()), remarks])
            .collect()
    }

    /// How the age went, and that of each key; `None`: there is none.
    pub fn figure(&self) -> Option<DrawnFigure> {
        let drawn = self.age.drawn.as_ref()?;
        let whole = self.sawtooth(&drawn.whole, "age over the window");
        let near = drawn.near.as_ref().map(|near| self.sawtooth(near, "age around its highest"));
        let of = match self.age.key {
            AgeKey::None => String::new(),
            _ if self.age.keys_with_few < self.age.counted_keys => {
                let key = self.key_name(drawn.key);
                format!(" of key {key}, that of the largest excess with {FEW_UPDATES} updates or more,")
            }
            _ => format!(" of key {}, that of the largest excess,", self.key_name(drawn.key)),
        };
        let mut caption = format!(
            "Age{of} over the window{}. {}",
            near.as_ref().map_or(
                "",
                |_| ", of many updates the highest and the lowest of each stretch; and around its \
                                         highest all of it"
            ),
            match self.is_bounded() {
                true => "What the clocks leave open is the band behind the line, where it is wider.",
                false => "Stamps are missing, so nothing bounds it.",
            }
        );
        let mut drawings: Vec<Figure> = [whole].into_iter().chain(near).collect();
        if let Some(keys) = self.by_key() {
            caption += " Last: the average age of each key, the oldest first.";
            drawings.push(keys);
        }
        let Age { from, to, .. } = self.age;
        Some(DrawnFigure::of("age", format!("Age at {to} of what {from} generates"), caption, drawings))
    }

    /// Returns whether no stamp is missing, so that figures have ends.
    fn is_bounded(&self) -> bool {
        self.age.lacking.is_empty()
    }

    fn ns(&self, ticks: i64) -> f64 {
        ticks as f64 * 1e9 / self.hertz.max(1) as f64
    }

    fn sawtooth(&self, [line, below, above]: &[Vec<[i64; 2]>; 3], name: &str) -> Figure {
        let begin = line.first().map_or(0, |corner| corner[0]);
        let of = |line: &[[i64; 2]]| {
            let corner = |&[tick, age]: &[i64; 2]| [self.ns(tick - begin), self.ns(age)];
            line.iter().map(corner).collect::<Vec<[f64; 2]>>()
        };
        let line = of(line);
        let [below, above] = [below, above].map(|end| if self.is_bounded() { of(end) } else { line.clone() });
        let x = Axis::around(line.iter().map(|[x, _]| *x), short).named("since it begins");
        let y = Axis::from_0(above.iter().map(|[_, y]| *y), short).named(name);
        let mut figure = Figure::plane(x, y);
        figure.between(&below, &above);
        figure.curve(&line, Ink::of(0));
        figure
    }

    /// Average ages of keys, sorted; `None`: fewer than two have one.
    fn by_key(&self) -> Option<Figure> {
        let mut averages: Vec<AgeSpan> = self.age.keys.iter().filter_map(|key| Some(key.ages?.average)).collect();
        averages.sort_by_key(|average| std::cmp::Reverse(average.estimate_ticks));
        let rank = |place: usize| (place + 1) as f64;
        let of = |end: &dyn Fn(&AgeSpan) -> i64| {
            let point = |(place, average): (usize, &AgeSpan)| [rank(place), self.ns(end(average))];
            averages.iter().enumerate().map(point).collect::<Vec<[f64; 2]>>()
        };
        let line = of(&|average| average.estimate_ticks);
        let [below, above] = [
            of(&|average| average.lo_ticks.unwrap_or(average.estimate_ticks)),
            of(&|average| average.hi_ticks.unwrap_or(average.estimate_ticks)),
        ];
        let x = Axis::around(line.iter().map(|[x, _]| *x), short_number).named("keys, the oldest first");
        let y = Axis::from_0(above.iter().map(|[_, y]| *y), short).named("average age");
        let mut figure = Figure::plane(x, y);
        figure.between(&below, &above);
        figure.curve(&line, Ink::of(0));
        (line.len() > 1).then_some(figure)
    }

    fn unit(&self) -> Unit {
        let most = self.age.over_keys.map_or(0, |ages| ages.average.estimate_ticks);
        Unit(match self.scale {
            Some(scale) => scale.unit(self.hertz),
            None => Ticks::for_durations_up_to(self.hertz, most),
        })
    }

    /// How old what is known is.
    fn sentence(&self) -> String {
        let Age { from, to, over_keys, counted_keys, .. } = self.age;
        let unit = self.unit();
        let age = over_keys.map_or_else(
            || "unknown".into(),
            |ages| {
                let AgeSpan { estimate_ticks, lo_ticks, hi_ticks } = ages.average;
                let ends =
                    lo_ticks.zip(hi_ticks).map_or_else(String::new, |(lo, hi)| format!(" {}", unit.interval(lo, hi)));
                format!("{}\u{a0}{} old on average{ends}", unit.near(estimate_ticks), unit.name())
            },
        );
        let over = match counted_keys {
            1 => String::new(),
            keys => format!(", over {}", counted(*keys, "key")),
        };
        format!("What {to} knows of {from} is {age}{over}.")
    }

    fn table(&self) -> Block {
        let (age, name) = (self.age, self.unit().name());
        let limit = age.limit_ns.map(|ns| format!("above {}", limit(ns)));
        let columns = ["key".to_owned(), format!("age, {name}"), format!("excess, {name}"), format!("peak, {name}")]
            .into_iter()
            .chain(limit);
        let counts = ["received", "obsolete", "lost"].map(String::from);
        let columns: Vec<String> = columns.chain(counts).collect();
        let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
        let all = age.over_keys.map(|ages| {
            let counts = [age.updates.received, age.updates.obsolete, age.updates.lost];
            self.row(format!("mean of {}", counted(age.counted_keys, "key")), Some(&ages), counts)
        });
        let shown = age.keys.iter().take(MOST_ROWS);
        let rows = shown.map(|key| self.row(self.name(key), key.ages.as_ref(), [key.received, key.obsolete, key.lost]));
        Block::table("Ages", &columns, all.filter(|_| age.counted_keys > 1).into_iter().chain(rows))
    }

    fn row(&self, name: String, ages: Option<&tickscope_analysis::Ages>, counts: [u64; 3]) -> Vec<String> {
        let none = || "–".to_owned();
        let mut cells = vec![
            name,
            ages.map_or_else(none, |ages| self.span(ages.average)),
            ages.and_then(|ages| ages.excess).map_or_else(none, |excess| self.span(excess)),
            ages.and_then(|ages| ages.peak).map_or_else(none, |peak| self.span(peak)),
        ];
        if self.age.limit_ns.is_some() {
            cells.push(ages.and_then(|ages| ages.above).map_or_else(none, share));
        }
        cells.extend(counts.map(count));
        cells
    }

    fn name(&self, row: &KeyAge) -> String {
        self.key_name(row.key)
    }

    fn key_name(&self, key: Option<i64>) -> String {
        key_name(self.age.key, key)
    }

    /// `12.34 ±0.05`.
    fn span(&self, AgeSpan { estimate_ticks, lo_ticks, hi_ticks }: AgeSpan) -> String {
        let Some((lo, hi)) = lo_ticks.zip(hi_ticks) else {
            return format!("{} ±?", self.unit().near(estimate_ticks));
        };
        let (_, [below, above]) = self.unit().0.around(estimate_ticks, [lo, hi]);
        format!("{} ±{}", self.unit().near(estimate_ticks), below.max(above))
    }

    /// Keys whose figures are a matter of chance.
    fn few(&self) -> Option<String> {
        let Age { keys_with_few, few, key, .. } = self.age;
        let names = match key {
            AgeKey::None => String::new(),
            _ => format!(" ({})", listed(few.iter().map(|key| self.key_name(*key)), *keys_with_few)),
        };
        (*keys_with_few > 0).then(|| {
            let keys = counted(*keys_with_few, "key");
            format!(
                "{keys} with fewer than {FEW_UPDATES} updates in that time{names}: what another run would give may \
                 differ much."
            )
        })
    }

    /// What the figures rest on, and what is in none of them.
    fn remarks(&self) -> Vec<String> {
        let Age { window_ticks: [begin, end], updates, to, primed_share, .. } = self.age;
        let length = i128::from(*end) - i128::from(*begin);
        let seconds = Ticks::seconds(self.hertz, 3).near(length);
        let received = match self.age.counted_keys {
            1 => "its first reception".into(),
            keys => format!("where all {} had been received", counted(keys, "key")),
        };
        let mut remarks = vec![format!(
            "Over {seconds} s of {to}'s own time: from {received} to the last reception, {} of the time from the \
             first. Most of a ± is the clocks' error, which moves all ages alike. Excess: beyond the age if each \
             update had arrived when it was generated.",
            percent(*primed_share)
        )];
        if let Some(excess) = self.age.excess_by_update.filter(|_| self.age.counted_keys > 1) {
            let (excess, unit) = (self.span(excess), self.unit().name());
            remarks.push(format!("Mean excess over updates, not over keys: {excess} {unit}."));
        }
        if !self.age.lacking.is_empty() {
            remarks.push(format!(
                "No bounds: stamps are missing ({}). True ages may be lower or higher.",
                self.age.lacking.join("; ")
            ));
        }
        let lost = "generated and not received (lost, or on the way at the end), and lower no age";
        let lower = "in no figure: the true age may be lower";
        let counts = [
            (updates.lost, lost.to_owned()),
            (updates.out_of_order, "received after a fresher one of the key: obsolete, and lower no age".into()),
            (updates.doubled, "generated once and received again: one reception of each counts".into()),
            (updates.ungenerated, format!("received without a stamp of their generation, {lower}")),
            (updates.refused, format!("stamped at both points with no interval between them, {lower}")),
            (
                updates.unresolved,
                "so close to another that the clocks leave their order open: averages hold either \
                                  way, peaks have no bounds"
                    .into(),
            ),
        ];
        let told = counts.into_iter().filter(|(number, _)| *number > 0);
        remarks.extend(told.map(|(number, words)| format!("{}: {words}.", counted(number, "update"))));
        remarks.extend(self.few());
        remarks.extend([NoAge::Late, NoAge::NeverReceived].into_iter().filter_map(|why| {
            let keys: Vec<Option<i64>> = self.age.keys_without(why).collect();
            (!keys.is_empty()).then(|| format!("{}.", left_out(why, self.age.key, &keys, keys.len())))
        }));
        let once: Vec<String> =
            self.age.keys.iter().filter(|key| key.received == 1).map(|key| self.name(key)).collect();
        if !once.is_empty() {
            remarks.push(format!("{} received once: {}.", counted(once.len(), "key"), named(&once)));
        }
        let more = self.age.keys.len().saturating_sub(MOST_ROWS) + self.age.keys_left_out;
        if more > 0 {
            remarks.push(format!("{} of fewer updates not shown: --json has them.", counted(more, "key")));
        }
        remarks
    }
}

/// `7 keys never received: 3, 5, 8, 9, 12 and 2 more`, of some of so many.
pub(crate) fn left_out(why: NoAge, key: AgeKey, some: &[Option<i64>], of: usize) -> String {
    let words = match why {
        NoAge::Late => "first received in the second half, in no figure",
        NoAge::NeverReceived => "never received",
    };
    format!("{} {words}: {}", counted(of, "key"), listed(some.iter().map(|one| key_name(key, *one)), of))
}

fn key_name(of: AgeKey, key: Option<i64>) -> String {
    match (of, key) {
        (AgeKey::None, _) => "all".into(),
        (AgeKey::Value, Some(key)) => key.to_string(),
        (AgeKey::Kind, Some(key)) => format!("kind {key}"),
        (_, None) => "no value".into(),
    }
}

/// The first of them, and how many more.
fn named(keys: &[String]) -> String {
    listed(keys.iter().cloned(), keys.len())
}

/// The first of so many, and how many more.
fn listed(keys: impl Iterator<Item = String>, of: usize) -> String {
    let named: Vec<String> = keys.take(MOST_NAMED).collect();
    let more = of.saturating_sub(named.len());
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", named.join(", "))
}

/// `99.2 %`, rounded down: all of it is all of it.
fn percent(share: f64) -> String {
    format!("{} %", (1000.0 * share).floor() / 10.0)
}

/// `12.34 % ±0.05`.
fn share(AgeShare { estimate, lo, hi }: AgeShare) -> String {
    let shown = (100.0 * PARTS * estimate).round() / PARTS;
    let reach = (shown - 100.0 * lo).max(100.0 * hi - shown);
    format!("{shown:.2} % ±{:.2}", (PARTS * reach).ceil().max(0.0) / PARTS)
}

/// `5 ms`.
fn limit(ns: u64) -> String {
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs")];
    let unit = units.into_iter().find(|&(size, _)| ns >= size && ns.is_multiple_of(size));
    unit.map_or_else(|| format!("{ns} ns"), |(size, name)| format!("{} {name}", ns / size))
}
