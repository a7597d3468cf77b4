//! Segments on their way from a node's spool straight to object storage, by URLs that the conductor signed.
//!
//! Guarantees: only a whole segment is sent, whose bytes were held against its digest and are held against their MD5 by
//! the server; so however often one is sent, its name has one content. None holds up the agent. Deliberately absent:
//! what is forgotten here, which the conductor says once it has noted what storage has ([`Spool::acknowledge`]).

use std::collections::BTreeSet;
use std::fs::File;
use std::hash::Hasher;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tickscope_store::{Digest, Parcel, Spool};

use crate::object_store::{Carried, OBJECT_MOST_BYTES, md5_of, put};

/// Segments of one agent on their way at a time.
const AT_ONCE: usize = 4;
/// How long it is waited for one to arrive, by whoever asks.
const WAITED: Duration = Duration::from_millis(100);

/// A segment that is not on its way any more.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Uploaded {
    /// Its path in the run.
    pub path: String,
    /// Digest of what was sent.
    pub digest: String,
    /// Why storage does not have it; absent: it does.
    pub failed: Option<String>,
}

/// Segments of one agent that are on their way.
pub(super) struct Uploads {
    going: BTreeSet<String>,
    send: Sender<Uploaded>,
    arrived: Receiver<Uploaded>,
}

impl Default for Uploads {
    fn default() -> Self {
        let (send, arrived) = channel();
        Self { going: BTreeSet::new(), send, arrived }
    }
}

impl Uploads {
    /// Sends those that are not on their way, as far as there is room, and returns those that arrived or failed.
    pub fn go_on(&mut self, spool: &Spool, wanted: Vec<(Parcel, [String; 2])>) -> Vec<Uploaded> {
        let mut over = Vec::new();
        for (parcel, urls) in wanted {
            if self.going.len() >= AT_ONCE || self.going.contains(&parcel.path) {
                continue;
            }
            match spool.opened(&parcel) {
                Ok((place, file)) => {
                    self.going.insert(parcel.path.clone());
                    let send = self.send.clone();
                    thread::spawn(move || {
                        let failed = send_one(&parcel, &place, file, &urls).err();
                        let Parcel { path, digest, .. } = parcel;
                        let _ = send.send(Uploaded { path, digest, failed }); // an agent that ended asks nobody
                    });
                }
                Err(why) => {
                    let Parcel { path, digest, .. } = parcel;
                    over.push(Uploaded { path, digest, failed: Some(why.to_string()) });
                }
            }
        }
        if over.is_empty() && !self.going.is_empty() {
            over.extend(self.arrived.recv_timeout(WAITED).ok());
        }
        over.extend(self.arrived.try_iter());
        over.iter().for_each(|uploaded| _ = self.going.remove(&uploaded.path));
        over
    }
}

/// Puts one segment.
fn send_one(parcel: &Parcel, place: &Path, mut file: File, urls: &[String; 2]) -> Result<(), String> {
    let shown = place.display();
    let (mut digest, mut bytes) = (Digest::default(), 0);
    let md5 = md5_of(&mut file, |piece| {
        digest.write(piece);
        bytes += piece.len() as u64;
    });
    let md5 = md5.map_err(|e| format!("cannot read {shown}: {e}"))?;
    if (bytes, format!("{:032x}", digest.finish_128())) != (parcel.bytes, parcel.digest.clone()) {
        return Err(format!("{shown} is not what it was when it was listed"));
    }
    if bytes > OBJECT_MOST_BYTES {
        return Err(format!("{shown} has {bytes} bytes, more than an object that is put at once"));
    }
    match put(urls, place, &md5, bytes)? {
        Carried::Done(_) => Ok(()),
        Carried::None => Err("the server answered 404".into()),
        Carried::Failed(why) | Carried::Refused(why) => Err(why),
    }
}
