//! Clocks that are slewed and stepped while they are read, on a host that knows the truth.

mod host;
mod oracle;
mod world;

use host::{Act, Bound, Host, MS_NS, hosts};
use oracle::{Oracle, ceil, floor};
use proptest::prelude::*;
use tickscope_bracket::{Bracket, Epochs, Error, Finding, Model, Ratio, ReadingWidths, Refused, Rho};
use tickscope_tick::{Interval, Local, Reference, Tick};

fn epochs(host: &Host, brackets: &[Bracket]) -> Epochs {
    Epochs::new(brackets, &host.declared(), &host.model()).unwrap()
}

fn calm(length_ms: i64) -> Act {
    Act { length_ms, slew_ppb: 0, step_ns: 0, declared: false, seen_us: (1, 1) }
}

fn ticks(lo: i64, hi: i64) -> Interval<Tick<Reference>> {
    Interval::new(Tick::new(lo), Tick::new(hi)).unwrap()
}

/// What any other stretch can have read, with room for the longest gap between two readings on either side.
fn read_elsewhere(host: &Host, stamp: host::Stamp) -> bool {
    let room = 600 * MS_NS;
    let others = host.stretches().into_iter().filter(|&(begin, end)| !(begin <= stamp.at && stamp.at < end));
    others
        .into_iter()
        .any(|(begin, end)| host.reads(begin) - room <= stamp.ns && stamp.ns <= host.reads(end - 1) + room)
}

/// Whether a stamp lies well within its stretch: 300 ms of evidence on either side, clear of what was declared.
fn well_inside(host: &Host, stamp: host::Stamp) -> bool {
    let margin = host.lasting(300 * MS_NS);
    let edge = |at: i64| at == host.begin() || at == host.end();
    host.stretches().into_iter().any(|(begin, end)| {
        (edge(begin) && begin <= stamp.at || begin + margin <= stamp.at)
            && (edge(end) && stamp.at < end || stamp.at < end - margin)
    })
}

/// Fewer cases than under `make test-all`, which sets TICKSCOPE_TESTS.
fn cases() -> u32 {
    std::env::var_os("TICKSCOPE_TESTS").map_or(50, |_| 150)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    /// Of clocks whose rate is known exactly, so that nothing but the steps of clock and counter is left open.
    #[test]
    fn property_readings_that_differ_by_what_two_coarse_counters_leave_open_show_no_break(
        instants in prop::collection::vec(0i64..1000, 2..200), phase in 0i64..1000,
    ) {
        // Instants in thousandths of a clock's tick, in which its counter runs 2.5 ticks.
        let read = |&at: &i64| (at.div_euclid(1000), (at * 5 / 2 + phase).div_euclid(1000));
        let mut now = 0;
        let spread = instants.iter().map(|apart| { now += apart * 7; now }).collect::<Vec<i64>>();
        let brackets: Vec<Bracket> = spread.iter().map(read).map(|(ns, tick)| Bracket::new(Some(tick), ns, Some(tick))).collect();
        let model = Model { prior_ppm: 0, ..Model::new(Rho::declared_ppb(0).unwrap(), Ratio::new(5, 2).unwrap(), Tick::new(0)) };
        let clock = Epochs::new(&brackets, &[], &model).unwrap();
        prop_assert!(clock.breaks().is_empty(), "{:?}", clock.breaks());
        prop_assert!(clock.epochs().iter().all(|epoch| epoch.clock_map.is_ok()));
    }

    #[test]
    fn property_every_reading_with_an_interval_was_truly_taken_in_it_whatever_was_stepped_or_slewed(host in hosts()) {
        let (brackets, stamps) = host.measured(40, 200);
        let clock = epochs(&host, &brackets);
        prop_assert!(clock.epochs().iter().all(|epoch| epoch.clock_map.is_ok()), "an honest clock never contradicts itself");
        for stamp in stamps {
            match clock.place(Tick::new(stamp.ns)) {
                Ok(placed) => {
                    let truth = Tick::new(stamp.counter);
                    prop_assert!(placed.interval.contains(truth), "{stamp:?}, {placed:?}, {:?}", clock.breaks());
                    prop_assert!(placed.interval.contains(placed.estimate));
                }
                Err(refused) => prop_assert!(
                    !well_inside(&host, stamp) || read_elsewhere(&host, stamp), "{stamp:?} {refused:?}, {:?}", clock.breaks()
                ),
            }
        }
    }

    #[test]
    fn property_a_year_apart_every_reading_was_truly_taken_in_its_interval(
        world in world::far_worlds(20_000, 24), shares in prop::collection::vec(0i64..1 << 20, 24),
    ) {
        let exchange = |message: &world::Message| {
            let (floor, ceil) = world.around(message.at);
            let (before, after) = (floor - message.before.unwrap_or(9), ceil + message.after.unwrap_or(9));
            Bracket::new(Some(before), world.local(message.at), Some(after))
        };
        let brackets: Vec<Bracket> = world.messages.iter().map(exchange).collect();
        let clock = Epochs::new(&brackets, &[], &world.model(20_000)).unwrap();
        prop_assert!(clock.breaks().is_empty() && clock.epochs()[0].clock_map.is_ok(), "{:?}", clock.breaks());
        for y in shares.into_iter().map(|share| ((i128::from(world.length()) * i128::from(share)) >> 20) as i64) {
            let placed = clock.place(Tick::new(world.local(y))).unwrap();
            let (floor, ceil) = world.around(y);
            prop_assert!(placed.interval.contains(Tick::new(floor)) && placed.interval.contains(Tick::new(ceil)));
        }
    }

    #[test]
    fn property_a_reading_of_two_stretches_is_refused_as_ambiguous(host in hosts()) {
        let (brackets, stamps) = host.measured(40, 200);
        let clock = epochs(&host, &brackets);
        for stamp in stamps.into_iter().filter(|&stamp| well_inside(&host, stamp)) {
            let margin = host.lasting(300 * MS_NS);
            let others = host.stretches().into_iter().filter(|&(begin, end)| !(begin <= stamp.at && stamp.at < end));
            let mut others = others.filter(|&(begin, end)| end - begin > 3 * margin);
            if others.any(|(begin, end)| host.reads(begin + margin) <= stamp.ns && stamp.ns <= host.reads(end - margin)) {
                prop_assert_eq!(clock.interval(Tick::new(stamp.ns)), Err(Refused::Ambiguous));
            }
        }
    }

    #[test]
    fn property_true_durations_lie_in_their_span_and_so_does_the_difference_of_estimates(host in hosts()) {
        let (brackets, stamps) = host.measured(40, 60);
        let clock = epochs(&host, &brackets);
        for pair in stamps.windows(2).flat_map(|pair| [[pair[0], pair[1]], [pair[1], pair[0]]]) {
            let [from, to] = pair.map(|stamp| Tick::new(stamp.ns));
            let (Ok(start), Ok(end)) = (clock.estimate(from), clock.estimate(to)) else { continue };
            let span = clock.span(from, to).unwrap();
            let truth = pair[1].counter - pair[0].counter;
            // The truth is rounded down at either end.
            prop_assert!(span.lo().get() - 1 <= truth && truth <= span.hi().get() + 1, "{pair:?}: {truth}, {span:?}");
            prop_assert!(span.contains(end - start), "{pair:?}: {:?}, {span:?}", end - start);
        }
    }

    #[test]
    fn property_every_break_is_reported_with_what_it_shows_and_nothing_else(host in hosts()) {
        let (brackets, _) = host.measured(40, 0);
        let clock = epochs(&host, &brackets);
        let mut told = 0;
        for found in clock.breaks() {
            let truly = host.breaks().into_iter().filter(|&(_, at)| found.span.contains(Tick::new(host.counter(at))));
            let steps: Vec<i64> = truly.map(|(act, _)| host.acts[act].step_ns).collect();
            prop_assert!(!steps.is_empty(), "{found:?} happened never");
            told += steps.len();
            prop_assert!(found.declared > 0 || !found.shown.is_empty());
            let (jump, sum) = (found.jump.unwrap(), steps.iter().sum::<i64>());
            prop_assert!(jump.lo().get() <= sum && sum <= jump.hi().get(), "{sum}, {found:?}");
        }
        prop_assert_eq!(told, host.breaks().len());
    }

    /// Of two brackets that overlap nobody knows which was read first.
    #[test]
    fn property_readings_that_are_interrupted_hide_no_break_and_move_none(
        host in hosts(), before in 2i64..6, after in 2i64..6,
    ) {
        let (brackets, stamps) = host.measured_amid([before, after], 400, 100);
        let clock = epochs(&host, &brackets);
        let mut told = 0;
        for found in clock.breaks() {
            let truly = host.breaks().into_iter().filter(|&(_, at)| found.span.contains(Tick::new(host.counter(at))));
            let steps: Vec<i64> = truly.map(|(act, _)| host.acts[act].step_ns).collect();
            prop_assert!(!steps.is_empty(), "{found:?} happened never");
            told += steps.len();
            let (jump, sum) = (found.jump.unwrap(), steps.iter().sum::<i64>());
            prop_assert!(jump.lo().get() <= sum && sum <= jump.hi().get(), "{sum}, {found:?}");
        }
        prop_assert_eq!(told, host.breaks().len());
        for stamp in stamps {
            let interval = clock.interval(Tick::new(stamp.ns));
            prop_assert!(interval.is_err() || interval.is_ok_and(|interval| interval.contains(Tick::new(stamp.counter))));
        }
    }

    #[test]
    fn property_no_reading_is_answered_beyond_the_brackets_of_an_epoch(
        host in hosts(), beyond in 1i64..1_000, far in prop::sample::select(vec![0, MS_NS, 3_000 * MS_NS]),
    ) {
        let (brackets, _) = host.measured(10, 0);
        let clock = epochs(&host, &brackets);
        for epoch in clock.epochs() {
            for ns in [epoch.first.get() - beyond - far, epoch.last.get() + beyond + far] {
                let between = clock.epochs().iter().any(|other| other.first.get() <= ns && ns <= other.last.get());
                prop_assert!(between || matches!(clock.interval(Tick::new(ns)), Err(Refused::Outside | Refused::InBreak)));
            }
        }
    }

    #[test]
    fn property_the_error_between_two_readings_changes_by_no_more_than_the_relative_bound(host in hosts()) {
        let (brackets, stamps) = host.measured(40, 60);
        let clock = epochs(&host, &brackets);
        let estimate = |stamp: host::Stamp| Some((stamp, clock.estimate(Tick::new(stamp.ns)).ok()?.get()));
        let placed: Vec<_> = stamps.into_iter().filter_map(estimate).collect();
        for pair in placed.windows(2) {
            let [a, b] = [pair[0], pair[1]].map(|(stamp, estimate)| estimate - stamp.counter);
            // One more: the truth is rounded, too.
            let bound = clock.relative_bound(Tick::<Reference>::new(pair[1].1) - Tick::new(pair[0].1)).saturating_add(1);
            prop_assert!(a.abs_diff(b) <= bound, "{a}, {b}: {bound}");
        }
    }

    #[test]
    fn property_intervals_equal_the_oracle_within_one_tick_in_every_epoch(
        host in hosts(), picks in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 24),
        narrow in any::<bool>(),
    ) {
        let (all, stamps) = host.measured(2, 60);
        let mut picked: Vec<usize> = picks.iter().map(|(bracket, _)| bracket.index(all.len())).collect();
        picked.sort_unstable();
        picked.dedup();
        let brackets: Vec<Bracket> = picked.into_iter().map(|index| all[index]).collect();
        let declared: Vec<_> = if narrow { host.declared() } else { Vec::new() };
        let clock = Epochs::new(&brackets, &declared, &host.model()).unwrap();
        prop_assume!(clock.breaks().iter().all(|found| found.shown.is_empty()));
        for (number, group) in grouped(&brackets, &declared, host.model().widths).into_iter().enumerate() {
            let epoch = &clock.epochs()[number];
            prop_assert_eq!((epoch.first.get(), epoch.last.get(), epoch.brackets), reach(&group));
            let Some(oracle) = oracle(&group, &host.model()) else {
                prop_assert!(epoch.clock_map.is_err());
                continue;
            };
            let length = epoch.last.get() - epoch.first.get();
            let between = picks.iter().map(|(_, place)| epoch.first.get() + place.index(length as usize + 1) as i64);
            for ns in between.chain(stamps.iter().map(|stamp| stamp.ns)).chain([epoch.first.get(), epoch.last.get()]) {
                let inside = epoch.first.get() <= ns && ns <= epoch.last.get();
                let Some(found) = clock.interval(Tick::new(ns)).ok().filter(|_| inside) else { continue };
                let width = host.model().widths.local_ticks as i64;
                let (lo, hi) = (floor(&oracle.lo(ns)), ceil(&oracle.hi(ns + width)));
                prop_assert!((0..=1).contains(&(lo - found.lo().get())), "lo {lo}, found {found:?} at {ns}");
                prop_assert!((0..=1).contains(&(found.hi().get() - hi)), "hi {hi}, found {found:?} at {ns}");
            }
        }
    }

    #[test]
    fn property_a_slew_beyond_the_bound_is_found_where_evidence_is_dense(
        seed in any::<u64>(), slew in prop::sample::select(vec![100_000i64, -100_000, 500_000, -500_000]),
    ) {
        let slewed = Act { slew_ppb: slew, ..calm(1_000) };
        let host = Host::new(2_100_000_000, Bound::Wide, 0, vec![calm(1_000), slewed, calm(1_000)], seed);
        let (brackets, stamps) = host.measured(100, 100);
        let clock = Epochs::new(&brackets, &[], &host.model_of(1_000)).unwrap();
        let found = clock.epochs().iter().filter(|epoch| epoch.clock_map.is_err()).count() + clock.breaks().len();
        prop_assert!(found > 0);
        for stamp in stamps {
            let interval = clock.interval(Tick::new(stamp.ns));
            prop_assert!(interval.is_err() || interval.is_ok_and(|interval| interval.contains(Tick::new(stamp.counter))));
        }
    }

    #[test]
    fn property_no_tick_makes_anything_panic(
        raw in prop::collection::vec((any::<i64>(), any::<i64>(), any::<i64>(), any::<bool>()), 1..12),
        spans in prop::collection::vec((any::<i64>(), any::<i64>()), 0..4), asked in prop::collection::vec(any::<i64>(), 4),
    ) {
        let near = |value: i64, near: bool| if near { value % 1_000_000 } else { value };
        let bracket = |&(before, at, after, is_near): &(i64, i64, i64, bool)| {
            Bracket::new(Some(near(before, is_near)), near(at, is_near), Some(near(after, is_near)))
        };
        let brackets: Vec<Bracket> = raw.iter().map(bracket).collect();
        let declared: Vec<_> = spans.iter().map(|&(a, b)| ticks(a.min(b), a.max(b))).collect();
        let model = Model::new(Rho::default(), Ratio::new(21, 10).unwrap(), Tick::new(0));
        let Ok(clock) = Epochs::new(&brackets, &declared, &model) else { return Ok(()) };
        for at in asked.iter().copied().chain(brackets.iter().map(|bracket| bracket.at.get())) {
            let _ = (clock.place(Tick::new(at)), clock.published(Tick::new(at)));
            let _ = (clock.span(Tick::new(at), Tick::new(asked[0])), clock.relative_bound(tickscope_tick::Span::new(at)));
        }
    }
}

/// Brackets that certainly lie between the same two declared spans, in the order of the spans; none that may lie in
/// one.
fn grouped(brackets: &[Bracket], declared: &[Interval<Tick<Reference>>], widths: ReadingWidths) -> Vec<Vec<Bracket>> {
    let mut groups = std::collections::BTreeMap::<usize, Vec<Bracket>>::new();
    let beyond = widths.reference_ticks as i64 - 1;
    for &bracket in brackets {
        let before = |span: &&Interval<Tick<Reference>>| bracket.after.unwrap().get() + beyond < span.lo().get();
        let after = |span: &&Interval<Tick<Reference>>| bracket.before.unwrap().get() > span.hi().get() + beyond;
        let (earlier, later) = (declared.iter().filter(after).count(), declared.iter().filter(before).count());
        if earlier + later == declared.len() {
            groups.entry(earlier).or_default().push(bracket);
        }
    }
    groups.into_values().collect()
}

fn reach(group: &[Bracket]) -> (i64, i64, usize) {
    let ats = || group.iter().map(|bracket| bracket.at.get());
    (ats().min().unwrap(), ats().max().unwrap(), group.len())
}

/// The oracle of what readings say of the continuous clocks behind them.
fn oracle(group: &[Bracket], model: &Model) -> Option<Oracle> {
    let (first, last, _) = reach(group);
    let [clock, counter] = [model.widths.local_ticks, model.widths.reference_ticks].map(|ticks| ticks as i64);
    let admitted = |bracket: &Bracket| {
        let (before, at, after) = (bracket.before.unwrap().get(), bracket.at.get(), bracket.after.unwrap().get());
        [Bracket::new(Some(before), at + clock, None), Bracket::new(None, at, Some(after + counter))]
    };
    let group: Vec<Bracket> = group.iter().flat_map(admitted).collect();
    Oracle::new(&group, &Model { anchor: Tick::new(first + (last - first) / 2), ..*model })
}

#[test]
fn readings_of_an_ordinary_clock_are_nearly_all_answered() {
    for (step_ns, share) in [(1_000 * MS_NS, 980), (-MS_NS, 940), (50, 960)] {
        let stepped = Act { step_ns, declared: true, seen_us: (1_000, 1_000), ..calm(5_000) };
        let host = Host::new(2_100_000_000, Bound::Narrow, 20_000, vec![calm(5_000), stepped], 7);
        let (brackets, stamps) = host.measured(2_000, 0);
        let clock = epochs(&host, &brackets);
        let answered = stamps.iter().filter(|stamp| clock.interval(Tick::new(stamp.ns)).is_ok()).count();
        assert!(answered * 1000 >= stamps.len() * share, "{step_ns}: {answered} of {}", stamps.len());
    }
}

#[test]
fn half_a_microsecond_between_two_stamps_is_known_to_the_clocks_ticks_not_to_the_brackets_width() {
    let host = Host::new(2_100_000_000, Bound::Narrow, 20_000, vec![calm(2_000)], 3);
    let (brackets, stamps) = host.measured(100, 0);
    let clock = epochs(&host, &brackets);
    let widths = clock.half_widths(stamps.iter().map(|stamp| Tick::new(stamp.ns)));
    let span = clock.span(Tick::new(stamps[0].ns), Tick::new(stamps[0].ns + 500)).unwrap();
    assert!(widths.median().unwrap() > 30, "{:?}", widths.median());
    assert!(span.lo().get() <= 1_047 && 1_053 <= span.hi().get() && span.width() <= 8, "{span:?}");
}

/// A clock at one tick a nanosecond that is read exactly every 1000 ticks, and jumps.
fn jumping(jumps: &[(i64, i64)], until: i64) -> Vec<Bracket> {
    let jumped = |at: i64| jumps.iter().filter(|&&(when, _)| at >= when).map(|&(_, by)| by).sum::<i64>();
    (0..=until / 1000).map(|n| n * 1000).map(|at| Bracket::new(Some(at - 10), at + jumped(at), Some(at + 10))).collect()
}

fn exact() -> Model {
    Model { prior_ppm: 1, ..Model::new(Rho::declared_ppb(0).unwrap(), Ratio::new(1, 1).unwrap(), Tick::new(0)) }
}

#[test]
fn a_step_that_shows_names_both_brackets_and_its_size() {
    let clock = Epochs::new(&jumping(&[(5_500, 700)], 10_000), &[], &exact()).unwrap();
    let [found] = clock.breaks() else { panic!("{:?}", clock.breaks()) };
    assert_eq!((found.span, found.declared), (ticks(4_990, 6_010), 0));
    assert_eq!(found.shown.iter().map(|pair| pair.map(|named| named.index)).collect::<Vec<_>>(), [[5, 6]]);
    let (told, jump) = (found.to_string(), found.jump.unwrap());
    assert!(told.contains("between ticks 4990 and 6010 of the counter, declared by nobody"), "{told}");
    assert!(
        told.contains("joins bracket 5 (4990, 5000, 5010) and bracket 6 (5990, 6700, 6010); it jumped by"),
        "{told}"
    );
    assert!(jump.lo().get() <= 700 && 700 <= jump.hi().get() && jump.width() <= 46, "{jump:?}");
    assert_eq!(clock.interval(Tick::new(5_900)), Err(Refused::InBreak));
    assert!(clock.interval(Tick::new(6_700)).unwrap().contains(Tick::new(6_000)));
}

#[test]
fn what_the_clock_may_have_read_before_a_step_back_is_ambiguous_and_the_next_reading_is_not() {
    let declared = [ticks(5_400, 5_600)];
    let clock = Epochs::new(&jumping(&[(5_500, -2_000)], 10_000), &declared, &exact()).unwrap();
    // Read at 5000 for the last time, and then for at most 610 ticks more; from 4000 on again, and at most 610 before.
    let refused = |at: i64| clock.interval(Tick::new(at)).err();
    assert_eq!(
        [3_380, 3_395, 4_000, 5_000, 5_610, 5_625].map(refused),
        [
            None,
            Some(Refused::Ambiguous),
            Some(Refused::Ambiguous),
            Some(Refused::Ambiguous),
            Some(Refused::Ambiguous),
            None
        ]
    );
    assert_eq!((refused(-1), refused(8_001)), (Some(Refused::Outside), Some(Refused::Outside)));
}

#[test]
fn a_declared_break_is_one_although_no_bracket_shows_it() {
    let brackets = jumping(&[], 10_000);
    let [one, two] = [&[][..], &[ticks(4_100, 6_900)]].map(|breaks| Epochs::new(&brackets, breaks, &exact()).unwrap());
    assert_eq!((one.epochs().len(), two.epochs().len(), two.breaks()[0].declared), (1, 2, 1));
    assert!(one.interval(Tick::new(5_500)).is_ok());
    assert_eq!(two.interval(Tick::new(5_500)), Err(Refused::InBreak));
    assert!(two.breaks()[0].jump.unwrap().contains(tickscope_tick::Span::<Local>::new(0)));
    assert!(
        two.span(Tick::new(1_500), Tick::new(8_500)).unwrap().width()
            > one.span(Tick::new(1_500), Tick::new(8_500)).unwrap().width()
    );
}

/// The wide brackets can be joined with either side; each may have been read on either, so it is evidence of neither.
#[test]
fn a_bracket_that_may_lie_on_either_side_of_a_step_hides_nothing_and_says_nothing() {
    for wide in [Bracket::new(Some(5_100), 6_100, Some(9_500)), Bracket::new(Some(5_020), 5_900, Some(5_980))] {
        let mut brackets = jumping(&[(5_950, 700)], 10_000);
        brackets.push(wide);
        let clock = Epochs::new(&brackets, &[], &exact()).unwrap();
        let after = brackets.iter().filter(|bracket| bracket.before.unwrap() > clock.breaks()[0].span.hi()).count();
        assert_eq!(clock.epochs().iter().map(|epoch| epoch.brackets).collect::<Vec<_>>(), [6, after + 1]);
        assert!(clock.epochs().iter().all(|epoch| epoch.clock_map.is_ok()));
    }
}

/// The wide one was read at 4500, the other after the step of 5500: as far as they say it may be the other way round.
/// It was over last, but began long before the two that show the step.
#[test]
fn a_wide_bracket_shows_a_step_no_less_closely_than_the_others_do() {
    let mut brackets = jumping(&[(5_500, 7_000)], 10_000);
    brackets.push(Bracket::new(Some(100), 5_200, Some(5_400)));
    let clock = Epochs::new(&brackets, &[], &exact()).unwrap();
    let [found] = clock.breaks() else { panic!("{:?}", clock.breaks()) };
    assert_eq!(found.span, ticks(4_990, 6_010));
    assert_eq!(clock.epochs().iter().map(|epoch| epoch.brackets).collect::<Vec<_>>(), [6, 5]);
}

/// Stepped at 2000 and at 4500; the wide one was read at 3500, between the two, where nothing else was.
#[test]
fn what_was_read_between_two_steps_is_not_taken_for_the_time_before_both() {
    let narrow = |at: i64, reads: i64| Bracket::new(Some(at - 1), reads, Some(at + 1));
    let brackets = [
        narrow(0, 0),
        narrow(100, 100),
        narrow(1_000, 1_000),
        Bracket::new(Some(500), 3_900, Some(4_000)),
        narrow(5_000, 14_400),
        narrow(6_000, 15_400),
        narrow(7_000, 16_400),
    ];
    let clock = Epochs::new(&brackets, &[], &exact()).unwrap();
    assert_eq!(clock.breaks().iter().map(|found| found.span).collect::<Vec<_>>(), [ticks(999, 5_001)]);
    assert_eq!(clock.interval(Tick::new(3_800)), Err(Refused::InBreak));
}

/// Set at `set`, and set back before the next reading but one; told from the reading before to the one after each, as
/// who looks now and then tells it. What it read between the two is read again much later, or was much earlier.
#[test]
fn of_two_sets_that_are_told_together_no_reading_between_them_is_placed_elsewhere() {
    for (by, set, back) in [(12_000, 25_500, 26_400), (-12_000, 25_500, 26_400), (9_000, 25_001, 26_999)] {
        let jumps = [(set, by), (back, -by)];
        let told = [ticks(24_990, 26_010), ticks(25_990, 27_010)];
        let clock = Epochs::new(&jumping(&jumps, 50_000), &told, &exact()).unwrap();
        let [found] = clock.breaks() else { panic!("{:?}", clock.breaks()) };
        assert_eq!((found.span, found.declared), (ticks(24_990, 27_010), 2));
        let mut refused = 0;
        for at in 0..50_000 {
            let read = at + jumps.iter().filter(|&&(when, _)| at >= when).map(|&(_, by)| by).sum::<i64>();
            match clock.interval(Tick::new(read)) {
                Ok(found) => assert!(found.contains(Tick::new(at)), "{at}: read as {read}, {found:?}"),
                Err(_) => refused += 1,
            }
        }
        assert!(refused < 7_000, "{refused} of 50000 are refused");
    }
}

/// Read late in a long bracket, or early in a short one beside one that began before it: which was read first shows in
/// neither order.
#[test]
fn between_sets_told_together_a_reading_that_overlaps_others_reaches_as_far_as_it_may_have_been_taken() {
    let wide_and_late = [(24_985, 25_900, 26_005), (24_985, 25_900, 26_005)];
    let short_and_early = [(25_300, 25_900, 25_990), (25_310, 25_320, 25_325)];
    for (set, back, overlapping) in [(25_500, 25_950, wide_and_late), (25_100, 25_500, short_and_early)] {
        let jumps = [(set, 12_000), (back, -12_000)];
        let read = |at: i64| at + jumps.iter().filter(|&&(when, _)| at >= when).map(|&(_, by)| by).sum::<i64>();
        let mut brackets = jumping(&jumps, 50_000);
        let bracket = |&(before, at, after): &(i64, i64, i64)| Bracket::new(Some(before), read(at), Some(after));
        brackets.extend(overlapping.iter().map(bracket));
        let clock = Epochs::new(&brackets, &[ticks(24_990, 26_010); 2], &exact()).unwrap();
        assert_eq!(clock.breaks().iter().map(|found| found.declared).collect::<Vec<_>>(), [2]);
        let mut answered = 0;
        for at in 0..50_000 {
            if let Ok(found) = clock.interval(Tick::new(read(at))) {
                assert!(found.contains(Tick::new(at)), "{at}: read as {}, {found:?}", read(at));
                answered += 1;
            }
        }
        assert!(answered > 43_000, "{answered} of 50000 are answered");
    }
}

#[test]
fn two_brackets_that_overlap_show_no_break_but_contradict_each_other() {
    let brackets = [Bracket::new(Some(4_000), 4_500, Some(9_000)), Bracket::new(Some(7_990), 8_700, Some(8_010))];
    let clock = Epochs::new(&brackets, &[], &exact()).unwrap();
    assert_eq!((clock.breaks().len(), clock.epochs().len()), (0, 1));
    assert!(clock.epochs()[0].clock_map.is_err());
    assert_eq!(clock.interval(Tick::new(5_000)), Err(Refused::Contradictory));
}

/// Read after the step, at 9500; what it began before says nothing of the order.
#[test]
fn a_bracket_that_began_before_a_step_and_was_read_after_it_is_not_taken_for_the_earlier_one() {
    let mut brackets = jumping(&[(5_500, 700)], 10_000);
    brackets.push(Bracket::new(Some(4_500), 10_195, Some(9_500)));
    let clock = Epochs::new(&brackets, &[], &exact()).unwrap();
    let [found] = clock.breaks() else { panic!("{:?}", clock.breaks()) };
    assert_eq!(found.span, ticks(4_990, 6_010));
    assert_eq!(clock.epochs().iter().map(|epoch| epoch.brackets).collect::<Vec<_>>(), [6, 5]);
    assert!(clock.epochs().iter().all(|epoch| epoch.clock_map.is_ok()));
}

#[test]
fn a_contradiction_costs_the_epoch_that_it_lies_in_and_names_the_brackets_as_they_were_given() {
    let mut brackets = jumping(&[(5_500, 100_000)], 10_000);
    brackets.reverse();
    // After 100 000 ticks 400 ppm faster: each bracket agrees with its neighbours, all of them with no one rate.
    let gained = |n: i64| (n - 1).max(0) * 40;
    let faster = |n: i64| {
        let at = 11_000 + n * 100_000;
        Bracket::new(Some(at - 10), 100_000 + at + gained(n), Some(at + 10))
    };
    brackets.extend((0..5).map(faster));
    let model = Model { prior_ppm: 500, ..exact() };
    let clock = Epochs::new(&brackets, &[], &model).unwrap();
    let [good, bad] = clock.epochs() else { panic!("{:?}", clock.epochs().len()) };
    assert!(good.clock_map.is_ok() && clock.interval(Tick::new(2_500)).is_ok());
    assert_eq!(clock.interval(Tick::new(107_500)), Err(Refused::Contradictory));
    let Err(Finding::NoRate { lower, upper } | Finding::Empty { lower, upper, .. }) = bad.clock_map else { panic!() };
    assert!([lower, upper].iter().all(|named| brackets[named.index] == named.bracket));
}

#[test]
fn between_two_epochs_only_the_intervals_bound_how_errors_differ() {
    let bound = |jumps: &[(i64, i64)]| {
        let clock = Epochs::new(&jumping(jumps, 10_000), &[], &exact()).unwrap();
        clock.relative_bound(tickscope_tick::Span::new(1_000))
    };
    assert_eq!((bound(&[]), bound(&[(5_500, 700)])), (4, u64::MAX));
}

#[test]
fn a_clock_set_by_decades_is_two_epochs() {
    let decades = 54 * 365 * 86_400 * 1_000_000_000;
    for jump in [decades, -decades] {
        let clock = Epochs::new(&jumping(&[(5_500, jump)], 10_000), &[], &exact()).unwrap();
        assert_eq!(clock.epochs().len(), 2);
        assert!(clock.interval(Tick::new(2_500)).is_ok() && clock.interval(Tick::new(jump + 8_500)).is_ok());
    }
}

#[test]
fn evidence_without_both_sides_and_no_evidence_are_refused() {
    let model = exact();
    let refusal = |brackets: &[Bracket]| Epochs::new(brackets, &[], &model).unwrap_err();
    let open = [Bracket::new(Some(0), 0, Some(1)), Bracket::new(Some(5), 6, None)];
    assert!(refusal(&open).to_string().contains("found bracket 1 without its upper ('after') side"));
    assert!(matches!(refusal(&[]), Error::Missing { .. }));
    let reversed = [Bracket::new(Some(0), 0, Some(1)), Bracket::new(Some(9), 6, Some(8))];
    let clock = Epochs::new(&reversed, &[], &model).unwrap();
    assert!(matches!(clock.epochs()[0].clock_map, Err(Finding::Reversed(named)) if named.index == 1));
}

#[test]
fn the_published_line_runs_through_the_middles_of_both_ends_and_knows_of_no_step() {
    let clock = Epochs::new(&jumping(&[(5_500, 1_000)], 10_000), &[], &exact()).unwrap();
    let published = [0, 5_500, 11_000, -11].map(|at| clock.published(Tick::new(at)).map(|tick| tick.get()));
    assert_eq!(published, [0, 5_000, 10_000, -10].map(Some));
    let interval = clock.interval(Tick::new(2_500)).unwrap();
    assert!(!interval.contains(clock.published(Tick::new(2_500)).unwrap()), "a step bends what the ends span");
    assert_eq!(Epochs::new(&jumping(&[], 0), &[], &exact()).unwrap().published(Tick::new(1)), None);
}
