//! Stamps in memory, for the join to read.

use std::convert::Infallible;
use std::ops::RangeInclusive;

use tickscope_trace::{Attribute, Columns, Extent, StampColumns, StampSource, Traces};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamp {
    pub id: i64,
    pub kind: i32,
    pub tick: i64,
    pub thread: Option<u32>,
}

/// Stamps in memory, in row groups of `group`, read whole if they touch the range.
#[derive(Clone, Debug)]
pub struct Memory {
    pub points: Vec<Vec<Stamp>>,
    pub group: usize,
}

/// The attribute of a stamp with that tick: some have one, some have none.
pub fn attribute(attribute: Attribute, tick: i64) -> Option<i64> {
    match attribute {
        Attribute::Cpu => (tick.rem_euclid(3) != 0).then(|| tick.rem_euclid(64)),
        Attribute::Value => (tick.rem_euclid(2) == 0).then_some(tick ^ 0x5555),
        Attribute::Channel => Some(tick.rem_euclid(5)),
    }
}

/// Every attribute in the traces is that of the stamp whose tick is there.
pub fn check_attributes(traces: &Traces) {
    for (point, column) in traces.points().iter().enumerate() {
        for of in Attribute::ALL {
            let found = traces.attribute(point, of).unwrap();
            let expected = |row| column.get(row).and_then(|tick| attribute(of, tick));
            assert!((0..traces.len()).all(|row| found.get(row) == expected(row)), "{of:?} at {point}");
        }
    }
}

impl StampSource for Memory {
    type Error = Infallible;

    fn attributes(&mut self, _: usize) -> Result<Vec<Attribute>, Infallible> {
        Ok(Attribute::ALL.to_vec())
    }

    fn extents(&mut self, point: usize) -> Result<Vec<Extent>, Infallible> {
        Ok(self.points[point].chunks(self.group).map(extent).collect())
    }

    fn read(
        &mut self,
        point: usize,
        ids: RangeInclusive<i64>,
        columns: Columns,
        sink: &mut dyn FnMut(StampColumns<'_>),
    ) -> Result<(), Infallible> {
        for group in self.points[point].chunks(self.group) {
            let Extent { first, last, .. } = extent(group);
            if first > *ids.end() || last < *ids.start() {
                continue;
            }
            let column = |of: fn(&Stamp) -> i64| group.iter().map(of).collect::<Vec<_>>();
            let kinds: Vec<i32> = group.iter().map(|stamp| stamp.kind).collect();
            let kinds = kinds.iter().any(|&kind| kind != 0).then_some(kinds.as_slice());
            let (ids, ticks) = (column(|s| s.id), column(|s| s.tick));
            let of = |of| ticks.iter().map(|&tick| attribute(of, tick)).collect::<Vec<_>>();
            let (cpus, values) = (of(Attribute::Cpu), of(Attribute::Value));
            let channels: Vec<i32> =
                of(Attribute::Channel).into_iter().map(|channel| channel.unwrap() as i32).collect();
            let stamps = StampColumns::new(&ids, &ticks, kinds).unwrap();
            let stamps = stamps.with_attribute(Attribute::Cpu, &cpus).unwrap();
            let stamps = stamps.with_attribute(Attribute::Value, &values).unwrap();
            let stamps = stamps.with_channels(&channels).unwrap();
            let threads: Vec<Option<u32>> = group.iter().map(|stamp| stamp.thread).collect();
            sink(if columns == Columns::Keys { stamps } else { stamps.with_threads(&threads).unwrap() });
        }
        Ok(())
    }
}

fn extent(group: &[Stamp]) -> Extent {
    let ids = || group.iter().map(|stamp| stamp.id);
    Extent { first: ids().min().unwrap(), last: ids().max().unwrap(), stamps: group.len() as u64 }
}
