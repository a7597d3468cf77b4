//! `tickscope relate`: machines whose clocks are related and on which nothing stamps, as a table and a page.

use tickscope_analysis::Query;
use tickscope_experiment::{RunText, awaits_stamps};
use tickscope_rivals::{Relations, RelationsJson, relations};
use tickscope_show::relations_document;
use tickscope_store::{Event, Run, write_whole};

use crate::check::Faults;
use crate::failure::Failure;
use crate::options::RelateOptions;
use crate::output::{print, print_json};
use crate::run;

/// Relates the machines of a run file, starting nothing that it names, and prints what is known of each pair.
pub fn relate(options: &RelateOptions) -> Result<(), Failure> {
    let file = RunText::read(&options.file)?.without_programs()?;
    run::relating(options, file)
}

/// How a run that has nothing but clocks is shown.
#[derive(Clone, Copy, Default)]
pub struct RelationsShown {
    pub json: bool,
    /// Other methods beside each pair's bound.
    pub rivals: bool,
    /// The page, too, into the run's directory.
    pub page: bool,
}

/// Prints the pairs of a run that has nothing but clocks.
pub fn instead(run: &Run, query: &Query, shown: RelationsShown) -> Result<(), Failure> {
    let found = Found::of(run, query)?;
    if shown.page {
        write_whole(&run.paths().report(), found.page(run).as_bytes())?;
    }
    match shown.json {
        true => {
            let json = RelationsJson::of(run, &found.relations, &found.events, found.faults.json());
            print_json(&json)?;
        }
        false => {
            print(relations_document(run, &found.relations, &found.events, shown.rivals).text().as_bytes())?;
        }
    }
    found.verdict(run)
}

/// Has such a run drawn.
pub fn drawn(run: &Run, query: &Query, draw: impl FnOnce(&Relations) -> Result<(), Failure>) -> Result<(), Failure> {
    let found = Found::of(run, query)?;
    draw(&found.relations)?;
    found.verdict(run)
}

/// Makes the page of such a run and hands it on.
pub fn page(run: &Run, query: &Query, put: impl FnOnce(&str) -> Result<(), Failure>) -> Result<(), Failure> {
    let found = Found::of(run, query)?;
    put(&found.page(run))?;
    found.verdict(run)
}

struct Found {
    relations: Relations,
    events: Vec<Event>,
    faults: Faults,
}

impl Found {
    fn of(run: &Run, query: &Query) -> Result<Self, Failure> {
        let faults = Faults::of(run)?;
        let mut relations = relations(run, query)?;
        let faults = faults.also(std::mem::take(&mut relations.refused));
        Ok(Self { relations, events: run.events()?.found, faults })
    }

    fn page(&self, run: &Run) -> String {
        relations_document(run, &self.relations, &self.events, true).html()
    }

    /// Damage first, then what contradicts, then what is missing.
    fn verdict(&self, run: &Run) -> Result<(), Failure> {
        let pairs = &self.relations.pairs;
        let unknown: Vec<String> = pairs
            .iter()
            .filter(|pair| pair.closed.is_none())
            .map(|pair| format!("{} and {}", pair.domain.node, pair.reference.node))
            .collect();
        let standing = match (self.relations.findings.first(), unknown.first()) {
            (Some(finding), _) => Err(Failure::finding(finding)),
            (None, Some(first)) => Err(Failure::work(format!(
                "expected a bound for every pair, found none for {} of {}, such as {first}: the table says why",
                unknown.len(),
                pairs.len()
            ))),
            (None, None) if awaits_stamps(run) => Err(Failure::work(format!(
                "expected stamps in {}, found none: its clocks are related, but no program stamped into the \
                 directories that stamps names. Was one stamping?",
                run.root().display()
            ))),
            (None, None) => Ok(()),
        };
        self.faults.verdict(standing)
    }
}
