//! The bytes of a sender's tuples with what the transport puts around them, laid out before the first is due.
//!
//! They lie one after another, so what is due together leaves in one piece. There are as many as fit a bound, and are
//! used again in turn, each with a new id written into it.

use crate::Error;

/// Digits of an id as text, with zeros before them: as many as the largest has.
pub const TEXT_ID_BYTES: usize = 19;
/// Bytes of one sender's frames at most, unless one of each tuple takes more.
const MOST_BYTES: usize = 64 << 20;

/// How an id is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IdForm {
    /// 64 bits, the lowest byte first.
    Binary,
    /// [`TEXT_ID_BYTES`] digits.
    Text,
}

/// Where a tuple has its id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IdPlace {
    /// The byte that it begins at, from 0.
    pub at: usize,
    /// How it is written.
    pub form: IdForm,
}

impl IdPlace {
    fn bytes(self) -> usize {
        match self.form {
            IdForm::Binary => size_of::<i64>(),
            IdForm::Text => TEXT_ID_BYTES,
        }
    }

    pub(crate) fn expect_room(self, tuple: &[u8]) -> Result<(), Error> {
        if self.at.checked_add(self.bytes()).is_some_and(|end| end <= tuple.len()) {
            return Ok(());
        }
        Err(Error::input(format!(
            "expected tuples with {} bytes for an id from byte {} on, found one of {}. Make tuples longer, or the id \
             begin earlier",
            self.bytes(),
            self.at,
            tuple.len()
        )))
    }

    /// Writes an id that is not below 0 into a tuple that has room for it.
    fn write(self, tuple: &mut [u8], id: i64) {
        let place = &mut tuple[self.at..self.at + self.bytes()];
        match self.form {
            IdForm::Binary => place.copy_from_slice(&id.to_le_bytes()),
            IdForm::Text => {
                let mut rest = id;
                for digit in place.iter_mut().rev() {
                    *digit = b'0' + (rest % 10) as u8;
                    rest /= 10;
                }
            }
        }
    }

    /// The id of a tuple; `None`: it has none there.
    pub(crate) fn read(self, tuple: &[u8]) -> Option<i64> {
        let place = tuple.get(self.at..self.at + self.bytes())?;
        match self.form {
            IdForm::Binary => place.try_into().ok().map(i64::from_le_bytes),
            IdForm::Text => std::str::from_utf8(place).ok()?.parse().ok(),
        }
    }
}

/// Which tuples of a load are one sender's: number n is the load's tuple `number + n * senders`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    pub number: usize,
    pub senders: usize,
    pub first_id: i64,
}

impl Share {
    /// The place in the load of this sender's tuple of that number.
    fn place(self, number: u64) -> u64 {
        self.number as u64 + number * self.senders as u64
    }

    /// Its id.
    pub fn id(self, number: u64) -> i64 {
        self.first_id + self.place(number) as i64
    }

    /// The number of this sender's tuple of that id.
    pub fn number_of(self, id: i64) -> Option<u64> {
        let place = u64::try_from(id.checked_sub(self.first_id)?).ok()?.checked_sub(self.number as u64)?;
        let senders = self.senders as u64;
        (place % senders == 0).then(|| place / senders)
    }
}

/// What surrounds a tuple.
pub(crate) struct Wrapped {
    pub head: Vec<u8>,
    pub tail: Vec<u8>,
}

pub(crate) struct Frames {
    bytes: Vec<u8>,
    /// Where each frame begins, where its tuple does, and where it ends.
    places: Vec<[usize; 3]>,
    id: Option<IdPlace>,
    share: Share,
}

impl Frames {
    /// Frames of a sender that sends so many tuples, of these in turn.
    pub fn new(
        tuples: &[Vec<u8>],
        wrap: impl Fn(&[u8]) -> Wrapped,
        id: Option<IdPlace>,
        share: Share,
        count: u64,
    ) -> Self {
        // A frame is used again for the same tuple: so there are as many as tuples, once or several times.
        let turn: usize = tuples.iter().map(|tuple| tuple.len() + wrap(tuple).head.len()).sum();
        let turns = (MOST_BYTES / turn.max(1)).max(1).min(count.div_ceil(tuples.len() as u64).max(1) as usize);
        let mut frames = Self { bytes: Vec::new(), places: Vec::new(), id, share };
        for number in 0..(turns * tuples.len()) as u64 {
            let tuple = &tuples[(share.place(number) % tuples.len() as u64) as usize];
            let (Wrapped { head, tail }, begin) = (wrap(tuple), frames.bytes.len());
            for part in [&head, tuple, &tail] {
                frames.bytes.extend_from_slice(part);
            }
            frames.places.push([begin, begin + head.len(), frames.bytes.len()]);
            frames.write_id(number);
        }
        frames
    }

    /// How many lie there.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.places.len()
    }

    fn write_id(&mut self, number: u64) {
        let Some(id) = self.id else { return };
        let [_, tuple, end] = self.places[(number % self.places.len() as u64) as usize];
        id.write(&mut self.bytes[tuple..end], self.share.id(number));
    }

    /// Makes the frame of that number ready: its id is in it then.
    pub fn prepare(&mut self, number: u64) {
        if number >= self.places.len() as u64 {
            self.write_id(number);
        }
    }

    /// A frame of its own: the tuple of that number, with another id.
    pub fn with_id(&self, number: u64, id: i64) -> Vec<u8> {
        let [begin, tuple, end] = self.places[(number % self.places.len() as u64) as usize];
        let mut frame = self.bytes[begin..end].to_vec();
        if let Some(place) = self.id {
            place.write(&mut frame[tuple - begin..], id);
        }
        frame
    }

    /// Bytes of the longest.
    pub fn longest(&self) -> usize {
        self.places.iter().map(|[begin, _, end]| end - begin).max().unwrap_or(0)
    }

    /// How many of the frames from that number on lie in one piece.
    pub fn in_one_piece(&self, number: u64) -> u64 {
        self.places.len() as u64 - number % self.places.len() as u64
    }

    /// So many frames in one piece, from that number on.
    pub fn piece(&self, number: u64, count: u64) -> &[u8] {
        let first = (number % self.places.len() as u64) as usize;
        &self.bytes[self.places[first][0]..self.places[first + count as usize - 1][2]]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bare(_: &[u8]) -> Wrapped {
        Wrapped { head: b"<".to_vec(), tail: b">".to_vec() }
    }

    #[test]
    fn every_tuple_is_sent_once_with_its_own_id_by_one_of_the_senders_in_turn() {
        let tuples: Vec<Vec<u8>> = (0..5_u8).map(|tuple| [vec![tuple], vec![0; TEXT_ID_BYTES]].concat()).collect();
        for form in [IdForm::Binary, IdForm::Text] {
            let id = IdPlace { at: 1, form };
            let mut sent = Vec::new();
            for number in 0..3 {
                let share = Share { number, senders: 3, first_id: 100 };
                let mut frames = Frames::new(&tuples, bare, Some(id), share, 4);
                assert_eq!(frames.len(), 5);
                for at in 0..8 {
                    frames.prepare(at);
                    let frame = frames.piece(at, 1);
                    assert!(frame.starts_with(b"<") && frame.ends_with(b">"));
                    let tuple = &frame[1..frame.len() - 1];
                    assert_eq!(id.read(tuple), Some(share.id(at)));
                    sent.push((share.id(at), tuple[0]));
                }
            }
            sent.sort_unstable();
            assert!(sent.into_iter().eq((0..24).map(|at| (100 + at, (at % 5) as u8))));
        }
    }

    #[test]
    fn a_frame_with_another_id_leaves_its_original_as_it_is() {
        let id = IdPlace { at: 0, form: IdForm::Binary };
        let frames = Frames::new(&[vec![7; 9]], bare, Some(id), Share { number: 0, senders: 1, first_id: 5 }, 2);
        let pill = frames.with_id(3, 99);
        assert!(pill.starts_with(b"<") && pill.ends_with(b"\x07>") && id.read(&pill[1..]) == Some(99));
        assert_eq!(id.read(&frames.piece(1, 1)[1..]), Some(6));
    }

    #[test]
    fn frames_that_lie_together_leave_in_one_piece() {
        let frames = Frames::new(&[vec![7; 3]], bare, None, Share { number: 0, senders: 1, first_id: 0 }, 4);
        assert_eq!([0, 1, 3, 4, 6].map(|number| frames.in_one_piece(number)), [4, 3, 1, 4, 2]);
        assert_eq!(frames.piece(5, 2), [b"<\x07\x07\x07>", &b"<\x07\x07\x07>"[..]].concat());
    }

    #[test]
    fn a_tuple_without_room_for_its_id_is_refused() {
        for (at, form, length) in [(0, IdForm::Binary, 7), (1, IdForm::Text, 19), (usize::MAX, IdForm::Binary, 8)] {
            assert!(IdPlace { at, form }.expect_room(&vec![0; length]).is_err(), "{at} {form:?}");
        }
        assert!(IdPlace { at: 1, form: IdForm::Text }.expect_room(&[0; 20]).is_ok());
    }
}
