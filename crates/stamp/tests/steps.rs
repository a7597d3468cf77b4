//! A Rust program that is interrupted after its every instruction, as the C program of `programs.rs` is: by a handler
//! that stamps too, by one that forks, by one that moves it to another core.
#![cfg(target_arch = "x86_64")]

mod c_program;

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicPtr, AtomicUsize, Ordering};
use std::{fs, mem, ptr};

use c_program::{StampDirectory, compile_with, ids, records};
use tickscope_stamp::block::Policy;
use tickscope_stamp::directory::{self, Trust};
use tickscope_stamp::policies::first_last;
use tickscope_stamp::policy;
use tickscope_stamp::pool::{Pool, Record};
use tickscope_stamp::{Channel, Extra, Fields, Reading};
use tickscope_tick::Ordering as ReadOrdering;

/// Ordering, fields and what is read with the counter, by a word; how a stamp is made is told by the fields.
fn way(word: &str) -> (ReadOrdering, Fields, Reading) {
    let (ordering, fields) = match word {
        "before" => (ReadOrdering::Before, Fields::Slim),
        "after" => (ReadOrdering::After, Fields::Slim),
        "wide" | "both" | "core" => (ReadOrdering::Before, Fields::Wide),
        "full" => (ReadOrdering::Plain, Fields::Full),
        _ => (ReadOrdering::Plain, Fields::Slim),
    };
    (ordering, fields, Reading { core: word == "core", monotonic_raw: word == "both" })
}

fn all() -> bool {
    std::env::var_os("TICKSCOPE_TESTS").is_some_and(|tests| tests == "all")
}

/// This test file, run again as the program; it tells numbers in the file named there.
fn program(directory: &StampDirectory, role: &str, word: &str, count: i64) -> Vec<i64> {
    let told = directory.0.with_extension("told");
    let mut command = Command::new(std::env::current_exe().unwrap());
    directory.measure(command.args(["--exact", "the_rust_program", "--nocapture"]));
    command.env("STEPS", format!("{role} {word} {count}")).env("STEPS_TOLD", &told).stdout(Stdio::null());
    command.env("TICKSCOPE_BLOCK_BYTES", "4096");
    if role == "adopt" {
        command.env("TICKSCOPE_POLICY", "*=first-last");
    }
    if role == "fork" {
        command.env("TICKSCOPE_POOL_BYTES", "16384");
    }
    assert!(command.status().unwrap().success(), "{role} {word}");
    let text = fs::read_to_string(&told).unwrap();
    fs::remove_file(told).unwrap();
    text.lines().map(|line| line.parse().unwrap()).collect()
}

#[test]
fn a_handler_after_every_instruction_of_a_rust_stamp_finds_and_leaves_it_whole() {
    let count = if all() { 200 } else { 30 };
    for word in ["slim", "before", "after", "wide", "full", "both", "record"] {
        let directory = StampDirectory::new("rust-steps");
        let handled = program(&directory, "stamp", word, count)[0];
        let pools = directory.pools();
        let (stamps, open) = records(&pools[0]).into_values().next().unwrap();
        let (within, own): (Vec<i64>, Vec<i64>) = ids(&stamps).into_iter().partition(|&id| id < 0);
        assert!(handled > 20 * count, "{word}: {handled} steps");
        assert_eq!(within, (1..=handled).map(|id| -id).collect::<Vec<_>>(), "{word}");
        assert_eq!((own, open), ((0..count).collect(), 0), "{word}");
        let blocks = (0..pools[0].block_count()).filter(|&index| pools[0].block(index).is_described()).count();
        assert!(blocks > 10, "{word}: {blocks} blocks were changed");
        stamps.iter().for_each(|stamp| check_carried(word, stamp));
    }
}

/// What a stamp carries belongs to its id, whoever made it.
fn check_carried(word: &str, stamp: &Record) {
    let Some(rider) = stamp.rider else { return };
    let value_is_own = word == "both" || rider.value == stamp.id * 3;
    assert!(value_is_own && i64::from(rider.kind) == stamp.id % 7, "{word}: {stamp:?}");
    let parent = rider.origin.map_or(Some(stamp.id - 1), |origin| origin.parent);
    assert_eq!(parent, Some(stamp.id - 1), "{word}: {stamp:?}");
}

#[test]
fn a_child_that_a_handler_forks_within_a_rust_stamp_goes_on_and_leaves_its_parent_alone() {
    // As many as a block of 4096 bytes holds, and two more.
    let every = [("full", 83), ("before", 246), ("wide", 124), ("slim", 246)];
    for (word, count) in every.into_iter().take(if all() { 4 } else { 2 }) {
        let directory = StampDirectory::new("rust-fork-steps");
        let [parent, forked, failed] = program(&directory, "fork", word, count)[..] else { panic!() };
        assert!(forked > 100 && failed == 0, "{word}: {failed} of {forked} children crashed");
        let pools = directory.pools();
        assert_eq!(pools.len() as i64, forked + 1, "{word}: a pool each");
        let mut within = 0;
        for pool in pools {
            let (stamps, open) = records(&pool).into_values().next().unwrap();
            let mut made = ids(&stamps);
            if i64::from(pool.header().pid) == parent {
                assert_eq!((made, open), ((0..count).collect(), 0), "{word}");
                continue;
            }
            // The interrupted stamp may be the parent's alone; what came within and after it is the child's.
            made.retain(|id| !(0..count).contains(id));
            assert!(matches!(made[..], [1_000_000] | [999_999, 1_000_000]), "{word}: {made:?}");
            within += made.len() - 1;
            // It may have taken a slot of the child's pool where the handler had opened one, and fills none then.
            assert!(stamps.len() - made.len() + open < 2, "{word}: {open} open, {stamps:?}");
        }
        assert_eq!(within as i64, (forked + 1) / 2, "{word}: stamps within the one that was interrupted");
    }
}

#[test]
fn a_block_of_first_last_that_a_handler_moved_its_channel_from_is_handed_over_by_the_rust_stamp_within() {
    let directory = StampDirectory::new("rust-adopt");
    let handled = program(&directory, "adopt", "slim", 1000)[0];
    assert!(handled > 400, "{handled} switches");
    c_program::check_handed_over(&directory.pools()[0]);
}

fn cores(directory: &StampDirectory) -> Vec<i64> {
    let (stamps, _) = records(&directory.pools()[0]).into_values().next().unwrap();
    stamps.iter().map(|stamp| i64::from(stamp.rider.unwrap().cpu.unwrap())).collect()
}

#[test]
fn a_rust_stamp_that_reads_the_core_names_the_one_on_which_the_counter_was_read() {
    let directory = StampDirectory::new("rust-core");
    let told = program(&directory, "move", "core", 40);
    assert_eq!((told.len(), cores(&directory)), (40, told));
}

#[test]
fn c_a_stamp_of_rdtscp_names_the_core_on_which_the_counter_was_read() {
    let directory = StampDirectory::new("core");
    let returned = c_program::ReturnedCounts::new("core");
    let mut command = Command::new(compile_with("cc", "stamper", &[], "stamper-core"));
    let ended = directory.measure(command.arg(&returned.0).args(["core-steps", "100"])).output().unwrap();
    assert!(ended.status.success());
    let told: Vec<i64> = String::from_utf8(ended.stdout).unwrap().lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!((told.len(), cores(&directory)), (100, told));
}

// ---- the program ------------------------------------------------------------------------------------------------

static CHANNEL: AtomicPtr<Channel> = AtomicPtr::new(ptr::null_mut());
static CARRIES: AtomicBool = AtomicBool::new(false);
static IS_GIVEN: AtomicBool = AtomicBool::new(false);
static HANDLED: AtomicI64 = AtomicI64::new(0);
static FAILED: AtomicI64 = AtomicI64::new(0);
static IS_WITHIN: AtomicBool = AtomicBool::new(false);
static IS_CHILD: AtomicBool = AtomicBool::new(false);

#[inline(always)]
fn stamp_that_way(id: i64) {
    // SAFETY: the channel lives as long as this program, and handlers run on the one thread that opened it.
    let channel = unsafe { &*CHANNEL.load(Ordering::Relaxed) };
    if CARRIES.load(Ordering::Relaxed) {
        let extra =
            Extra { kind: (id % 7) as i32, value: id.wrapping_mul(3), parent: Some(id - 1), ..Extra::default() };
        channel.stamp_with(id, extra);
    } else if IS_GIVEN.load(Ordering::Relaxed) {
        channel.record(id, id.wrapping_add(1_000_000_000));
    } else {
        channel.stamp(id);
    }
}

extern "C" fn stamp_on_step(_: libc::c_int) {
    stamp_that_way(-(HANDLED.fetch_add(1, Ordering::Relaxed) + 1));
}

/// Bit of the flags register that traps after each instruction.
const TRAP_FLAG: i64 = 0x100;

#[inline(always)]
fn begin_steps() {
    // SAFETY: a handler of SIGTRAP is installed.
    unsafe { std::arch::asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq") };
}

#[inline(always)]
fn end_steps() {
    // SAFETY: the flag alone is changed.
    unsafe { std::arch::asm!("pushfq", "and qword ptr [rsp], -0x101", "popfq") };
}

fn handle_steps(handler: libc::sighandler_t) {
    // SAFETY: all zeros is a valid sigaction; the handlers call what may be called in them.
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = handler;
        action.sa_flags = libc::SA_SIGINFO;
        libc::sigaction(libc::SIGTRAP, &action, ptr::null_mut());
    }
}

#[test]
fn the_rust_program() {
    let Ok(role) = std::env::var("STEPS") else { return };
    let [role, word, count] = role.split(' ').collect::<Vec<_>>()[..] else { panic!("{role}") };
    let (ordering, fields, reading) = way(word);
    let channel = Box::leak(Box::new(Channel::open_reading("work", ordering, fields, reading).unwrap()));
    CHANNEL.store(channel, Ordering::Relaxed);
    CARRIES.store(fields != Fields::Slim, Ordering::Relaxed);
    IS_GIVEN.store(word == "record", Ordering::Relaxed);
    let count = count.parse().unwrap();
    let told = match role {
        "stamp" => run_steps(stamp_on_step as *const () as libc::sighandler_t, count),
        "adopt" => {
            let own = std::path::PathBuf::from(std::env::var_os("TICKSCOPE_DIR").unwrap());
            let listing = directory::list(&own, &Trust::of(&own).unwrap()).unwrap();
            OWN_POOL.store(Box::leak(Box::new(Pool::open(&listing.pools[0]).unwrap())), Ordering::Relaxed);
            run_steps(switch_on_step as *const () as libc::sighandler_t, count)
        }
        "fork" => run_fork_steps(count),
        _ => run_core_steps(count),
    };
    let text: String = told.iter().map(|number| format!("{number}\n")).collect();
    fs::write(std::env::var_os("STEPS_TOLD").unwrap(), text).unwrap();
}

/// Gives the channel another policy, as a collector does, and stamps: between `first-last` with and without a marker.
extern "C" fn switch_on_step(_: libc::c_int, _: *mut libc::siginfo_t, interrupted: *mut libc::c_void) {
    // After an instruction, a later one at each stamp, and some after that.
    let (steps, at) = (STEPS.fetch_add(1, Ordering::Relaxed), STAMPED.load(Ordering::Relaxed));
    if ![at * 3, at * 3 + 7].contains(&steps) {
        return;
    }
    HANDLED.fetch_add(1, Ordering::Relaxed);
    // SAFETY: the pool is leaked.
    let entry = unsafe { &(*OWN_POOL.load(Ordering::Relaxed)).entries()[0] };
    let marker = if at % 2 == 0 { 77 } else { first_last::NO_MARKER };
    policy::switch(&entry.policy, &entry.parameters, Policy::FirstLast as u32, marker);
    stamp_that_way(if at % 4 == 0 { 77 } else { 78 });
    if steps > at * 3 {
        // SAFETY: the context of this signal. The stamp may adopt what it finds now, with signals blocked, which a trap
        // must not meet.
        unsafe { (*interrupted.cast::<libc::ucontext_t>()).uc_mcontext.gregs[libc::REG_EFL as usize] &= !TRAP_FLAG };
    }
}

static STEPS: AtomicI64 = AtomicI64::new(0);
static STAMPED: AtomicI64 = AtomicI64::new(0);
static OWN_POOL: AtomicPtr<Pool> = AtomicPtr::new(ptr::null_mut());

fn run_steps(handler: libc::sighandler_t, count: i64) -> Vec<i64> {
    handle_steps(handler);
    for id in 0..count {
        STAMPED.store(id, Ordering::Relaxed);
        STEPS.store(0, Ordering::Relaxed);
        begin_steps();
        stamp_that_way(id);
    }
    end_steps();
    vec![HANDLED.load(Ordering::Relaxed)]
}

/// Instructions from one fork to the next: unoptimized, a lease takes thousands.
fn stride() -> i64 {
    if all() { 3 } else { 13 }
}

extern "C" fn fork_on_step(_: libc::c_int, _: *mut libc::siginfo_t, interrupted: *mut libc::c_void) {
    static STEPS: AtomicI64 = AtomicI64::new(0);
    if !IS_WITHIN.load(Ordering::Relaxed) || STEPS.fetch_add(1, Ordering::Relaxed) % STRIDE.load(Ordering::Relaxed) != 0
    {
        return;
    }
    let mut status = 0;
    // SAFETY: the child only stamps and leaves by _exit; the context is the one that the kernel goes on with.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            IS_CHILD.store(true, Ordering::Relaxed);
            if HANDLED.load(Ordering::Relaxed) % 2 == 0 {
                stamp_that_way(999_999); // within the stamp that was interrupted
            }
            (*interrupted.cast::<libc::ucontext_t>()).uc_mcontext.gregs[libc::REG_EFL as usize] &= !TRAP_FLAG;
            return;
        }
        libc::waitpid(child, &mut status, 0);
        HANDLED.fetch_add(1, Ordering::Relaxed);
        FAILED.fetch_add(i64::from(child < 0 || status != 0), Ordering::Relaxed);
    }
}

fn run_fork_steps(count: i64) -> Vec<i64> {
    STRIDE.store(stride(), Ordering::Relaxed);
    handle_steps(fork_on_step as *const () as libc::sighandler_t);
    for id in 0..count {
        let watched = id < 2 || id > count - 4; // the first lease, a stamp, a full block
        if watched {
            begin_steps();
        }
        IS_WITHIN.store(watched, Ordering::Relaxed);
        stamp_that_way(id);
        IS_WITHIN.store(false, Ordering::Relaxed);
        if IS_CHILD.load(Ordering::Relaxed) {
            stamp_that_way(1_000_000);
            // SAFETY: ends this process without the test harness's code.
            unsafe { libc::_exit(0) };
        }
        if watched {
            end_steps();
        }
    }
    vec![i64::from(std::process::id()), HANDLED.load(Ordering::Relaxed), FAILED.load(Ordering::Relaxed)]
}

static STRIDE: AtomicI64 = AtomicI64::new(1);
static CORES: [AtomicUsize; 2] = [AtomicUsize::new(0), AtomicUsize::new(0)];
static ON: AtomicUsize = AtomicUsize::new(0);
static CORE_READ: AtomicUsize = AtomicUsize::new(0);

fn move_to(at: usize) {
    // SAFETY: a set of one core that this thread may run on.
    unsafe {
        let mut only: libc::cpu_set_t = mem::zeroed();
        libc::CPU_SET(CORES[at].load(Ordering::Relaxed), &mut only);
        libc::sched_setaffinity(0, mem::size_of_val(&only), &only);
    }
    ON.store(at, Ordering::Relaxed);
}

/// Moves the thread to the other core when rdtscp is the next instruction, and again when it was the last.
extern "C" fn move_on_step(_: libc::c_int, _: *mut libc::siginfo_t, interrupted: *mut libc::c_void) {
    static WAS_NEXT: AtomicBool = AtomicBool::new(false);
    const RDTSCP: [u8; 3] = [0x0f, 0x01, 0xf9];
    // SAFETY: the context of this signal; at least three bytes of code follow any instruction of the stamp.
    let next = unsafe {
        let context = interrupted.cast::<libc::ucontext_t>();
        *((*context).uc_mcontext.gregs[libc::REG_RIP as usize] as *const [u8; 3])
    };
    if WAS_NEXT.load(Ordering::Relaxed) || next == RDTSCP {
        move_to(1 - ON.load(Ordering::Relaxed));
    }
    if next == RDTSCP {
        CORE_READ.store(CORES[ON.load(Ordering::Relaxed)].load(Ordering::Relaxed), Ordering::Relaxed);
    }
    WAS_NEXT.store(next == RDTSCP, Ordering::Relaxed);
}

fn run_core_steps(count: i64) -> Vec<i64> {
    // SAFETY: a set of cores that outlives the call.
    let allowed = unsafe {
        let mut allowed: libc::cpu_set_t = mem::zeroed();
        libc::sched_getaffinity(0, mem::size_of_val(&allowed), &mut allowed);
        (0..libc::CPU_SETSIZE as usize).filter(|&core| libc::CPU_ISSET(core, &allowed)).collect::<Vec<_>>()
    };
    for (place, core) in CORES.iter().zip(allowed.iter().cycle()) {
        place.store(*core, Ordering::Relaxed);
    }
    handle_steps(move_on_step as *const () as libc::sighandler_t);
    let once = |id| {
        move_to(id as usize % 2);
        begin_steps();
        stamp_that_way(id);
        end_steps();
        CORE_READ.load(Ordering::Relaxed) as i64
    };
    (0..count).map(once).collect()
}
