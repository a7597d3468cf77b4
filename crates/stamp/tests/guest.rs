//! What the stamp library must not do to the program that it is a guest of: end it, hold it up, or touch its files.

mod c_program;

use std::fs::{self, File};
use std::io::{PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::Ordering::Relaxed;

use c_program::{Running, StampDirectory, compile_with, ids, records, until};
use tickscope_stamp::directory::{Trust, list};
use tickscope_stamp::pool::Pool;
use tickscope_stamp::{Channel, Fields, Ordering, point};

/// Numbers from 3 to this are a file of the program's.
const LAST: i32 = 900;

/// The program in both languages, in that role.
fn guests(role: &[&str]) -> [Command; 2] {
    static IN_C: OnceLock<PathBuf> = OnceLock::new();
    let mut in_c = Command::new(IN_C.get_or_init(|| compile_with("cc", "guest", &[], "guest")));
    in_c.args(role);
    let mut in_rust = Command::new(std::env::current_exe().unwrap());
    in_rust.args(["--exact", "the_rust_program", "--nocapture"]).env("GUEST_ROLE", role.join("\n"));
    [in_c, in_rust].map(|mut command| {
        command.env("TICKSCOPE_DIR", "/no/such/directory");
        command
    })
}

/// How a program ends, and what it prints, within a minute.
fn ended(command: &mut Command) -> (ExitStatus, String) {
    let mut program = Running(command.stdout(Stdio::piped()).spawn().unwrap());
    let status = std::cell::Cell::new(None);
    let mut stdout = program.0.stdout.take().unwrap();
    let program = std::cell::RefCell::new(program);
    until(|| {
        status.set(program.borrow_mut().0.try_wait().unwrap());
        status.get().is_some()
    });
    let mut printed = String::new();
    stdout.read_to_string(&mut printed).unwrap();
    (status.get().unwrap(), printed)
}

#[track_caller]
fn expect_alive(command: &mut Command) {
    let (status, printed) = ended(command);
    assert!(status.success() && printed.contains("alive"), "{command:?}: {status}, {printed}");
}

fn full_pipe() -> (PipeReader, PipeWriter) {
    let (reader, writer) = std::io::pipe().unwrap();
    // SAFETY: flags of a descriptor of this test's own.
    let set = |flags: i32| unsafe { libc::fcntl(writer.as_raw_fd(), libc::F_SETFL, flags) };
    assert_eq!(set(libc::O_NONBLOCK), 0);
    while (&writer).write(&[0; 4096]).is_ok() {}
    assert_eq!(set(0), 0);
    (reader, writer)
}

#[test]
fn c_and_rust_programs_outlive_a_complaint_that_nobody_reads() {
    for mut program in guests(&["complain"]).into_iter().chain(guests(&["pending"])) {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        expect_alive(program.stderr(writer));
    }
}

#[test]
fn c_and_rust_programs_go_on_where_stderr_is_full() {
    for mut program in guests(&["complain"]) {
        let (_reader, writer) = full_pipe();
        expect_alive(program.stderr(writer));
    }
}

#[test]
fn c_and_rust_programs_outlive_a_complaint_beyond_the_largest_file() {
    let directory = StampDirectory::new("guest-limit");
    for mut program in guests(&["complain"]) {
        let log = File::create(directory.0.join("stderr")).unwrap();
        // SAFETY: a call that may be made between fork and exec.
        let limit = || unsafe {
            let limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            if libc::setrlimit(libc::RLIMIT_FSIZE, &limit) == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
        };
        // SAFETY: as above.
        expect_alive(unsafe { program.pre_exec(limit) }.stderr(log));
    }
}

#[test]
fn c_and_rust_complaints_go_to_a_file_that_is_stderr_and_to_none_that_has_its_number() {
    let directory = StampDirectory::new("guest-reuse");
    let (data, log) = (directory.0.join("data"), directory.0.join("stderr"));
    for mut program in guests(&["reuse", data.to_str().unwrap()]) {
        expect_alive(program.stderr(Stdio::null()));
        assert_eq!(fs::read_to_string(&data).unwrap(), "mine");
    }
    for mut program in guests(&["complain"]) {
        expect_alive(program.stderr(File::create(&log).unwrap()));
        let told = fs::read_to_string(&log).unwrap();
        assert!(told.contains("/no/such/directory") && told.ends_with('\n'), "{told}");
    }
}

#[test]
fn c_and_rust_programs_keep_files_that_have_a_number_of_the_library() {
    let beside = StampDirectory::new("guest-data");
    let data = beside.0.join("file");
    for mut program in guests(&["descriptors", data.to_str().unwrap()]) {
        let directory = StampDirectory::new("guest-descriptors");
        expect_alive(directory.measure(&mut program));
        assert_eq!(fs::read_to_string(&data).unwrap(), "mine".repeat((LAST - 2) as usize));
        let stamped =
            directory.pools().iter().map(|pool| ids(&records(pool).into_values().next().unwrap().0)).collect();
        let mut stamped: Vec<Vec<i64>> = stamped;
        stamped.sort();
        assert_eq!(stamped, [vec![1, 3], vec![2]], "the parent's and its child's");
        let of_child = |pool: &&Pool| ids(&records(pool).into_values().next().unwrap().0) == [2];
        let pools = directory.pools();
        let header = pools.iter().find(of_child).unwrap().header();
        let [from, until] = [&header.late_from, &header.late_until].map(|tick| tick.load(Relaxed));
        assert!(0 < from && from < header.created_tick && header.created_tick < until, "{from} {until}");
    }
}

#[test]
fn c_and_rust_children_that_cannot_have_a_pool_say_so() {
    for mut program in guests(&["few"]) {
        let directory = StampDirectory::new("guest-few");
        let log = directory.0.with_extension("stderr");
        expect_alive(directory.measure(&mut program).stderr(File::create(&log).unwrap()));
        let told = fs::read_to_string(&log).unwrap();
        fs::remove_file(&log).unwrap();
        // In C once a channel, of which it has two.
        let lines = told.matches("tickscope: ").count();
        assert!((1..=2).contains(&lines) && told.contains("aise ulimit -n"), "{program:?}: {told}");
    }
}

#[test]
fn c_threads_outlive_a_library_in_which_they_stamped() {
    let library = compile_with("cc", "plugin", &["-shared", "-fPIC"], "plugin.so");
    let directory = StampDirectory::new("guest-unload");
    let [mut in_c, _] = guests(&["unload", library.to_str().unwrap()]);
    expect_alive(directory.measure(&mut in_c).stderr(Stdio::null()));
    let of_pool = |pool: &Pool| records(pool).into_values().map(|(stamps, _)| stamps.len()).collect::<Vec<_>>();
    let mut stamped: Vec<Vec<usize>> = directory.pools().iter().map(of_pool).collect();
    stamped.iter_mut().for_each(|lengths| lengths.sort());
    stamped.sort();
    assert_eq!(stamped, [vec![1], vec![50, 100], vec![50, 100], vec![50, 100]], "the program's, and the library's");
}

#[test]
fn c_a_library_that_never_stamped_leaves_no_address_space_or_descriptor_behind() {
    let library = compile_with("cc", "plugin", &["-shared", "-fPIC"], "plugin.so");
    let directory = StampDirectory::new("guest-leave");
    let [mut in_c, _] = guests(&["leave", library.to_str().unwrap()]);
    expect_alive(directory.measure(&mut in_c).stderr(Stdio::null()));
    assert!(directory.pools().is_empty());
}

#[test]
fn c_and_rust_programs_have_a_pool_before_they_begin() {
    for mut program in guests(&["first"]) {
        let directory = StampDirectory::new("guest-first");
        expect_alive(directory.measure(&mut program));
        let pools = directory.pools();
        let (stamps, _) = records(&pools[0]).into_values().next().unwrap();
        assert_eq!((pools.len(), ids(&stamps)), (1, vec![1]));
        assert!(pools[0].header().created_tick < stamps[0].tick, "the first stamp waited for the pool");
    }
}

#[test]
fn c_and_rust_programs_that_open_nothing_leave_nothing_to_recover() {
    for mut program in guests(&["idle"]) {
        let directory = StampDirectory::new("guest-idle");
        expect_alive(directory.measure(&mut program));
        assert_eq!(fs::read_dir(&directory.0).unwrap().count(), 0, "{program:?}");
    }
}

#[test]
fn c_and_rust_programs_that_open_nothing_do_not_complain() {
    let directory = StampDirectory::new("guest-silent");
    let log = directory.0.join("stderr");
    for (name, value) in [("TICKSCOPE_DIR", "/no/such/directory"), ("TICKSCOPE_POLICY", "wrong")] {
        for mut program in guests(&["idle"]) {
            expect_alive(directory.measure(&mut program).env(name, value).stderr(File::create(&log).unwrap()));
            assert_eq!(fs::read_to_string(&log).unwrap(), "", "{program:?}");
        }
        for mut program in guests(&["first"]) {
            expect_alive(directory.measure(&mut program).env(name, value).stderr(File::create(&log).unwrap()));
            assert!(fs::read_to_string(&log).unwrap().contains(value), "{program:?}");
        }
    }
}

#[test]
fn c_and_rust_programs_of_another_user_by_the_first_stamp_have_a_pool_of_that_users() {
    // SAFETY: geteuid has no arguments and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        return eprintln!("LEFT OUT: several users; only root can become them");
    }
    for (user, mut program) in
        [33, 0].iter().flat_map(|user| guests(&["become", &user.to_string()]).map(|it| (user, it)))
    {
        let directory = StampDirectory::new("guest-become");
        fs::set_permissions(&directory.0, fs::Permissions::from_mode(0o1777)).unwrap();
        expect_alive(directory.measure(&mut program));
        let places: Vec<_> = fs::read_dir(&directory.0).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!(places, [directory.0.join(format!("uid-{user}"))], "it opened nothing before");
        let pools: Vec<_> = fs::read_dir(&places[0]).unwrap().map(|entry| entry.unwrap().path()).collect();
        let facts = pools[0].metadata().unwrap();
        let (stamps, _) = records(&Pool::open(&pools[0]).unwrap()).into_values().next().unwrap();
        assert_eq!((pools.len(), facts.uid(), facts.gid(), ids(&stamps)), (1, *user, 33, vec![1]));
    }
}

#[test]
fn c_and_rust_children_leave_their_parents_pool_which_is_there_before_it_begins() {
    for mut program in guests(&["parent"]) {
        let directory = StampDirectory::new("guest-parent");
        expect_alive(directory.measure(&mut program));
        let mut found: Vec<_> = directory
            .pools()
            .into_iter()
            .map(|pool| {
                let (stamps, _) = records(&pool).into_values().next().unwrap();
                (ids(&stamps), pool.header().created_tick < stamps[0].tick, pool.header().pid)
            })
            .collect();
        found.sort();
        assert!(
            matches!(&found[..], [(first, true, parent), (second, _, child)]
            if (first, second) == (&vec![1], &vec![2]) && parent != child),
            "{found:?}"
        );
    }
}

#[test]
fn c_and_rust_programs_that_closed_their_descriptors_make_a_pool_at_the_first_opening() {
    let beside = StampDirectory::new("guest-beside");
    for mut program in guests(&["close", beside.0.join("file").to_str().unwrap()]) {
        let directory = StampDirectory::new("guest-close");
        expect_alive(directory.measure(&mut program));
        let pools = directory.pools();
        let (stamps, _) = records(&pools[0]).into_values().next().unwrap();
        assert_eq!((pools.len(), ids(&stamps)), (1, vec![1]));
    }
}

#[test]
fn c_and_rust_programs_without_a_number_above_2_have_no_pool_and_say_so() {
    for mut program in guests(&["low"]) {
        let directory = StampDirectory::new("guest-low");
        expect_alive(directory.measure(&mut program));
        assert!(directory.pools().is_empty(), "{program:?}");
        expect_refusal(&directory);
    }
    for program in guests(&["first"]) {
        let directory = StampDirectory::new("guest-low-load");
        let log = directory.0.join("stderr");
        let mut limited = Command::new("sh");
        limited.args(["-c", "exec <&- >&-; ulimit -n 3; exec \"$0\" \"$@\""]).arg(program.get_program());
        limited.args(program.get_args());
        limited.envs(program.get_envs().filter_map(|(name, value)| value.map(|value| (name, value))));
        let (status, _) = ended(directory.measure(&mut limited).stderr(File::create(&log).unwrap()));
        let told = fs::read_to_string(&log).unwrap();
        assert!(status.success() && told.matches("ulimit -n").count() == 1, "{program:?}: {status}, {told}");
        assert!(directory.pools().is_empty(), "{program:?}");
        expect_refusal(&directory);
    }
}

/// The note by which a collector learns of a program without a pool.
fn expect_refusal(directory: &StampDirectory) {
    let listing = list(&directory.0, &Trust::of(&directory.0).unwrap()).unwrap();
    let name = listing.refused.first().and_then(|path| path.file_name()?.to_str()).unwrap_or_default();
    assert!(listing.refused.len() == 1 && name.ends_with(&format!("-{}", libc::EMFILE)), "{listing:?}");
}

#[test]
fn c_and_rust_programs_that_leave_their_directory_keep_their_stamp_directory() {
    for mut program in guests(&["leave-directory"]) {
        let directory = StampDirectory::new("guest-directory");
        let name = directory.0.file_name().unwrap().to_owned();
        expect_alive(directory.measure(&mut program).current_dir("/dev/shm").env("TICKSCOPE_DIR", name));
        expect_both(&directory);
    }
}

#[test]
fn c_and_rust_programs_that_change_their_root_keep_their_stamp_directory() {
    // SAFETY: geteuid has no arguments and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        return eprintln!("LEFT OUT: another root; only root can have one");
    }
    let root = StampDirectory::new("guest-root");
    for mut program in guests(&["leave-root", root.0.to_str().unwrap()]) {
        let directory = StampDirectory::new("guest-chroot");
        expect_alive(directory.measure(&mut program));
        expect_both(&directory);
    }
}

/// A program's pool and its child's, each with a stamp, both under the kernel's boot id.
fn expect_both(directory: &StampDirectory) {
    let mut found: Vec<_> = directory
        .pools()
        .iter()
        .map(|pool| (ids(&records(pool).into_values().next().unwrap().0), pool.boot_id()))
        .collect();
    found.sort();
    let boot = tickscope_counter::boot_id().unwrap();
    assert_eq!(found, [(vec![1], boot), (vec![2], boot)]);
}

#[test]
fn c_and_rust_workers_that_log_to_a_closed_stderr_while_their_pool_is_made_log_nothing_into_it() {
    for mut program in guests(&["workers"]) {
        let directory = StampDirectory::new("guest-workers");
        expect_alive(directory.measure(&mut program));
        let pools = directory.pools();
        let found: Vec<_> = pools.iter().flat_map(|pool| records(pool).into_values().next()).collect();
        let mut all: Vec<i64> = found.iter().flat_map(|(stamps, _)| ids(stamps)).collect();
        all.sort_unstable();
        assert_eq!((pools.len(), all), (10, (0..1000).collect()));
        let counts = pools.iter().map(|pool| pool.header().without_channel.load(Relaxed)).collect::<Vec<_>>();
        assert_eq!(counts, [0; 10]);
    }
}

/// A program in Rust: this test file, run again.
#[test]
fn the_rust_program() {
    let Ok(role) = std::env::var("GUEST_ROLE") else { return };
    match role.split('\n').collect::<Vec<_>>()[..] {
        ["complain"] => complain(),
        ["reuse", path] => reuse(path),
        ["pending"] => keep_pending(),
        ["first"] => record_first(),
        ["idle"] => {
            println!("alive");
            // SAFETY: ends this process as a kill would, but for what it printed.
            unsafe { libc::_exit(0) };
        }
        ["descriptors", path] => keep_descriptors(path),
        ["become", user] => become_another(user.parse().unwrap()),
        ["parent"] => have_child(),
        ["workers"] => have_workers(),
        ["close", path] => close_first(path),
        ["low"] => have_low_numbers(),
        ["few"] => have_child_without_descriptors(),
        ["leave-root", root] => leave_for(Some(root)),
        ["leave-directory"] => leave_for(None),
        _ => panic!("expected a role, found {role}"),
    }
    println!("alive");
}

fn complain() {
    point!("work", before).stamp(1);
    assert!(Channel::open("no such name", Ordering::Plain, Fields::Slim).is_err());
}

fn record_first() {
    let tick = tickscope_counter::before();
    point!("work", before).record(1, tick);
}

fn reuse(path: &str) {
    // SAFETY: nobody in this program writes to stderr.
    unsafe { libc::close(2) };
    let mut data = File::create(path).unwrap();
    assert_eq!(data.as_raw_fd(), 2);
    complain();
    data.write_all(b"mine").unwrap();
}

fn keep_pending() {
    // SAFETY: sets that outlive the calls; the signal is blocked when it is raised.
    unsafe {
        let mut pipe = std::mem::zeroed();
        libc::sigemptyset(&mut pipe);
        libc::sigaddset(&mut pipe, libc::SIGPIPE);
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        libc::pthread_sigmask(libc::SIG_BLOCK, &pipe, std::ptr::null_mut());
        libc::raise(libc::SIGPIPE);
        complain();
        libc::sigpending(&mut pipe);
        assert_eq!(libc::sigismember(&pipe, libc::SIGPIPE), 1);
    }
}

/// How many numbers lead to another file than the first of them.
fn led_elsewhere() -> usize {
    // SAFETY: stats that outlive the calls; of a number that leads nowhere the inode stays 0.
    let inode = |number| unsafe {
        let mut found: libc::stat = std::mem::zeroed();
        libc::fstat(number, &mut found);
        found.st_ino
    };
    (3..=LAST).filter(|&number| inode(number) == 0 || inode(number) != inode(3)).count()
}

fn keep_descriptors(path: &str) {
    let channel = Channel::open("work", Ordering::Plain, Fields::Slim).unwrap();
    channel.stamp(1);
    take_descriptors(path);
    // SAFETY: the child stamps, writes, and leaves by _exit.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            let before = led_elsewhere();
            channel.stamp(2);
            let failed = (3..=LAST).filter(|&number| libc::write(number, b"mine".as_ptr().cast(), 4) != 4).count();
            libc::_exit(i32::from(before + failed + led_elsewhere() != 0));
        }
        let mut status = 0;
        libc::waitpid(child, &mut status, 0);
        assert_eq!(status, 0);
    }
    channel.stamp(3);
    assert_eq!(led_elsewhere(), 0);
}

fn take_descriptors(path: &str) {
    let path = std::ffi::CString::new(path).unwrap();
    // SAFETY: nobody else in this program has descriptors.
    unsafe {
        (3..1024).for_each(|number| _ = libc::close(number));
        assert_eq!(libc::open(path.as_ptr(), libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC, 0o600), 3);
        (4..=LAST).for_each(|number| _ = libc::dup2(3, number));
    }
}

fn close_first(path: &str) {
    take_descriptors(path);
    Channel::open("work", Ordering::Plain, Fields::Slim).unwrap().stamp(1);
    assert_eq!(led_elsewhere(), 0);
}

fn have_low_numbers() {
    let three = libc::rlimit { rlim_cur: 3, rlim_max: 3 };
    // SAFETY: nobody else in this program uses descriptors, and the limit outlives the call.
    unsafe {
        (0..1024).filter(|&number| number != 1).for_each(|number| _ = libc::close(number));
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &three), 0);
    }
    for id in 1..=2 {
        if let Ok(channel) = Channel::open("work", Ordering::Plain, Fields::Slim) {
            channel.stamp(id);
        }
    }
    // SAFETY: a look at two numbers.
    let led = [0, 2].map(|number| unsafe { libc::fcntl(number, libc::F_GETFD) });
    assert_eq!(led, [-1, -1]);
}

fn have_child_without_descriptors() {
    let [one, other] = ["work", "more"].map(|point| Channel::open(point, Ordering::Plain, Fields::Slim).unwrap());
    [&one, &other].into_iter().for_each(|channel| channel.stamp(1));
    let few = libc::rlimit { rlim_cur: 4, rlim_max: 4 };
    // SAFETY: the limit outlives the call; the child stamps, and leaves by _exit.
    unsafe {
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &few), 0);
        let child = libc::fork();
        if child == 0 {
            (2..100).for_each(|id| [&one, &other].into_iter().for_each(|channel| channel.stamp(id)));
            libc::_exit(0);
        }
        let mut status = 0;
        libc::waitpid(child, &mut status, 0);
        assert_eq!(status, 0);
    }
}

fn leave_for(root: Option<&str>) {
    // SAFETY: texts that outlive the calls; the child stamps, and leaves by _exit.
    unsafe {
        let root = root.map(|root| std::ffi::CString::new(root).unwrap());
        assert!(root.is_none_or(|root| libc::chroot(root.as_ptr()) == 0) && libc::chdir(c"/".as_ptr()) == 0);
        let channel = Channel::open("work", Ordering::Plain, Fields::Slim).unwrap();
        channel.stamp(1);
        let child = libc::fork();
        if child == 0 {
            channel.stamp(2);
            libc::_exit(0);
        }
        let mut status = 0;
        libc::waitpid(child, &mut status, 0);
        assert_eq!(status, 0);
    }
}

fn become_another(user: u32) {
    // SAFETY: no call has other effects than its own.
    unsafe { assert!(libc::setgid(33) == 0 && libc::setuid(user) == 0) };
    Channel::open("work", Ordering::Plain, Fields::Slim).unwrap().stamp(1);
}

/// Workers without a stderr, a thread of each goes on logging while its pool is made.
fn have_workers() {
    let workers: Vec<i32> = (0..10)
        .map(|worker| {
            // SAFETY: the child stamps, and leaves by _exit.
            let child = unsafe { libc::fork() };
            if child == 0 {
                // SAFETY: closes what nothing here uses.
                unsafe { libc::close(2) };
                std::thread::spawn(|| {
                    loop {
                        // SAFETY: bytes that outlive the call, to whatever has the number by now.
                        unsafe { libc::write(2, b"worker\n".as_ptr().cast(), 7) };
                    }
                });
                let channel = Channel::open("work", Ordering::Plain, Fields::Slim).unwrap();
                (100 * worker..100 * worker + 100).for_each(|id| channel.stamp(id));
                // SAFETY: ends this process.
                unsafe { libc::_exit(0) };
            }
            child
        })
        .collect();
    for worker in workers {
        let mut status = 0;
        // SAFETY: a child of this process, and a place that outlives the call.
        unsafe { libc::waitpid(worker, &mut status, 0) };
        assert_eq!(status, 0);
    }
}

fn have_child() {
    // SAFETY: the child stamps, and leaves by _exit.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            Channel::open("work", Ordering::Plain, Fields::Slim).unwrap().stamp(2);
            libc::_exit(0);
        }
        let mut status = 0;
        libc::waitpid(child, &mut status, 0);
        assert_eq!(status, 0);
    }
    record_first();
}
