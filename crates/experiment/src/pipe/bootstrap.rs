//! The way from a prefix that runs commands somewhere to an agent there: `sh`, fed on its standard input.
//!
//! Only `sh` follows the prefix: what splits words again on the way (ssh does, kubectl does not) finds nothing to
//! split. The script is a function that is called by its last line: a shell that reads ahead has read it to the end
//! before anything runs. Whatever is printed before the token, by login scripts and the like, is passed over; nothing
//! is sent that was not asked for by a line with the token.
//!
//! The program lies in a folder of the user's cache that is his own and nobody else's, under its SHA-256, and is held
//! against it at each use.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use sha2::{Digest, Sha256};
use tickscope_tick::quoted;

use super::Unfetched;
use crate::Error;

/// This program, as it is copied to other machines.
#[derive(Clone, Debug)]
pub struct Program {
    /// Where it lies here.
    pub path: PathBuf,
    /// Bytes.
    pub length: u64,
    /// SHA-256, in hexadecimal.
    pub digest: String,
}

/// The folder of copied programs, made, the user's own and nobody else's; its name is left in `C`.
const CACHE: &str = r#"
own() { mkdir -p "$1" 2>/dev/null && [ ! -L "$1" ] && [ -O "$1" ] && chmod 700 "$1"; }
cache() {
  C=${XDG_CACHE_HOME:-${HOME:+$HOME/.cache}}
  if [ -n "$C" ] && own "$C/tickscope" && own "$C/tickscope/agents" && [ -w "$C/tickscope/agents" ]; then
    C=$C/tickscope/agents
    return
  fi
  C=${TMPDIR:-/tmp}/tickscope-$(id -u)
  if own "$C" && own "$C/agents"; then C=$C/agents; return; fi
  say failed "no folder of this user can be made below XDG_CACHE_HOME, HOME or $C; set XDG_CACHE_HOME there"; exit 1
}
"#;

impl Program {
    /// This program; without what only debuggers read, where `strip` is at hand.
    pub fn this() -> Result<Self, Error> {
        // Pipes to several nodes are opened at once: one of them makes the copy.
        static FOUND: Mutex<Option<Program>> = Mutex::new(None);
        let mut found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(program) = found.as_ref().filter(|program| program.path.exists()) {
            return Ok(program.clone());
        }
        Ok(found.insert(Self::look()?).clone())
    }

    fn look() -> Result<Self, Error> {
        let wrong =
            |e: &dyn std::fmt::Display| Error::work(format!("cannot read this program to copy it: {e}. Mount /proc"));
        let whole = std::env::current_exe().map_err(|e| wrong(&e))?;
        let path = stripped(&whole).unwrap_or(whole);
        let (length, digest) = digest_of(&path).map_err(|e| wrong(&e))?;
        Ok(Self { path, length, digest })
    }
}

/// A copy without debug information, made once for each build.
fn stripped(program: &Path) -> Option<PathBuf> {
    use std::os::unix::fs::MetadataExt;
    /// A copy of another build may be needed by a run that goes on.
    const KEPT_FOR: Duration = Duration::from_secs(86_400);
    let found = program.metadata().ok()?;
    let home = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = home.or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")))?;
    let folder = home.join("tickscope").join("stripped");
    tickscope_store::make_folders(&folder).ok()?;
    let place = folder.join(format!("{}-{}-{}-{}", found.dev(), found.ino(), found.size(), found.mtime_nsec()));
    if !place.exists() {
        for old in std::fs::read_dir(&folder).ok()?.flatten() {
            let made = old.metadata().and_then(|found| found.modified()).ok();
            if made.and_then(|made| made.elapsed().ok()).is_some_and(|age| age > KEPT_FOR) {
                let _ = std::fs::remove_file(old.path()); // of an earlier build
            }
        }
        let new = folder.join(format!(".new-{}", std::process::id()));
        let done = Command::new("strip").args(["--strip-debug", "-o"]).arg(&new).arg(program).output().ok()?;
        if !done.status.success() {
            return None;
        }
        std::fs::rename(&new, &place).ok()?;
    }
    Some(place)
}

fn digest_of(path: &Path) -> std::io::Result<(u64, String)> {
    let (mut file, mut digest, mut length) = (File::open(path)?, Sha256::new(), 0);
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            read => {
                digest.update(&buffer[..read]);
                length += read as u64;
            }
        }
    }
    Ok((length, digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()))
}

/// The script that attaches to a session's agent; `program`: what is copied if it is not there; `agent`: where one
/// lies there.
pub fn attaching(token: &str, session: u64, program: Result<&Program, &str>) -> String {
    let attach = format!("agent attach --session {session:016x} --token {token}");
    let body = match program {
        Err(agent) => {
            let agent = quoted(agent);
            format!("F={agent}\n  fit\n  say start\n  exec \"$F\" {attach}\n")
        }
        Ok(Program { digest, .. }) => format!(
            r#"cache
  F=$C/tickscope-{digest}
  if ! same; then
    say want
    receive "$F.$T" && chmod 700 "$F.$T"
    same || mv -f "$F.$T" "$F"
    rm -f "$F.$T"
    if ! same; then say failed "the copied program cannot be stored in $C: $(df -h "$C" 2>&1 | tail -n 1)"; exit 1; fi
  fi
  fit
  say start
  exec "$F" {attach}
"#
        ),
    };
    let (length, digest) = program.map_or((0, ""), |program| (program.length, &program.digest));
    format!(
        r#"T={token}
umask 077
say() {{ printf '\n%s %s\n' "$T" "$*"; }}
receive() {{
  : > "$1" || return
  G=0
  while [ "$G" -lt {length} ]; do
    P=$(({length} - G))
    [ "$P" -le {PIECE} ] || P={PIECE}
    head -c "$P" >> "$1" || return
    G=$((G + P))
    say got "$G"
  done
}}
same() {{ [ -f "$F" ] && [ "$(sha256sum < "$F" | cut -c1-64)" = "{digest}" ]; }}
fit() {{ V=$("$F" --version 2>&1) || {{ say unfit "$(printf %s "$V" | tr '\n' ' ')"; exit 1; }}; }}
{CACHE}main() {{
  say here "$(uname -s)" "$(uname -m)"
  {body}}}
main
"#
    )
}

/// The script that removes the copied programs of this user; one of them first removes the folders of sessions that
/// are over.
pub fn removing(token: &str, unfetched: Unfetched) -> String {
    let unfetched = if unfetched == Unfetched::Remove { " --unfetched" } else { "" };
    format!(
        r#"T={token}
umask 077
say() {{ printf '\n%s %s\n' "$T" "$*"; }}
{CACHE}main() {{
  say here "$(uname -s)" "$(uname -m)"
  cache
  for F in "$C"/tickscope-*; do
    [ -x "$F" ] || continue
    S=$("$F" agent sessions{unfetched} 2>/dev/null) || continue
    printf '%s\n' "$S" | while IFS= read -r L; do [ -z "$L" ] || say session "$L"; done
    break
  done
  N=0
  for F in "$C"/tickscope-*; do [ -f "$F" ] && rm -f "$F" && N=$((N + 1)); done
  say removed "$N" "$C"
}}
main
"#
    )
}

/// Bytes of the program that are sent at a time. The next piece is sent once one has arrived, so that a `head` that
/// reads ahead finds nothing to read.
const PIECE: u64 = 256 << 10;

/// The program in pieces.
pub fn pieces(program: &Program) -> std::io::Result<impl Iterator<Item = std::io::Result<Vec<u8>>> + use<>> {
    let (mut file, mut left) = (File::open(&program.path)?, program.length);
    Ok(std::iter::from_fn(move || {
        let mut piece = vec![0; left.min(PIECE) as usize];
        left -= piece.len() as u64;
        (!piece.is_empty()).then(|| file.read_exact(&mut piece).map(|()| piece))
    }))
}

/// Refuses a machine that this program cannot run on.
pub fn expect_machine(system: &str, machine: &str) -> Result<(), String> {
    let here = std::env::consts::ARCH;
    let alike = machine == here || (here == "aarch64" && machine == "arm64");
    if system == "Linux" && alike {
        return Ok(());
    }
    Err(format!(
        "expected Linux on {here}, as here, found {system} on {machine}. Build tickscope there, and name it in the run \
         file: agent = \"/path/to/tickscope\""
    ))
}
