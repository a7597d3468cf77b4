//! C programs on `tickscope.h`, compiled with every warning an error, and stamp directories for them to run in.
#![allow(dead_code, reason = "each test file uses its part")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use tickscope_stamp::pool::Pool;

/// Compiles `tests/c/NAME.c`; the command runs it.
pub fn build(name: &str, flags: &[&str]) -> Command {
    Command::new(compile_with("cc", name, flags, name))
}

pub fn compile_with(compiler: &str, name: &str, flags: &[&str], output: &str) -> PathBuf {
    static SERIAL: AtomicU32 = AtomicU32::new(0);
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
    let program = folder.join(format!("{output}-{}-{serial}", std::process::id()));
    let compiled = Command::new(compiler)
        .args(["-Wall", "-Wextra", "-Werror", "-O2", "-pthread"])
        .args(flags)
        .arg("-I")
        .arg(root.join("include"))
        .arg("-o")
        .arg(&program)
        .arg(root.join("tests/c").join(format!("{name}.c")))
        .arg("-ldl")
        .output()
        .unwrap();
    assert!(compiled.status.success(), "{name} {flags:?}:\n{}", String::from_utf8_lossy(&compiled.stderr));
    program
}

/// A stamp directory on tmpfs that is removed with the value.
pub struct StampDirectory(pub PathBuf);

impl StampDirectory {
    pub fn new(name: &str) -> Self {
        let path = Path::new("/dev/shm").join(format!("tickscope-test-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// Every pool in it.
    pub fn pools(&self) -> Vec<Pool> {
        let names = std::fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().path());
        let pools =
            names.filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("pool-")));
        pools.map(|path| Pool::open(&path).unwrap()).collect()
    }

    /// Sets up a command to stamp here.
    pub fn measure<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.env("TICKSCOPE_DIR", &self.0).env("TICKSCOPE_NODE", "test").env("TICKSCOPE_POOL_BYTES", "67108864")
    }
}

impl Drop for StampDirectory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
