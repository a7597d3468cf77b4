//! Every way in which a clock can run on between the reads of a routine, tried.
//!
//! The state is the clock's alone: a tick, and whether the writer is between the two stores of the next. An execution
//! is a first state and the number of the writer's steps before each further read; executions are gone through like the
//! numbers of an odometer, each by running the routine itself. Of `1-read` the execution is one call after another: a
//! reader that is right after one call under every number of steps stays right for ever.

use std::fmt;

use crate::routine::{OneRead, Routine, RoutineText, Word, WordPair, Writer, four_read, varying_read};

/// How wide the words of the model are, in bits; each at least 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Widths {
    /// Bits of the high word.
    pub high_bits: u32,
    /// Bits of the low word.
    pub low_bits: u32,
}

/// How far the clock ran on during a call; for `1-read` since the call before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Regime {
    /// Less than a turn of the low word, and the clock as a whole did not wrap.
    Within,
    /// Less than a turn of the low word, and the clock as a whole wrapped to 0.
    WholeWrap,
    /// A turn of the low word or more.
    Longer,
}

/// A call that went wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CounterExample {
    /// For `1-read`, what the call before it returned.
    pub known: Option<WordPair>,
    /// What the words read were when the call began, then each read and what both words were at that instant.
    pub reads: Vec<(Word, WordPair)>,
    /// What the routine returned.
    pub returned: WordPair,
    /// The clock's value when the call began.
    pub at_least: WordPair,
    /// Its value when the call ended.
    pub at_most: WordPair,
}

/// What became of the calls of one regime.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Executions tried.
    pub tried: u64,
    /// Results older than the call.
    pub too_old: u64,
    /// Results that the clock had not reached yet.
    pub too_new: u64,
    /// The shortest that went wrong.
    pub example: Option<CounterExample>,
}

/// What became of all calls of a routine.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Failures {
    tallies: [Tally; 3],
}

impl Regime {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Within, Self::WholeWrap, Self::Longer];
}

impl Failures {
    /// What became of the calls of that regime.
    pub fn of(&self, regime: Regime) -> &Tally {
        &self.tallies[regime as usize]
    }
}

impl Tally {
    /// Executions that went wrong.
    pub fn wrong(&self) -> u64 {
        self.too_old + self.too_new
    }
}

/// Runs `routine` against `writer` in every way there is.
pub fn failures(widths: Widths, writer: Writer, routine: Routine, text: RoutineText) -> Failures {
    let model = Model { lows: 1 << widths.low_bits, highs: 1 << widths.high_bits, writer };
    let mut failures = Failures::default();
    for first in model.states() {
        let mut odometer = Odometer { steps: Vec::new(), limit: model.steps_of_a_turn() - 1 };
        loop {
            let execution = model.execute(first, &mut odometer, routine, text);
            failures.admit(&model, &execution);
            if !odometer.advance() {
                break;
            }
        }
    }
    failures
}

/// The clock, between two steps of its writer.
#[derive(Clone, Copy, PartialEq, Debug)]
struct State {
    /// Ticks since the clock was 0; goes on through wraps.
    tick: u32,
    /// The writer has made the first of the two stores of the next tick.
    halfway: bool,
}

struct Model {
    lows: u32,
    highs: u32,
    writer: Writer,
}

/// One call and what came before it.
struct Execution {
    /// For `1-read`, the state that the call before it saw.
    known: Option<State>,
    reads: Vec<(Word, State)>,
    returned: WordPair,
}

/// The writer's steps before each read but the first, together at most `limit`.
struct Odometer {
    steps: Vec<u32>,
    limit: u32,
}

impl Odometer {
    /// Steps before the read with that number, from 0; a read not met before has none.
    fn before(&mut self, read: usize) -> u32 {
        if self.steps.len() <= read {
            self.steps.push(0);
        }
        self.steps[read]
    }

    /// Goes on to the next execution: the last read is delayed by one more step, or no longer delayed and the one
    /// before is.
    fn advance(&mut self) -> bool {
        while let Some(last) = self.steps.last_mut() {
            *last += 1;
            if self.steps.iter().sum::<u32>() <= self.limit {
                return true;
            }
            self.steps.pop();
        }
        false
    }
}

impl State {
    /// The latest tick that the writer has begun.
    fn begun(self) -> u32 {
        self.tick + u32::from(self.halfway)
    }
}

impl Model {
    fn values(&self) -> u32 {
        self.lows * self.highs
    }

    fn steps_of_a_turn(&self) -> u32 {
        self.values() + if self.writer == Writer::Atomic { 0 } else { self.highs }
    }

    /// Every state of one turn.
    fn states(&self) -> impl Iterator<Item = State> {
        let zero = State { tick: 0, halfway: false };
        std::iter::successors(Some(zero), |&state| Some(self.step(state))).take(self.steps_of_a_turn() as usize)
    }

    fn step(&self, state: State) -> State {
        let next_carries = (state.tick + 1).is_multiple_of(self.lows);
        if self.writer != Writer::Atomic && next_carries && !state.halfway {
            State { halfway: true, ..state }
        } else {
            State { tick: state.tick + 1, halfway: false }
        }
    }

    /// The words of a value.
    fn words(&self, tick: u32) -> WordPair {
        WordPair { high: tick / self.lows % self.highs, low: tick % self.lows }
    }

    /// What stands in the two words.
    fn visible(&self, state: State) -> WordPair {
        let (old, new) = (self.words(state.tick), self.words(state.begun()));
        match self.writer {
            Writer::LowFirst => WordPair { high: old.high, low: new.low },
            Writer::Atomic | Writer::HighFirst => WordPair { high: new.high, low: old.low },
        }
    }

    /// The tick that a right reader of the low word alone knows in that state.
    fn told_by_low(&self, state: State) -> u32 {
        if self.writer == Writer::LowFirst { state.begun() } else { state.tick }
    }

    fn execute(&self, first: State, odometer: &mut Odometer, routine: Routine, text: RoutineText) -> Execution {
        let mut state = first;
        let mut reads = Vec::new();
        let mut delays = 0;
        let mut run_on = |state: State| {
            delays += 1;
            (0..odometer.before(delays - 1)).fold(state, |state, _| self.step(state))
        };
        let one_read = routine == Routine::OneRead;
        let mut read = |word: Word| {
            if one_read || !reads.is_empty() {
                state = run_on(state);
            }
            reads.push((word, state));
            let WordPair { high, low } = self.visible(state);
            if word == Word::High { high } else { low }
        };
        let returned = match routine {
            Routine::VaryingRead => varying_read(text, &mut read),
            Routine::FourRead => four_read(text, &mut read),
            Routine::OneRead => {
                let WordPair { high, low } = OneRead::at(self.words(self.told_by_low(first))).call(text, &mut read);
                WordPair { high: high % self.highs, low }
            }
        };
        Execution { known: one_read.then_some(first), reads, returned }
    }
}

impl Execution {
    fn first(&self) -> State {
        self.reads[0].1
    }

    fn last(&self) -> State {
        self.reads[self.reads.len() - 1].1
    }
}

impl Failures {
    fn admit(&mut self, model: &Model, execution: &Execution) {
        let since = execution.known.unwrap_or(execution.first()).tick;
        let until = execution.last().begun();
        let regime = if until - since >= model.lows {
            Regime::Longer
        } else if since / model.values() != until / model.values() {
            Regime::WholeWrap
        } else {
            Regime::Within
        };
        let tally = &mut self.tallies[regime as usize];
        tally.tried += 1;
        let (at_least, at_most) = (execution.first().tick, execution.last().begun());
        if (at_least..=at_most).any(|tick| model.words(tick) == execution.returned) {
            return;
        }
        let returned = execution.returned.high * model.lows + execution.returned.low;
        let behind = (at_least % model.values() + model.values() - returned) % model.values();
        let ahead = (returned + model.values() - at_most % model.values()) % model.values();
        if behind <= ahead {
            tally.too_old += 1
        } else {
            tally.too_new += 1
        };
        if tally.example.as_ref().is_none_or(|example| execution.reads.len() < example.reads.len()) {
            tally.example = Some(execution.told(model));
        }
    }
}

impl Execution {
    fn told(&self, model: &Model) -> CounterExample {
        CounterExample {
            known: self.known.map(|state| model.words(model.told_by_low(state))),
            reads: self.reads.iter().map(|&(word, state)| (word, model.visible(state))).collect(),
            returned: self.returned,
            at_least: model.words(self.first().tick),
            at_most: model.words(self.last().begun()),
        }
    }
}

impl fmt::Display for Regime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Within => "no whole wrap",
            Self::WholeWrap => "whole clock wraps",
            Self::Longer => "low turn or more",
        })
    }
}

impl fmt::Display for CounterExample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(known) = self.known {
            write!(f, "the call before returned {known}; ")?;
        }
        for (word, words) in &self.reads {
            let value = if *word == Word::High { words.high } else { words.low };
            write!(f, "words {words}, reads {word} {value}; ")?;
        }
        write!(f, "returns {}, the clock went from {} to {}", self.returned, self.at_least, self.at_most)
    }
}
