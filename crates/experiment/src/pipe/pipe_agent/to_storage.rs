//! Segments of a node elsewhere that its agent puts to object storage.
//!
//! Guarantees: a node is told to forget a segment after storage has it whole and the run has noted it, in this order.
//! Segments that storage does not take wait on the node, and are tried again with growing pauses; at a run's end no
//! longer than [`STORED_WITHIN`] without a success: `tickscope finish` goes on later. Deliberately absent: the pipe.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use tickscope_store::{Parcel, StoredNote};
use tickscope_tick::{NodeName, printable};

use crate::Error;
use crate::notice;
use crate::object_store::ObjectStore;
use crate::pipe::uploads::Uploaded;

/// How long storage may take none at a run's end.
const STORED_WITHIN: Duration = Duration::from_secs(15);
/// The first and the longest pause after a failure.
const PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(3)];
/// How long is waited at a time.
const WAITED: Duration = Duration::from_millis(50);

/// The run's note of one agent's segments, and how storage answers.
pub(super) struct ToStorage {
    root: PathBuf,
    nodes: Vec<NodeName>,
    store: ObjectStore,
    /// Opened with the first segment.
    note: Option<StoredNote>,
    /// When it is tried again, and the pause after the next failure.
    due: Instant,
    pause: Duration,
    /// Since when it is asked without a success; and whether a failure since was reported.
    asking: Option<Instant>,
    reported: bool,
}

impl ToStorage {
    pub fn new(root: &Path, nodes: Vec<NodeName>, store: ObjectStore) -> Self {
        Self {
            root: root.into(),
            nodes,
            store,
            note: None,
            due: Instant::now(),
            pause: PAUSES[0],
            asking: None,
            reported: false,
        }
    }

    /// Whether a file goes to storage: a whole segment of the node's programs. A URL for anything else would let a node
    /// write what is not its own.
    pub fn takes(&self, parcel: &Parcel) -> bool {
        parcel.settled && parcel.is_of_programs(&self.nodes)
    }

    /// Segments, each with URLs by which the node may put it; `None`: there are none, or it is not time to try again.
    pub fn signed(&mut self, parcels: &[&Parcel]) -> Option<Vec<(Parcel, [String; 2])>> {
        let now = Instant::now();
        if self.due > now && !parcels.is_empty() {
            thread::sleep((self.due - now).min(WAITED));
            return None;
        }
        if !parcels.is_empty() {
            self.asking.get_or_insert(now);
        }
        let signed = |&parcel: &&Parcel| (parcel.clone(), self.store.urls_to_put(&parcel.path));
        (!parcels.is_empty()).then(|| parcels.iter().map(signed).collect())
    }

    /// Takes in what became of segments; returns those of `parcels` that storage has. `all`: the run is at its end.
    pub fn take(&mut self, parcels: &[&Parcel], uploaded: Vec<Uploaded>, all: bool) -> Result<Vec<Parcel>, Error> {
        let mut arrived = Vec::new();
        for Uploaded { path, digest, failed } in uploaded {
            // One that was sent before, and is not listed any more, is sent again once it is.
            let Some(parcel) = parcels.iter().find(|known| known.path == path && known.digest == digest) else {
                continue;
            };
            match failed {
                None => {
                    self.note(parcel)?;
                    arrived.push((*parcel).clone());
                }
                Some(why) => self.put_off(&path, &why, all)?,
            }
        }
        Ok(arrived)
    }

    /// Notes a segment that storage has.
    fn note(&mut self, parcel: &Parcel) -> Result<(), Error> {
        let note = match &mut self.note {
            Some(note) => note,
            none => none.insert(StoredNote::open(&self.root, &self.nodes[0])?),
        };
        note.add(&parcel.path, parcel.bytes, &parcel.digest)?;
        (self.due, self.pause, self.asking, self.reported) = (Instant::now(), PAUSES[0], None, false);
        Ok(())
    }

    /// Takes in that one failed; the first after a success is told. `Err`: the run's end waits no longer.
    fn put_off(&mut self, path: &str, why: &str, all: bool) -> Result<(), Error> {
        let (node, address) = (&self.nodes[0], self.store.address());
        let text = format!("node {node} cannot put {} to {address}: {}", printable(path), printable(why));
        self.due = Instant::now() + self.pause;
        self.pause = (self.pause * 2).min(PAUSES[1]);
        let waited = self.asking.map_or(Duration::ZERO, |since| since.elapsed());
        if all && waited > STORED_WITHIN {
            self.asking = None; // whoever asks again waits again
            return Err(Error::work(text));
        }
        if !std::mem::replace(&mut self.reported, true) {
            notice::say(format!("{text}; it waits there, and is tried again"));
        }
        Ok(())
    }
}
