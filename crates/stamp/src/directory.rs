//! The stamp directory: who may write where in it, and whose pools a collector takes.
//!
//! Each user whose programs stamp has a directory of its own in it, `uid-N`, which nobody else may enter. A directory
//! that root makes is sticky and open to all for making one (but not for listing): so a program that gives up root's
//! rights can still make its pool. Whose pools are taken is then decided by the collector ([`Trust`]), and for users
//! other than its own by a key that only programs of the run know. docs/decisions/0031 has the reasons.
//!
//! Assumes: whoever owns the stamp directory is trusted. Guarantees: another user cannot read, change, remove or hold a
//! pool, nor have one of its own collected. Deliberately absent: protection against a user who measures: what its
//! programs write is believed.

use std::collections::HashMap;
use std::ffi::{CStr, CString, OsStr};
use std::fs::{self, File, Metadata, OpenOptions};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::{fmt, io};

use crate::block::KEY_BYTES;
use crate::descriptor::Kept;

/// Environment variable that names a group which may read and collect too.
pub const GROUP: &str = "TICKSCOPE_GROUP";

/// Name of the file in which a stamp directory keeps its key.
pub const KEY_FILE: &str = "key";
/// Name of the file in which collectors note what is stored of blocks that still lie there.
pub const STORED_FILE: &str = "stored";
/// The same file while it is written.
pub const STORED_FILE_NEW: &str = "stored.new";
/// Directories that are looked into of one user beside its `uid-N`, entries of one of them, and directories that are
/// told not to be looked into: a stranger may make any number.
const MOST_DIRECTORIES: u32 = 64;
const MOST_CLOSED: usize = 1024;
const MOST_ENTRIES: usize = 1 << 17;

/// Secret by which a collector run by root knows the pools of its programs, whichever user they have become.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct PoolKey(pub [u8; KEY_BYTES]);

impl PoolKey {
    /// Environment variable that hands it to programs.
    pub const VARIABLE: &str = "TICKSCOPE_KEY";

    fn is_none(&self) -> bool {
        self.0 == [0; KEY_BYTES]
    }
}

impl fmt::Display for PoolKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for PoolKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

impl FromStr for PoolKey {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut key = [0; KEY_BYTES];
        let text = text.as_bytes();
        let hex = |byte: u8| (byte as char).to_digit(16).filter(|_| !byte.is_ascii_uppercase());
        let bytes = text.chunks(2).map(|pair| match pair {
            [high, low] => Some((hex(*high)? << 4 | hex(*low)?) as u8),
            _ => None,
        });
        let bytes: Option<Vec<u8>> = bytes.collect();
        let bytes = bytes.filter(|bytes| bytes.len() == KEY_BYTES).ok_or_else(|| {
            let name = Self::VARIABLE;
            format!(
                "expected {name} as 32 hexadecimal digits in lower case, found something else. Unset it, or take it \
                 from the collector"
            )
        })?;
        key.copy_from_slice(&bytes);
        Ok(Self(key))
    }
}

/// The group that [`GROUP`] names, by its number.
pub fn group_of(text: Option<&str>) -> Result<Option<u32>, String> {
    let Some(text) = text.filter(|text| !text.is_empty()) else { return Ok(None) };
    let number = text.parse::<u32>().ok().filter(|&number| number != u32::MAX);
    let wrong =
        || format!("expected {GROUP} as the number of a group; found '{text}'. `getent group NAME` tells the number");
    number.map(Some).ok_or_else(wrong)
}

/// Makes a stamp directory, or finds it made, and returns its key. Root's has a key, and lets programs that give up
/// its rights make their own directories in it; another user's is closed to all others.
pub fn make(path: &Path) -> io::Result<Option<PoolKey>> {
    match fs::DirBuilder::new().mode(0o700).create(path) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
            let owner = fs::symlink_metadata(path)?.uid();
            return if owner == user() {
                key_of(path)
            } else {
                Err(io::Error::other(format!("it belongs to user {owner}")))
            };
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            let above = path.parent().unwrap_or(Path::new("/"));
            fs::DirBuilder::new().recursive(true).mode(0o711).create(above)?;
            fs::DirBuilder::new().mode(0o700).create(path)?;
        }
        made => made?,
    }
    fs::set_permissions(path, fs::Permissions::from_mode(0o700))?;
    if user() != 0 {
        return Ok(None);
    }
    let mut key = PoolKey::default();
    crate::entropy::fill(&mut key.0)?;
    let mut file = private_file(&path.join(KEY_FILE), None)?;
    io::Write::write_all(&mut file, key.to_string().as_bytes())?;
    // Only now: nobody else could have put anything here.
    fs::set_permissions(path, fs::Permissions::from_mode(0o1733))?;
    Ok(Some(key))
}

/// The key of a stamp directory: that in its file, if the directory's owner wrote it, or else the one in the
/// environment.
pub fn key_of(path: &Path) -> io::Result<Option<PoolKey>> {
    let file =
        OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path.join(KEY_FILE));
    if let Ok(file) = file {
        let (key, directory) = (file.metadata()?, fs::metadata(path)?);
        if key.is_file() && key.uid() == directory.uid() && key.mode() & 0o077 == 0 {
            let mut text = String::new();
            io::Read::read_to_string(&mut io::Read::take(file, 64), &mut text)?;
            return Ok(text.parse().ok());
        }
    }
    Ok(std::env::var(PoolKey::VARIABLE).ok().and_then(|key| key.parse().ok()))
}

/// Makes a file that was not there, for this user alone or for a group too, whatever the umask.
pub fn private_file(path: &Path, group: Option<u32>) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
    let file = options.open(path)?;
    restrict(&file, group, (0o600, 0o660))?;
    Ok(file)
}

/// Opens a stamp directory: the one that `kept` leads to, whatever root or directory the program has by now; what its
/// name leads to now where that is removed, or its descriptor closed.
pub(crate) fn open(path: &Path, kept: Option<&Kept>) -> io::Result<File> {
    let linked = |kept: &BorrowedFd<'_>| {
        let mut found = std::mem::MaybeUninit::<libc::stat>::zeroed();
        // SAFETY: a stat is plain data and outlives the call.
        unsafe { libc::fstat(kept.as_raw_fd(), found.as_mut_ptr()) == 0 && found.assume_init().st_nlink > 0 }
    };
    match kept.and_then(Kept::get).filter(linked) {
        Some(kept) => open_in(kept, c".", libc::O_PATH | libc::O_DIRECTORY),
        None => OpenOptions::new().read(true).custom_flags(libc::O_PATH | libc::O_DIRECTORY).open(path),
    }
}

fn open_in(place: BorrowedFd<'_>, name: &CStr, flags: i32) -> io::Result<File> {
    // SAFETY: a text that outlives the call.
    let found = unsafe { libc::openat(place.as_raw_fd(), name.as_ptr(), flags | libc::O_CLOEXEC, 0o600) };
    done(found)?;
    // SAFETY: it was opened just now, and is nobody else's.
    Ok(unsafe { File::from_raw_fd(found) })
}

fn done(result: i32) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// As [`private_file`], within a directory.
pub(crate) fn private_file_in(place: BorrowedFd<'_>, name: &CStr, group: Option<u32>) -> io::Result<File> {
    let file = open_in(place, name, libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW)?;
    restrict(&file, group, (0o600, 0o660))?;
    Ok(file)
}

/// Gives a file of a directory another name there.
pub(crate) fn rename_in(place: BorrowedFd<'_>, from: &CStr, to: &CStr) -> io::Result<()> {
    // SAFETY: texts that outlive the call.
    done(unsafe { libc::renameat(place.as_raw_fd(), from.as_ptr(), place.as_raw_fd(), to.as_ptr()) })
}

/// Removes a file of a directory, if it is there.
pub(crate) fn remove_in(place: BorrowedFd<'_>, name: &CStr) {
    // SAFETY: a text that outlives the call.
    unsafe { libc::unlinkat(place.as_raw_fd(), name.as_ptr(), 0) };
}

/// The same without a name, on the file system of a directory; gone when nobody has it open or mapped.
pub(crate) fn unnamed_file(directory: &Path, group: Option<u32>) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).mode(0o600).custom_flags(libc::O_TMPFILE).open(directory)?;
    restrict(&file, group, (0o600, 0o660))?;
    Ok(file)
}

/// Gives such a file a name in a directory.
pub(crate) fn name_file(file: BorrowedFd<'_>, place: BorrowedFd<'_>, name: &CStr) -> io::Result<()> {
    let from = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    let (file, place, name) = (file.as_raw_fd(), place.as_raw_fd(), name.as_ptr());
    // SAFETY: texts that outlive the calls. The second is for root without a /proc.
    done(unsafe {
        match libc::linkat(libc::AT_FDCWD, from.as_ptr(), place, name, libc::AT_SYMLINK_FOLLOW) {
            0 => 0,
            _ => libc::linkat(file, c"".as_ptr(), place, name, libc::AT_EMPTY_PATH),
        }
    })
}

/// Gives a file or directory of this user's the rights for it alone, or for a group too.
fn restrict(file: &File, group: Option<u32>, (own, with_group): (u32, u32)) -> io::Result<()> {
    if group.is_some() {
        std::os::unix::fs::fchown(file, None, group)?;
    }
    file.set_permissions(fs::Permissions::from_mode(group.map_or(own, |_| with_group)))
}

/// The directory of this process's user within the stamp directory. Somebody else may have taken the name: then there
/// is one that nobody could guess.
pub(crate) fn own(
    base: BorrowedFd<'_>,
    group: Option<u32>,
    random: impl FnOnce() -> io::Result<u64>,
) -> io::Result<File> {
    let user = user();
    match enter(base, &CString::new(format!("uid-{user}"))?, user, group) {
        Err(e) if matches!(e.raw_os_error(), Some(libc::EPERM | libc::EACCES | libc::ELOOP | libc::ENOTDIR)) => {
            enter(base, &CString::new(format!("uid-{user}-{:016x}", random()?))?, user, group)
        }
        entered => entered,
    }
}

/// The user that this process acts as.
pub fn user() -> u32 {
    // SAFETY: geteuid has no arguments and cannot fail.
    unsafe { libc::geteuid() }
}

fn enter(base: BorrowedFd<'_>, name: &CStr, user: u32, group: Option<u32>) -> io::Result<File> {
    let (at, text) = (base.as_raw_fd(), name.as_ptr());
    // SAFETY: a text that outlives the calls.
    match done(unsafe { libc::mkdirat(at, text, 0o700) }) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
        // A umask may have taken even our own rights. SAFETY: as above.
        made => made.and_then(|()| done(unsafe { libc::fchmodat(at, text, 0o700, 0) }))?,
    }
    let opened = open_in(base, name, libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW)?;
    if opened.metadata()?.uid() != user {
        return Err(io::Error::from_raw_os_error(libc::EPERM));
    }
    restrict(&opened, group, (0o700, 0o770))?;
    Ok(opened)
}

/// Whose pools a collector takes.
#[derive(Clone, Debug)]
pub struct Trust {
    /// Users whose pools are taken: the collector's own, and with root the owner of the directory.
    users: Vec<u32>,
    group: Option<u32>,
    key: Option<PoolKey>,
}

impl Trust {
    /// The trust of a collector of that directory, run as this process's user.
    pub fn of(directory: &Path) -> io::Result<Self> {
        let user = user();
        let mut users = vec![user];
        let owner = fs::metadata(directory)?.uid();
        if user == 0 && owner != user {
            users.push(owner);
        }
        let group = group_of(std::env::var(GROUP).ok().as_deref()).map_err(io::Error::other)?;
        Ok(Self { users, group, key: key_of(directory)? })
    }

    /// Checks owner and rights of a pool that carries that key; the error: what was expected, and what was found.
    pub(crate) fn check(&self, file: &Metadata, key: &[u8; KEY_BYTES]) -> Result<(), (String, String)> {
        let (user, mode) = (file.uid(), file.mode() & 0o7777);
        let by_group = self.group == Some(file.gid());
        let forbidden = if by_group { 0o002 } else { 0o022 };
        if mode & forbidden != 0 {
            return Err(("a pool that only its owner may write".into(), format!("rights {mode:o}")));
        }
        // Not of two that are both unset.
        let by_key = self.key.is_some_and(|own| !own.is_none() && own.0 == *key);
        if self.users.contains(&user) || by_group || by_key {
            return Ok(());
        }
        Err((format!("a pool of user {}", self.names()), format!("one of user {user}")))
    }

    /// Whether a file without a key, such as the note of a program that could not make its pool, is believed.
    pub fn believes(&self, file: &Metadata) -> bool {
        self.users.contains(&file.uid()) || self.group == Some(file.gid())
    }

    /// Whether pools of users that it does not know can be told from those of strangers.
    pub fn has_key(&self) -> bool {
        self.key.is_some_and(|key| !key.is_none())
    }

    fn names(&self) -> String {
        let users: Vec<_> = self.users.iter().map(u32::to_string).collect();
        users.join(" or ")
    }
}

/// Entries of a stamp directory: pools, and notes of programs that could not make one.
#[derive(Debug, Default)]
pub struct DirectoryListing {
    /// Files named as pools are.
    pub pools: Vec<PathBuf>,
    /// Files named `refused-*`.
    pub refused: Vec<PathBuf>,
    /// What cannot be looked into, with the reason; the first thousand or so.
    pub closed: Vec<(PathBuf, String)>,
    /// Pools in directories of other users that are not looked into, because no key tells whether to believe them.
    pub keyless: u64,
}

/// Lists a stamp directory and those of the users in it. Follows no symbolic link: one is not looked into.
pub fn list(directory: &Path, trust: &Trust) -> io::Result<DirectoryListing> {
    let mut listing = DirectoryListing::default();
    list_into(directory, &mut listing)?;
    let mut looked_into: HashMap<u32, u32> = HashMap::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let Some(user) = user_of(&entry.file_name()) else { continue };
        let path = entry.path();
        // Counted by its owner, whom nobody can forge: names that a stranger makes take no place of the user's.
        let listed = match entry.metadata().and_then(|entry| expect_directory_of(user, &entry)) {
            Ok(()) if is_of_further(&entry.file_name(), user) => {
                let looked = looked_into.entry(user).or_default();
                *looked += 1;
                if *looked > MOST_DIRECTORIES { continue } else { list_of_user(&path, user, trust, &mut listing) }
            }
            Ok(()) => list_of_user(&path, user, trust, &mut listing),
            Err(why) => Err(why),
        };
        let Err(why) = listed else { continue };
        if why.kind() != io::ErrorKind::NotFound && listing.closed.len() < MOST_CLOSED {
            listing.closed.push((path, why.to_string()));
        }
    }
    Ok(listing)
}

/// Whether a directory is one beside the user's `uid-N`.
fn is_of_further(name: &OsStr, user: u32) -> bool {
    name.as_bytes() != format!("uid-{user}").as_bytes()
}

fn expect_directory_of(user: u32, found: &Metadata) -> io::Result<()> {
    let what = match (found.is_dir(), found.uid()) {
        (true, owner) if owner == user => return Ok(()),
        (true, owner) => format!("one of user {owner}"),
        (false, owner) => format!("another thing, of user {owner}"),
    };
    Err(io::Error::other(format!("expected a directory of user {user}, found {what}; remove it")))
}

fn list_of_user(path: &Path, user: u32, trust: &Trust, listing: &mut DirectoryListing) -> io::Result<()> {
    let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW;
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let metadata = opened.metadata()?;
    expect_directory_of(user, &metadata)?;
    if !trust.users.contains(&user) && trust.key.is_none() && trust.group != Some(metadata.gid()) {
        let mut theirs = DirectoryListing::default();
        list_into(path, &mut theirs)?;
        listing.keyless += theirs.pools.len() as u64;
        let (own, key) = (trust.names(), PoolKey::VARIABLE);
        let text = format!(
            "expected pools of user {own}, found those of user {user}; collect as that user, or start its programs and \
             the collector with the same {key}"
        );
        return Err(io::Error::other(text));
    }
    list_into(path, listing)
}

fn list_into(directory: &Path, listing: &mut DirectoryListing) -> io::Result<()> {
    for entry in fs::read_dir(directory)?.take(MOST_ENTRIES) {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.as_bytes();
        if name.starts_with(b"pool-") && name.ends_with(b".ticks") {
            listing.pools.push(entry.path());
        } else if name.starts_with(b"refused-") {
            listing.refused.push(entry.path());
        }
    }
    Ok(())
}

/// The file's name of the pool with this instance.
pub fn pool_file(instance: u64) -> String {
    format!("pool-{instance:016x}.ticks")
}

/// The instance of the pool that a file is named after.
pub fn instance_of(name: &OsStr) -> Option<u64> {
    u64::from_str_radix(name.to_str()?.strip_prefix("pool-")?.strip_suffix(".ticks")?, 16).ok()
}

/// The user that a directory `uid-N` or `uid-N-RANDOM` is named after.
pub fn user_of(name: &OsStr) -> Option<u32> {
    let rest = name.to_str()?.strip_prefix("uid-")?;
    rest.split_once('-').map_or(rest, |(user, _)| user).parse().ok()
}

/// What helps where no pool could be made, by the number of the error.
pub fn remedy(error: i32) -> &'static str {
    match error {
        libc::ENOENT | libc::ENOTDIR => "Make that directory first (mkdir -m 700), on a tmpfs such as /dev/shm",
        libc::EACCES | libc::EPERM => "Check the rights of that directory: this user must be able to write",
        libc::EROFS => "That file system is read-only: name a directory on another, such as /dev/shm",
        libc::ELOOP => "A symbolic link is in its way: name the directory itself",
        libc::EMFILE => "Raise ulimit -n: a pool takes a descriptor above 2",
        libc::EFBIG => "Raise ulimit -f, or set TICKSCOPE_POOL_BYTES lower",
        libc::ENOMEM => "Raise ulimit -v, or set TICKSCOPE_POOL_BYTES lower",
        _ => "Free or enlarge that tmpfs, or set TICKSCOPE_POOL_BYTES lower",
    }
}

/// Makes an empty file that tells the collector why this process has no pool, without a descriptor. Where this fails
/// too, its caller's error still tells.
pub(crate) fn note_refusal(place: Option<BorrowedFd<'_>>, path: &Path, group: Option<u32>) {
    let place = place.map_or(libc::AT_FDCWD, |place| place.as_raw_fd());
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else { return };
    // SAFETY: a text that outlives the calls.
    unsafe {
        let made = libc::mknodat(place, path.as_ptr(), libc::S_IFREG | 0o600, 0) == 0;
        let give = |group| libc::fchownat(place, path.as_ptr(), u32::MAX, group, libc::AT_SYMLINK_NOFOLLOW);
        if made && group.is_some_and(|group| give(group) != 0) {
            libc::unlinkat(place, path.as_ptr(), 0);
        }
    }
}

/// Opens a lock file that this user or, in a sticky directory, nobody else made; one of a stranger's is removed, where
/// that is allowed.
pub fn lock_file(path: &Path, trust: &Trust) -> io::Result<File> {
    for _ in 0..8 {
        match private_file(path, trust.group) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            made => return made,
        }
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
        let found = OpenOptions::new().read(true).write(true).custom_flags(flags).open(path);
        let believed = |file: &File| file.metadata().is_ok_and(|found| found.is_file() && trust.believes(&found));
        match found {
            Ok(file) if believed(&file) => return Ok(file),
            Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
            Err(e) if !matches!(e.raw_os_error(), Some(libc::ELOOP | libc::EACCES | libc::EISDIR | libc::ENXIO)) => {
                return Err(e);
            }
            _ => {}
        }
        let removed =
            if fs::symlink_metadata(path)?.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        removed?;
    }
    Err(io::Error::other("somebody else keeps making it"))
}

/// The text of a file that this user made; `None`: there is none, or it is a stranger's.
pub fn private_text(path: &Path, trust: &Trust) -> io::Result<Option<String>> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let mut file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Err(e) if matches!(e.raw_os_error(), Some(libc::ENOENT | libc::ELOOP | libc::EACCES | libc::ENXIO)) => {
            return Ok(None);
        }
        opened => opened?,
    };
    let found = file.metadata()?;
    if !found.is_file() || !trust.believes(&found) {
        return Ok(None);
    }
    let mut text = String::new();
    io::Read::read_to_string(&mut file, &mut text)?;
    Ok(Some(text))
}

/// Writes [`STORED_FILE`] whole, by a rename; removes it where there is nothing to say.
pub fn replace_private(path: &Path, text: &str, trust: &Trust) -> io::Result<()> {
    let gone = |removed: io::Result<()>| match removed {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    };
    let new = path.with_file_name(STORED_FILE_NEW);
    gone(fs::remove_file(&new))?;
    if text.is_empty() {
        return gone(fs::remove_file(path));
    }
    let mut file = private_file(&new, trust.group)?;
    io::Write::write_all(&mut file, text.as_bytes())?;
    fs::rename(&new, path)
}

/// Whether a collector holds a stamp directory.
pub(crate) fn has_collector(base: BorrowedFd<'_>) -> bool {
    let file = open_in(base, c"collector.lock", libc::O_RDWR | libc::O_NOFOLLOW);
    file.is_ok_and(|file| is_locked(file.as_fd(), 0))
}

/// Whether somebody has locked that byte of a file.
pub(crate) fn is_locked(file: BorrowedFd<'_>, byte: i64) -> bool {
    let mut lock = crate::pool::lock_of_first_byte();
    lock.l_start = byte;
    // SAFETY: a valid descriptor and a flock that outlives the call.
    let asked = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &mut lock) };
    asked == 0 && lock.l_type != libc::F_UNLCK as i16
}
