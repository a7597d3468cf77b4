//! A run as one file: a tar archive (POSIX ustar, with pax paths where a name is long), which `tar` reads, too.
//!
//! Idea: a run that has ended holds the digests of its files, so whoever unpacks it can hold every byte against them.
//! Guarantees: a run is packed only if it is what it was when it ended; what is unpacked is a run whose files are all
//! as their digests say, or nothing is left; no entry leads out of its folder, is a link, or replaces another.
//! Deliberately absent: compression, which the files have; what is derived from others, and hidden files.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};

use tickscope_store::{Difference, Error, Run, RunState, WholeFile, WholeFolder, make_folders, open_regular};

use crate::failure::Failure;

type Result<T> = std::result::Result<T, Failure>;

/// The file that the others are held against.
const DIGESTS: &str = "digests.json";
const BLOCK: usize = 512;
/// Bytes of a path in a header.
const NAME: usize = 100;
/// Bytes of a path at most.
const MOST_PATH: usize = 4096;
/// Numbers of nine digits to the base 8 and more are beyond a header.
const MOST_SIZE: u64 = 0o7_777_777_777;
/// What is derived from the other files, or locked only.
const DERIVED: [&str; 4] = ["durations", "figures", "report.html", "run.lock"];

/// What an archive holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packed {
    /// Files of the run.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Packs a run that has ended into the file at `place`.
pub fn pack(run: &Run, place: &Path) -> Result<Packed> {
    let root = run.root();
    expect_whole(run, "pack")?;
    let whole = WholeFile::begin(place)?;
    let mut out = BufWriter::new(whole.file());
    let mut packed = Packed { files: 0, bytes: 0 };
    let cannot = |e: io::Error| Error::io(place, "write", e);
    for path in files_of(root)? {
        let file = root.join(&path);
        let input = open_regular(&file).map_err(|e| Error::io(&file, "read", e))?;
        let size = input.metadata().map_err(|e| Error::io(&file, "read", e))?.len();
        head(&mut out, &path, size).map_err(cannot)?;
        let copied = io::copy(&mut (&input).take(size), &mut out).map_err(cannot)?;
        if copied != size {
            let why = format!("expected {size} bytes of {}, found {copied}; pack the run again", file.display());
            return Err(Failure::work(why));
        }
        out.write_all(&vec![0; padding(size)]).map_err(cannot)?;
        packed.files += 1;
        packed.bytes += size;
    }
    out.write_all(&[0; 2 * BLOCK]).and_then(|()| out.flush()).map_err(cannot)?;
    drop(out);
    whole.finish()?;
    Ok(packed)
}

/// Refuses a run that has no end, or is not what it was then.
pub fn expect_whole(run: &Run, action: &str) -> Result<()> {
    let shown = run.root().display();
    if run.state()? != RunState::Ended {
        return Err(Failure::work(format!(
            "cannot {action} {shown}: it has no end; complete it: tickscope finish {shown}"
        )));
    }
    match run.check()?.first() {
        None => Ok(()),
        Some(Difference { path, expected, found }) => Err(Failure::work(format!(
            "cannot {action} {shown}: it is not what it was when it ended: {path}: expected {expected}, found {found}; \
             restore it from a copy, or measure again"
        ))),
    }
}

/// Unpacks the archive at `place` as a run at `root`, where nothing may be.
pub fn unpack(place: &Path, root: &Path) -> Result<Packed> {
    let file = File::open(place).map_err(|e| Error::io(place, "open", e))?;
    let folder = WholeFolder::begin(root)?;
    let packed = Archive { input: BufReader::new(file), place }.extract(folder.path())?;
    let run = Run::open(folder.path())?;
    if let Some(Difference { path, expected, found }) = run.check()?.first() {
        return Err(Failure::work(format!(
            "cannot unpack {}: a file is not as it was packed: {path}: expected {expected}, found {found}; copy the \
             archive again from where it was packed, or pack the run again",
            place.display()
        )));
    }
    folder.finish()?;
    Ok(packed)
}

/// The files of a run, by their paths in it, in order.
fn files_of(root: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        let cannot = |e| Error::io(&root.join(&folder), "list", e);
        for entry in fs::read_dir(root.join(&folder)).map_err(cannot)? {
            let entry = entry.map_err(cannot)?;
            let name = entry.file_name();
            let is_hidden = name.to_string_lossy().starts_with('.');
            let is_derived = folder.as_os_str().is_empty() && DERIVED.iter().any(|derived| name == *derived);
            if is_hidden || is_derived {
                continue;
            }
            match entry.file_type().map_err(cannot)?.is_dir() {
                true => folders.push(folder.join(name)),
                false => found.push(folder.join(name)),
            }
        }
    }
    // What the others are held against comes last, as it was written.
    found.sort_by_key(|path| (path == Path::new(DIGESTS), path.clone()));
    Ok(found)
}

fn padding(size: u64) -> usize {
    (size.next_multiple_of(BLOCK as u64) - size) as usize
}

/// Writes the header of a file, and one of its path where that is long.
fn head(out: &mut impl Write, path: &Path, size: u64) -> io::Result<()> {
    let name = path.to_str().filter(|name| name.len() <= MOST_PATH);
    let name = name.ok_or_else(|| io::Error::other(format!("the name {} is no text, or long", path.display())))?;
    if size > MOST_SIZE {
        return Err(io::Error::other(format!("{name} has {size} bytes, and archives hold {MOST_SIZE} at most")));
    }
    if name.len() > NAME {
        let mut record = String::new();
        // The length counts its own digits.
        for digits in 1..=5 {
            let length = digits + " path=\n".len() + name.len();
            record = format!("{length} path={name}\n");
            if record.len() == length {
                break;
            }
        }
        out.write_all(&block("long-name", record.len() as u64, b'x'))?;
        out.write_all(record.as_bytes())?;
        out.write_all(&vec![0; padding(record.len() as u64)])?;
    }
    out.write_all(&block(name, size, b'0'))
}

fn block(name: &str, size: u64, form: u8) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    let short = &name.as_bytes()[..name.len().min(NAME)];
    block[..short.len()].copy_from_slice(short);
    let mut put = |at: usize, text: &str| block[at..at + text.len()].copy_from_slice(text.as_bytes());
    put(100, "0000644\0");
    put(108, "0000000\0");
    put(116, "0000000\0");
    put(124, &format!("{size:011o}\0"));
    put(136, "00000000000\0");
    put(148, "        ");
    put(257, "ustar\x0000");
    block[156] = form;
    let sum: u32 = block.iter().map(|&byte| u32::from(byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    block
}

/// An archive that is read.
struct Archive<'a> {
    input: BufReader<File>,
    place: &'a Path,
}

impl Archive<'_> {
    fn extract(mut self, folder: &Path) -> Result<Packed> {
        let mut packed = Packed { files: 0, bytes: 0 };
        let mut long: Option<String> = None;
        while let Some((name, size, form)) = self.header()? {
            match form {
                b'x' => long = Some(self.long_name(size)?),
                b'0' => {
                    let name = long.take().unwrap_or(name);
                    self.file(folder, &name, size)?;
                    packed.files += 1;
                    packed.bytes += size;
                }
                _ => {
                    return Err(self
                        .wrong(&format!("expected files alone, found '{name}' of another kind. Pack the run again")));
                }
            }
        }
        Ok(packed)
    }

    /// Name, size and kind of the next entry; `None`: the end.
    fn header(&mut self) -> Result<Option<(String, u64, u8)>> {
        let mut block = [0; BLOCK];
        self.input
            .read_exact(&mut block)
            .map_err(|_| self.wrong("expected an end, found none: it was cut off. Pack the run again"))?;
        if block.iter().all(|&byte| byte == 0) {
            return Ok(None);
        }
        let text = |range: std::ops::Range<usize>| {
            let bytes = &block[range];
            let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
            std::str::from_utf8(&bytes[..end]).ok().map(|text| text.trim().to_owned())
        };
        let number = |range| u64::from_str_radix(&text(range)?, 8).ok();
        let own: u64 = (0..BLOCK).map(|at| if (148..156).contains(&at) { 32 } else { block[at].into() }).sum();
        let found = number(148..156).filter(|&sum| sum == own).and_then(|_| Some((text(0..NAME)?, number(124..136)?)));
        match found {
            Some((name, size)) => Ok(Some((name, size, block[156]))),
            None => Err(self.wrong(
                "expected the header of a file, found other bytes: it is damaged, or no archive. Pack the run again",
            )),
        }
    }

    fn long_name(&mut self, size: u64) -> Result<String> {
        let mut bytes = vec![0; size.min(2 * MOST_PATH as u64) as usize];
        let read = self.input.read_exact(&mut bytes);
        let skipped = read.and_then(|()| self.skip(padding(size)));
        skipped.map_err(|_| self.wrong("expected a name, found its end: it was cut off. Pack the run again"))?;
        let text = String::from_utf8(bytes).ok();
        let name = text.as_deref().and_then(|text| text.split_once(" path=")?.1.strip_suffix('\n'));
        name.map(String::from)
            .ok_or_else(|| self.wrong("expected the path of a file, found other bytes. Pack the run again"))
    }

    fn file(&mut self, folder: &Path, name: &str, size: u64) -> Result<()> {
        let path = Path::new(name);
        let is_plain = path.components().all(|part| matches!(part, Component::Normal(_))) && !name.is_empty();
        let place = folder.join(path);
        if !is_plain || fs::symlink_metadata(&place).is_ok() {
            return Err(self.wrong(&format!("expected a new file in its folder, found '{name}'. Pack the run again")));
        }
        place.parent().map_or(Ok(()), make_folders)?;
        let cannot = |e| Error::io(&place, "write", e);
        let mut out = OpenOptions::new().write(true).create_new(true).mode(0o644).open(&place).map_err(cannot)?;
        let copied = io::copy(&mut self.input.by_ref().take(size), &mut out).map_err(cannot)?;
        let end = self.skip(padding(size));
        match copied == size && end.is_ok() {
            true => Ok(()),
            false => Err(self.wrong(&format!(
                "expected {size} bytes of {name}, found {copied}: it was cut off. Pack the run again"
            ))),
        }
    }

    fn skip(&mut self, bytes: usize) -> io::Result<()> {
        self.input.read_exact(&mut [0; BLOCK][..bytes])
    }

    fn wrong(&self, why: &str) -> Failure {
        Failure::work(format!("cannot unpack {}: {why}", self.place.display()))
    }
}
