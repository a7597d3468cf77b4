//! Cost of a segment: time a stamp, bytes a stamp, bytes a file; and of the collector while a program is busy.
//!
//! `cargo run --release -p tickscope-store --example figures`

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use tickscope_collect::{Collector, Settings};
use tickscope_counter as counter;
use tickscope_stamp::{Channel, Fields};
use tickscope_store::{BlockRange, ChannelCount, Origin, StampColumns, write_segment};
use tickscope_tick::{NodeName, Ordering};

fn main() {
    let folder = Path::new("/dev/shm").join(format!("tickscope-figures-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("shm")).unwrap();
    encoding(&folder);
    if std::env::args().nth(1).is_none() {
        paced_point(&folder);
    }
    collecting(&folder);
    std::fs::remove_dir_all(&folder).unwrap();
}

fn columns(tick: Vec<i64>, id: Vec<i64>) -> StampColumns {
    let channel = vec![1; tick.len()];
    StampColumns::slim(tick, id, channel)
}

fn origin(stored: usize) -> Origin {
    let blocks = vec![BlockRange { pool: 0xfeed_beef_0123_4567, serial: 3, first: 120, last: 129 }];
    let counts = vec![ChannelCount { channel: 7, stored: stored as u64, ..ChannelCount::default() }];
    Origin { blocks, counts, ..Origin::default() }
}

fn write(folder: &Path, stamps: &StampColumns) -> u64 {
    write_segment(&folder.join("x.parquet"), stamps, &origin(stamps.len())).unwrap()
}

/// A million real stamps with some work between them, encoded again and again.
fn encoding(folder: &Path) {
    let table: Vec<usize> = (0..1 << 20).map(|i: usize| i.wrapping_mul(2_654_435_761) & ((1 << 20) - 1)).collect();
    let mut place = 1;
    let mut tick = || {
        (0..1 + place % 8).for_each(|_| place = table[place]);
        counter::plain()
    };
    let rows = 1 << 20;
    let stamps = columns((0..rows).map(|_| tick()).collect(), (0..rows).collect());
    let mut times: Vec<f64> = (0..15).map(|_| time(|| assert!(write(folder, &stamps) > 0))).collect();
    times.sort_by(f64::total_cmp);
    let bytes = write(folder, &stamps);
    println!("encode: median {:.1} M stamps/s, best {:.1}", 1.048576 / times[7], 1.048576 / times[0]);
    println!("bytes a stamp, work of 0.1-1 us between stamps: {:.3}", bytes as f64 / rows as f64);
}

fn time(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}

/// 10 s of a point at 1 kHz, really taken, and what of its file is not stamps.
fn paced_point(folder: &Path) {
    let (mut tick, start) = (Vec::new(), Instant::now());
    for id in 0..10_000 {
        std::thread::sleep((start + Duration::from_millis(id)).saturating_duration_since(Instant::now()));
        tick.push(counter::plain());
    }
    let all = columns(tick.clone(), (0..10_000).collect());
    let one = columns(tick[..1].to_vec(), vec![0]);
    println!("bytes a stamp, 10 s at 1 kHz: {:.3}", write(folder, &all) as f64 / 10_000.0);
    println!("bytes of a file with one stamp: {}", write(folder, &one));
}

/// One program thread at full speed, at about 10 M/s and at 1 kHz, with a collector on another thread.
fn collecting(folder: &Path) {
    // SAFETY: no other thread runs yet.
    unsafe {
        std::env::set_var("TICKSCOPE_DIR", folder.join("shm"));
        std::env::set_var("TICKSCOPE_POOL_BYTES", (64 << 20).to_string());
    }
    let stop = Arc::new(AtomicBool::new(false));
    let collector = std::thread::spawn({
        let (stop, folder): (_, PathBuf) = (stop.clone(), folder.into());
        move || {
            let settings = Settings::new(folder.join("shm"), folder.join("run"), NodeName::new("host").unwrap());
            Collector::start(settings).unwrap().follow(&stop).unwrap()
        }
    });
    std::thread::sleep(Duration::from_millis(200));
    let channel = Channel::open("busy", Ordering::Plain, Fields::Slim).unwrap();
    let (stamps, rate) = (100_000_000i64, 10e6);
    let start = Instant::now();
    let mut worst = 0.0f64;
    for id in 0..stamps {
        let due = id as f64 / rate;
        if id % 100 == 0 {
            worst = worst.max(start.elapsed().as_secs_f64() - due);
            while start.elapsed().as_secs_f64() < due {
                std::hint::spin_loop();
            }
        }
        channel.stamp(id);
    }
    let took = start.elapsed().as_secs_f64();
    drop(channel);
    stop.store(true, Relaxed);
    let report = collector.join().unwrap();
    println!("collect: {:.1} M stamps/s offered, latest {:.1} ms behind", stamps as f64 / took / 1e6, worst * 1e3);
    println!("{report:?}");
    println!("collector: {:.1} ns of processor a stamp", report.cpu_ns as f64 / report.stamps as f64);
    println!("dropped: {}", stamps as u64 - report.stamps);
}
