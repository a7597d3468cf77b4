//! Several copies of the library in one process: of C and of Rust, of this version and of earlier ones. Each has a pool
//! of its own, counts on its own, and is cut off by fork on its own.

mod c_program;

use std::collections::BTreeMap;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use c_program::{ReturnedCounts, StampDirectory, build, compile_with, ids, records};
use tickscope_stamp::block::{PoolState, VERSION};
use tickscope_stamp::{Channel, Fields};
use tickscope_tick::Ordering as ReadOrdering;

const COUNT: i64 = 3000;
/// Version 1 knows neither a user's own directory nor successors; version 3 was the last whose policies took nothing.
const EARLIER: [u32; 2] = [1, 3];

/// The library of `plugin.c`, on the header of an earlier version or today's.
fn library(version: Option<u32>) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let earlier = version.map(|version| format!("-I{}/version-{version}", folder.display()));
    let flags: Vec<&str> = ["-shared", "-fPIC"].into_iter().chain(earlier.as_deref()).collect();
    compile_with("cc", "plugin", &flags, &format!("plugin-{}.so", version.unwrap_or(0)))
}

/// How many ids lie in pools of each version, of programs that ended well or were children; each id once and in order.
fn stamped(directory: &StampDirectory) -> BTreeMap<(u32, bool), Vec<usize>> {
    let mut found = BTreeMap::<(u32, bool), Vec<usize>>::new();
    for pool in directory.pools() {
        let has_closed = pool.state() == Some(PoolState::Closed);
        for (stamps, open) in records(&pool).into_values() {
            assert_eq!((ids(&stamps), open), ((0..stamps.len() as i64).collect(), 0), "{}", pool.path().display());
            found.entry((pool.header().version, has_closed)).or_default().push(stamps.len());
        }
    }
    found
}

#[test]
fn c_a_program_and_a_library_of_an_earlier_version_have_a_pool_each() {
    for version in EARLIER {
        let (directory, returned) = (StampDirectory::new("mixed"), ReturnedCounts::new("mixed"));
        let mut command = build("stamper", &[]);
        let command = command.arg(&returned.0).arg("plugin").arg(library(Some(version))).arg(COUNT.to_string());
        let run = directory.measure(command).output().unwrap();
        assert!(run.status.success() && run.stderr.is_empty(), "{run:?}");
        let lengths: Vec<usize> = stamped(&directory).into_values().flatten().collect();
        assert_eq!((lengths, directory.pools().len()), (vec![COUNT as usize; 2], 2), "{version}");
    }
}

#[test]
fn a_rust_program_with_c_libraries_of_several_versions_and_its_child_have_a_pool_for_each() {
    let directory = StampDirectory::new("copies");
    // Two of today's: nothing of the one is the other's.
    let libraries = [None, None, Some(1), Some(3)].map(library);
    let mut command = Command::new(std::env::current_exe().unwrap());
    directory.measure(command.args(["--exact", "the_rust_program", "--nocapture"])).stdout(Stdio::null());
    let paths: Vec<&str> = libraries.iter().map(|path| path.to_str().unwrap()).collect();
    let run = command.env("COPIES", paths.join(":")).output().unwrap();
    assert!(run.status.success() && run.stderr.is_empty(), "{run:?}");
    let of_c = directory.pools().iter().map(|pool| pool.header().version).min().unwrap();
    assert_eq!((of_c, directory.pools().len()), (1, 2 * (libraries.len() + 1)), "a pool a copy, in parent and child");
    let lengths: Vec<usize> = stamped(&directory).into_values().flatten().collect();
    assert_eq!(lengths, vec![COUNT as usize; 2 * (libraries.len() + 1)]);
    let rust = directory.pools().iter().filter(|pool| pool.header().version == VERSION).count();
    assert!(rust >= 2, "the Rust copies'");
}

/// `plugin_run` of a library, loaded so that others could use its symbols.
fn load(path: &str) -> extern "C" fn(i64) {
    let path = CString::new(Path::new(path).as_os_str().as_bytes()).unwrap();
    // SAFETY: a library made by this test, never unloaded; `plugin_run` has that signature.
    unsafe {
        let library = libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL);
        let run = libc::dlsym(library, c"plugin_run".as_ptr());
        assert!(!run.is_null());
        std::mem::transmute::<*mut libc::c_void, extern "C" fn(i64)>(run)
    }
}

/// A program in Rust: this test file, run again. Parent and child stamp on the channels that were open before.
#[test]
fn the_rust_program() {
    let Ok(libraries) = std::env::var("COPIES") else { return };
    let channel = Channel::open("work", ReadOrdering::Before, Fields::Slim).unwrap();
    let runs: Vec<extern "C" fn(i64)> = libraries.split(':').map(load).collect();
    runs.iter().for_each(|run| run(0)); // loaded, and nothing opened
    let stamp_all = || {
        runs.iter().for_each(|run| run(COUNT));
        (0..COUNT).for_each(|id| channel.stamp(id));
    };
    // The parent's pools are there when it forks.
    stamp_all();
    // SAFETY: the child stamps and leaves by _exit.
    let child = unsafe { libc::fork() };
    if child == 0 {
        stamp_all();
        // SAFETY: ends this process without the test harness's code.
        unsafe { libc::_exit(0) };
    }
    let mut status = 0;
    // SAFETY: waits for the child above.
    unsafe { libc::waitpid(child, &mut status, 0) };
    assert_eq!(status, 0);
}
