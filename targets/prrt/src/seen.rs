//! Which sequence numbers came: replays are refused, losses and the runs that they form are counted.
//!
//! A number is *settled* once one came that is [`REORDERED`] higher: what has not come by then counts as lost, even if
//! it comes later. So the counts need no clock. Each [`SPREAD`] settled numbers in turn are a window; the squares of
//! the losses in each, summed, say how losses are spread beyond what runs of them tell.

/// Number of packets that may overtake one without its counting as lost.
pub(crate) const REORDERED: u64 = 32;
/// Settled numbers of a window.
pub(crate) const SPREAD: u64 = 64;
/// Numbers that are remembered; older ones are refused, since nobody could tell whether they came before.
const WINDOW: u64 = 1024;

/// Verdict on the number of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sight {
    New,
    Again,
    Stale,
}

/// Numbers that came, and counts of those that are settled.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// The highest number that came, plus 1.
    next: u64,
    settled: u64,
    bits: [u64; (WINDOW / 64) as usize],
    in_burst: Option<bool>,
    /// Numbers of the window that is not full yet, and those of them that are lost.
    window: [u64; 2],
    pub received: u64,
    pub gaps: u64,
    pub lost: u64,
    pub bursts: u64,
    pub squares: u64,
}

impl Seen {
    pub fn new() -> Self {
        let (bits, window) = ([0; (WINDOW / 64) as usize], [0; 2]);
        let [received, gaps, lost, bursts, squares] = [0; 5];
        Self { next: 0, settled: 0, bits, in_burst: None, window, received, gaps, lost, bursts, squares }
    }

    /// Takes a number.
    pub fn see(&mut self, sequence: u64) -> Sight {
        if self.next == 0 && sequence > REORDERED {
            (self.next, self.settled) = (sequence, sequence); // who joins late lost nothing before
        }
        if sequence >= self.next {
            self.advance(sequence);
        } else if sequence.saturating_add(WINDOW) < self.next {
            return Sight::Stale;
        } else if self.has(sequence) {
            return Sight::Again;
        }
        self.bits[(sequence % WINDOW / 64) as usize] |= 1 << (sequence % 64);
        Sight::New
    }

    fn has(&self, sequence: u64) -> bool {
        self.bits[(sequence % WINDOW / 64) as usize] >> (sequence % 64) & 1 == 1
    }

    fn advance(&mut self, sequence: u64) {
        let settled = sequence.saturating_sub(REORDERED).max(self.settled);
        for number in self.settled..settled.min(self.next) {
            self.count(!self.has(number), 1);
        }
        self.count(true, settled.saturating_sub(self.next.max(self.settled)));
        self.settled = settled;
        for number in self.next.max(sequence.saturating_sub(WINDOW - 1))..=sequence {
            self.bits[(number % WINDOW / 64) as usize] &= !(1 << (number % 64));
        }
        self.next = sequence.saturating_add(1);
    }

    fn count(&mut self, lost: bool, numbers: u64) {
        if numbers == 0 {
            return;
        }
        let (total, runs) =
            if lost { (&mut self.lost, &mut self.bursts) } else { (&mut self.received, &mut self.gaps) };
        *total = total.saturating_add(numbers);
        *runs += u64::from(self.in_burst != Some(lost));
        self.in_burst = Some(lost);
        self.spread(lost, numbers);
    }

    fn spread(&mut self, lost: bool, numbers: u64) {
        let filled = numbers.min(SPREAD - self.window[0]);
        let [whole, rest] = [(numbers - filled) / SPREAD, (numbers - filled) % SPREAD];
        let of = |numbers: u64| [numbers, if lost { numbers } else { 0 }];
        self.window = [self.window[0] + filled, self.window[1] + of(filled)[1]];
        if self.window[0] == SPREAD {
            let squares = of(whole)[1].saturating_mul(SPREAD * SPREAD).saturating_add(self.window[1] * self.window[1]);
            self.squares = self.squares.saturating_add(squares);
            self.window = of(rest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_new_once_and_stale_behind_the_window() {
        let mut seen = Seen::new();
        assert_eq!(
            [seen.see(5), seen.see(3), seen.see(5), seen.see(3)],
            [Sight::New, Sight::New, Sight::Again, Sight::Again]
        );
        assert_eq!(seen.see(3 + WINDOW), Sight::New);
        assert_eq!([seen.see(4), seen.see(4), seen.see(3)], [Sight::New, Sight::Again, Sight::Stale]);
    }

    #[test]
    fn losses_and_their_bursts_are_counted_once_settled_however_packets_overtook_one_another() {
        let mut seen = Seen::new();
        let lost = [2, 3, 4, 10, 20, 21];
        let came: Vec<u64> = (0..40).filter(|number| !lost.contains(number)).collect();
        for pair in came.chunks(2) {
            pair.iter().rev().for_each(|number| assert_eq!(seen.see(*number), Sight::New));
        }
        seen.see(39 + REORDERED + 1);
        assert_eq!((seen.received, seen.gaps, seen.lost, seen.bursts), (34, 4, 6, 3));
    }

    #[test]
    fn the_squares_of_losses_are_those_of_each_window_in_turn() {
        // Windows 0-63: 2 lost; 64-127: all; 128-191: all but the one that ends the leap; 192-255: none.
        let mut seen = Seen::new();
        (0..62).chain(191..=255 + REORDERED).for_each(|number| assert_eq!(seen.see(number), Sight::New));
        assert_eq!(seen.squares, 4 + 64 * 64 + 63 * 63);
        seen.see(256 + REORDERED + 640);
        assert_eq!(seen.squares, 4 + 64 * 64 + 63 * 63 + 32 * 32 + 9 * 64 * 64);
    }

    #[test]
    fn who_joins_late_lost_nothing_before() {
        let mut seen = Seen::new();
        assert_eq!([seen.see(5000), seen.see(4999), seen.see(4999)], [Sight::New, Sight::New, Sight::Again]);
        seen.see(5002 + REORDERED);
        assert_eq!((seen.received, seen.lost), (1, 1));
    }

    #[test]
    fn a_leap_of_any_length_is_one_burst() {
        let mut seen = Seen::new();
        seen.see(0);
        seen.see(1 << 60);
        assert_eq!((seen.received, seen.bursts, seen.lost), (1, 1, (1 << 60) - REORDERED - 1));
        assert_eq!([seen.see(1 << 60), seen.see(0)], [Sight::Again, Sight::Stale]);
    }
}
