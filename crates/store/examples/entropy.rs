//! How many bytes a stamp takes in a run's segments, beside how many its tick and its id hold information for.
//!
//! `entropy RUN [STAMPS]` prints one line of JSON a point. Entropies of tick and id are added; of a long run, they are
//! those of the row groups that hold the first STAMPS of each point.

#[path = "shared/estimate.rs"]
mod estimate;

use std::error::Error;
use std::path::Path;

use estimate::bits;
use tickscope_store::{PointStamps, Run};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let root = arguments.next().ok_or("expected a run's directory")?;
    let most = arguments.next().map_or(Ok(u64::MAX), |stamps| stamps.parse())?;
    let run = Run::open(Path::new(&root))?;
    for node in run.nodes()? {
        for point in run.points(&node)? {
            let name = format!("{node}.{point}");
            print(&name, &run.stamps(&name.parse()?)?, most)?;
        }
    }
    Ok(())
}

fn print(name: &str, stamps: &PointStamps, most: u64) -> Result<(), Box<dyn Error>> {
    let (mut tick, mut id, mut all) = (Vec::new(), Vec::new(), 0);
    for segment in stamps.segments() {
        for group in 0..segment.extents().len() {
            if (tick.len() as u64) < most {
                let mut part = segment.read_group(group)?;
                tick.append(&mut part.tick);
                id.append(&mut part.id);
            }
        }
        all += segment.len();
    }
    let sizes: Result<Vec<u64>, _> = stamps.segments().iter().map(|s| Ok(s.path().metadata()?.len())).collect();
    let bytes: u64 = sizes.map_err(|e: std::io::Error| e)?.iter().sum();
    println!(
        "{{\"point\": \"{name}\", \"stamps\": {all}, \"segments\": {}, \"bytes\": {bytes}, \
         \"tick_bits\": {:.3}, \"id_bits\": {:.3}}}",
        stamps.segments().len(),
        bits(&tick),
        bits(&id)
    );
    Ok(())
}
