//! Both sides of every limit, and what the errors say.

use tickscope_bracket::{Bracket, ClockMap, Error, Finding, LIMIT_TICKS, Model, Ratio, Rho, Side};
use tickscope_tick::{Span, Tick};

fn model(anchor: i64) -> Model {
    Model::new(Rho::declared_ppb(1000).unwrap(), Ratio::new(1, 1).unwrap(), Tick::new(anchor))
}

fn near(at: i64) -> Bracket {
    Bracket::new(Some(at - 10), at, Some(at + 10))
}

fn refusal(brackets: &[Bracket], model: &Model) -> Error {
    ClockMap::new(brackets, model).map(|_| ()).unwrap_err()
}

#[test]
fn ticks_just_within_the_limit_of_the_first_are_taken_and_the_next_refused() {
    let origin = -(1i64 << 60);
    let far = origin + LIMIT_TICKS - 21;
    assert!(ClockMap::new(&[near(origin), near(far)], &model(origin)).is_ok());
    let refused = refusal(&[near(origin), near(far + 1)], &model(origin));
    assert!(matches!(refused, Error::TooFar { what: "after", index: Some(1), .. }), "{refused}");
    let only_at = |at: i64| Bracket::new(Some(0), at, Some(1 << 56));
    let steep = Model { nominal: Ratio::new(1, 4).unwrap(), ..model(0) };
    assert!(ClockMap::new(&[only_at(0), only_at(LIMIT_TICKS - 1)], &steep).is_ok());
    let refused = refusal(&[only_at(0), only_at(LIMIT_TICKS)], &steep);
    assert!(matches!(refused, Error::TooFar { what: "at", index: Some(1), .. }), "{refused}");
    let text = refused.to_string();
    for part in ["less than 144115188075855872 ticks", "found 144115188075855872", "bracket 1", "split the run"] {
        assert!(text.contains(part), "'{part}' in: {text}");
    }
}

/// 1 / ((1 - p) * (1 - rho^2)) - 1, rounded up.
#[test]
fn a_prior_holds_for_the_inverse_of_every_map_that_it_holds_for() {
    for (ppm, rho_ppb, either_way) in [(500, 0, 501), (500, 50_000, 501), (0, 1_000_000, 2), (100_000, 0, 111_112)] {
        let rho = Rho::declared_ppb(rho_ppb).unwrap();
        let model = Model { prior_ppm: ppm, ..Model::new(rho, Ratio::new(1, 1).unwrap(), Tick::new(0)) };
        assert_eq!(model.prior_ppm_either_way(), either_way, "{ppm} ppm, rho {rho_ppb} ppb");
    }
}

#[test]
fn an_anchor_is_taken_within_the_limit_either_way() {
    for side in [1, -1] {
        assert!(ClockMap::new(&[near(0)], &model(side * (LIMIT_TICKS - 1))).is_ok());
        let refused = refusal(&[near(0)], &model(side * LIMIT_TICKS));
        assert!(matches!(refused, Error::TooFar { what: "anchor", index: None, .. }), "{refused}");
    }
}

#[test]
fn questions_are_answered_within_the_limit_either_way_and_refused_beyond() {
    let clock_map = ClockMap::new(&[near(0)], &model(0)).unwrap();
    for side in [1, -1] {
        let within = Tick::new(side * (LIMIT_TICKS - 1));
        assert!(clock_map.interval(within).unwrap().contains(Tick::new(within.get())));
        let beyond = Tick::new(side * LIMIT_TICKS);
        let finding = clock_map.interval(beyond).unwrap_err();
        assert_eq!(finding, Finding::OutOfReach { tick: beyond.get(), first: Tick::new(0), limit: LIMIT_TICKS });
        assert_eq!(clock_map.span(within, beyond).unwrap_err(), finding);
        assert!(clock_map.estimate(beyond).is_err() && clock_map.segments(within, beyond).is_err());
        assert!(finding.to_string().contains("less than 144115188075855872 from"));
        assert!(matches!(clock_map.inverse(Tick::new(beyond.get())), Err(Finding::OutOfReach { .. })));
    }
}

#[test]
fn the_steepest_and_flattest_rates_answer_as_far_as_64_bits_reach() {
    for (n, d, reach) in [(4096, 1, 1 << 49), (32, 1, 1 << 56), (33, 1, (1 << 61) / 33), (1, 4096, LIMIT_TICKS)] {
        let nominal = Ratio::new(n, d).unwrap();
        let rho = Rho::declared_ppb(Rho::MOST_PPB).unwrap();
        let model = Model { prior_ppm: Model::MOST_PRIOR_PPM, ..Model::new(rho, nominal, Tick::new(0)) };
        let clock_map = ClockMap::new(&[near(0)], &model).unwrap();
        for y in [1 - reach, reach - 1] {
            let truth = (i128::from(y) * i128::from(n) / i128::from(d)) as i64;
            assert!(clock_map.interval(Tick::new(y)).unwrap().contains(Tick::new(truth)));
        }
        let whole = clock_map.span(Tick::new(0), Tick::new(reach - 1)).unwrap();
        assert!(whole.lo().get() > 0, "{whole:?}");
    }
}

#[test]
fn a_rate_above_32_shortens_the_reach_of_the_local_domain_to_2_to_the_62_ticks_of_the_reference() {
    for (n, d, limit) in
        [(32, 1, 1i64 << 57), (33, 1, (1 << 62) / 33), (65, 2, (2 * (1i128 << 62) / 65) as i64), (4096, 1, 1 << 50)]
    {
        let model = Model { nominal: Ratio::new(n, d).unwrap(), ..model(0) };
        let clock_map = ClockMap::new(&[near(0)], &model).unwrap();
        for side in [1, -1] {
            let refused = |y: i64| matches!(clock_map.interval(Tick::new(y)), Err(Finding::OutOfReach { limit: l, .. }) if l == limit);
            assert!(!refused(side * (limit - 1)) && refused(side * limit), "{n}/{d}");
        }
        let refused = refusal(&[near(0), near(limit)], &model);
        assert!(matches!(refused, Error::TooFar { what: "at", limit: l, .. } if l == limit), "{refused}");
    }
}

/// Evidence about one instant each, of counters within a few ticks of the ends of 64 bits.
#[test]
fn counters_at_the_ends_of_64_bits_are_answered_or_refused_and_never_wrapped() {
    for (first, last) in [(i64::MIN, i64::MIN + 1000), (i64::MAX - 1000, i64::MAX)] {
        let exactly = |tick: i64| Bracket::new(Some(tick), tick, Some(tick));
        let model = Model { prior_ppm: 0, rho: Rho::declared_ppb(0).unwrap(), ..model(first) };
        let clock_map = ClockMap::new(&[exactly(first), exactly(last)], &model).unwrap();
        for tick in [first, first + 1, first + 500, last - 1, last] {
            let interval = clock_map.interval(Tick::new(tick)).unwrap();
            assert!(interval.contains(Tick::new(tick)) && interval.width() <= 2, "{tick}: {interval:?}");
            assert_eq!(clock_map.estimate(Tick::new(tick)).unwrap().get().abs_diff(tick), 0);
        }
        let span = clock_map.span(Tick::new(first), Tick::new(last)).unwrap();
        assert!(span.contains(Span::new(1000)) && span.width() <= 2);
        let segments = clock_map.segments(Tick::new(first + 10), Tick::new(last - 10)).unwrap();
        let translated = segments.iter().find_map(|segment| segment.translate(first + 500)).unwrap();
        assert!(translated.abs_diff(first + 500) <= 2);
        let other_end = if first < 0 { i64::MAX } else { i64::MIN };
        assert!(matches!(clock_map.interval(Tick::new(other_end)), Err(Finding::OutOfReach { .. })));
        let both = [exactly(first), exactly(other_end)];
        assert!(matches!(refusal(&both, &model), Error::TooFar { .. }));
    }
}

#[test]
fn answers_beyond_64_bits_are_findings() {
    let last = i64::MAX - 5;
    let clock_map = ClockMap::new(&[Bracket::new(Some(last), 0, Some(last + 2))], &model(0)).unwrap();
    assert!(clock_map.interval(Tick::new(0)).is_ok());
    let beyond = Finding::Unrepresentable { tick: 1000 };
    assert_eq!(clock_map.interval(Tick::new(1000)), Err(beyond));
    assert_eq!(clock_map.estimate(Tick::new(1000)), Err(beyond));
    assert!(clock_map.span(Tick::new(0), Tick::new(1000)).is_ok(), "a span needs no tick beyond");
    assert!(matches!(clock_map.segments(Tick::new(0), Tick::new(1000)), Err(Finding::Unrepresentable { .. })));
}

#[test]
fn a_prior_is_taken_up_to_half_and_refused_past_it() {
    let with = |prior_ppm: u32| ClockMap::new(&[near(0)], &Model { prior_ppm, ..model(0) }).map(|_| ());
    assert!(with(Model::MOST_PRIOR_PPM).is_ok());
    assert!(matches!(with(Model::MOST_PRIOR_PPM + 1), Err(Error::Declaration { what: "prior", .. })));
}

#[test]
fn evidence_with_one_side_only_is_refused_with_what_is_missing() {
    let sent = Bracket::new(Some(0), 0, None);
    let received = Bracket::new(None, 0, Some(9));
    assert_eq!(refusal(&[sent, sent], &model(0)), Error::Missing { side: Side::Upper, brackets: 2 });
    assert_eq!(refusal(&[received], &model(0)), Error::Missing { side: Side::Lower, brackets: 1 });
    assert!(matches!(refusal(&[], &model(0)), Error::Missing { brackets: 0, .. }));
    assert!(refusal(&[sent], &model(0)).to_string().contains("upper ('after') side, found none in 1"));
    assert!(ClockMap::new(&[sent, received], &model(0)).is_ok());
}

#[test]
fn the_relative_bound_is_the_cones_width_times_the_distance_rounded_up() {
    let clock_map = ClockMap::new(&[near(0)], &Model { prior_ppm: 0, ..model(0) }).unwrap();
    let bound = |apart: i64| clock_map.relative_bound(Span::new(apart));
    assert_eq!([0, 1, 499_999, 1_000_001, -1_000_001].map(bound), [0, 1, 1, 3, 3], "1 ppm either way");
    assert!(bound(i64::MAX) > 1 << 44 && bound(i64::MIN) >= bound(i64::MAX));
    let wide =
        Model { rho: Rho::declared_ppb(Rho::MOST_PPB).unwrap(), nominal: Ratio::new(4096, 1).unwrap(), ..model(0) };
    let clock_map = ClockMap::new(&[near(0)], &wide).unwrap();
    assert_eq!(clock_map.relative_bound(Span::new(i64::MIN)), u64::MAX);
}

#[test]
fn a_cone_prints_its_slopes_rounded_outward() {
    let clock_map = ClockMap::new(&[near(0)], &Model { prior_ppm: 0, ..model(0) }).unwrap();
    assert_eq!(
        clock_map.cone().to_string(),
        "[0.999998999999999, 1.000001000000001] reference ticks per local tick",
        "1 ppm either way is no binary fraction"
    );
}

#[test]
fn half_widths_give_their_quantiles() {
    let clock_map = ClockMap::new(&[near(0)], &model(0)).unwrap();
    let widths = clock_map.half_widths([0, 1_000_000, -2_000_000].map(Tick::new)).unwrap();
    assert_eq!(widths.sorted_ticks(), [10, 512, 1013]);
    assert_eq!((widths.median(), widths.quantile(0, 1), widths.quantile(1, 1)), (Some(512), Some(10), Some(1013)));
    assert_eq!((widths.quantile(2, 1), widths.quantile(1, 0)), (None, None));
    assert_eq!(clock_map.half_widths([]).unwrap().median(), None);
}

#[test]
fn a_clock_map_is_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<ClockMap>();
}
