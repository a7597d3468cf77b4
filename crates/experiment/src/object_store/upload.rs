//! Files of a run that the conductor itself puts: `run.json` when it begins, and at its end all that lies here.
//!
//! Idea: `digests.json` is put last, and removed first where another was put before, so that a reader sees the run
//! whole or not at all. Assumes: one process at a time ends a run. Guarantees: another run is never
//! touched; the list of digests is written here once the one in storage is. Deliberately absent: segments of nodes.

use std::fs::File;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use tickscope_store::{DigestList, Paths, Run};
use tickscope_tick::printable;

use super::{OBJECT_MOST_BYTES, ObjectStore, Way, md5_of};
use crate::Error;

const MANIFEST: &str = "run.json";
const DIGESTS: &str = "digests.json";
/// Files on their way at a time.
const AT_ONCE: usize = 4;

impl ObjectStore {
    /// Refuses a place where another run than `run` lies, and keys that do not open it. `None`: any run is another.
    pub fn expect_free(&self, run: Option<u64>) -> Result<(), Error> {
        let Some(text) = self.request(Way::Get, MANIFEST)? else { return Ok(()) };
        #[derive(serde::Deserialize)]
        struct Known {
            run: String,
        }
        let known = serde_json::from_slice(&text).map(|known: Known| known.run).unwrap_or_default();
        match run {
            Some(run) if known == format!("{run:016x}") => Ok(()),
            _ => {
                let (address, known) = (&self.address, printable(&known));
                Err(Error::input(format!(
                    "[storage] expected no other run at {address}, found run {known}. Name another directory by --out"
                )))
            }
        }
    }

    /// Puts `run.json` of a run that begins.
    pub fn begin(&self, root: &Path) -> Result<(), Error> {
        self.put(MANIFEST, &Paths::of(root).manifest())?;
        self.tell_failures();
        Ok(())
    }

    /// Puts all that lies here of a run that has come to its end, and then writes the list of digests here.
    pub fn upload(&self, run: &Run, list: &DigestList) -> Result<(), Error> {
        self.expect_free(Some(run.manifest().run))?;
        let known = self.request(Way::Get, DIGESTS)?.map(|known| String::from_utf8_lossy(&known).into_owned());
        if known.as_deref() == Some(list.text()) {
            return list.write_once(|_| Ok(()));
        }
        if known.is_some() {
            self.request(Way::Delete, DIGESTS)?;
        }
        let waiting = list.here(known.as_deref()).into_iter().filter(|(_, is_there)| !is_there);
        self.put_all(run.root(), &waiting.map(|(path, _)| path).collect::<Vec<_>>())?;
        list.write_once(|hidden| self.put(DIGESTS, hidden))?;
        self.tell_failures();
        Ok(())
    }

    fn put_all(&self, root: &Path, paths: &[String]) -> Result<(), Error> {
        let (next, failed) = (AtomicUsize::new(0), Mutex::new(None));
        let work = || {
            while let Some(path) = paths.get(next.fetch_add(1, Ordering::Relaxed)) {
                if let Err(why) = self.put(path, &root.join(path)) {
                    next.store(paths.len(), Ordering::Relaxed); // the others would wait as long for the same
                    *failed.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(why);
                    return;
                }
            }
        };
        std::thread::scope(|scope| (0..AT_ONCE.min(paths.len())).for_each(|_| drop(scope.spawn(work))));
        failed.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner).map_or(Ok(()), Err)
    }

    fn put(&self, path: &str, place: &Path) -> Result<(), Error> {
        let address = &self.address;
        let unread = |e: std::io::Error| {
            Error::work(format!("cannot read {} for {address}: {e}. Check its rights", place.display()))
        };
        let mut file = File::open(place).map_err(unread)?;
        let bytes = file.metadata().map_err(unread)?.len();
        if bytes > OBJECT_MOST_BYTES {
            return Err(Error::work(format!(
                "cannot write {address}/{path}: it has {bytes} bytes, more than an object that is put at once. Copy it \
                 there in parts, and digests.json last"
            )));
        }
        let md5 = md5_of(&mut file, |_| ()).map_err(unread)?;
        self.request(Way::Put(place, &md5, bytes), path).map(drop)
    }
}
