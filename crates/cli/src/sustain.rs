//! `tickscope sustain`: the highest rate that a run file's system sustains, searched several times.

use serde::Serialize;
use tickscope_analysis::Sustained;
use tickscope_experiment::{RunText, SustainPlan, SustainSettings};
use tickscope_show::{sustain_figure, sustained_text};

use crate::failure::Failure;
use crate::figures;
use crate::memory;
use crate::options::SustainOptions;
use crate::output::{line, print, print_json};

/// What was found. Within a version keys are added, never removed or renamed.
#[derive(Serialize)]
struct Report<'a> {
    version: u32,
    #[serde(flatten)]
    found: &'a Sustained,
}

/// Makes the trials that the searches ask for, and prints what they found.
pub fn sustain(options: &SustainOptions) -> Result<(), Failure> {
    let file = RunText::read(&options.file)?;
    let mut plan = SustainPlan::of(&file)?.ok_or_else(|| {
        Failure::input(format!(
            "{}: expected a [sustain], found none. Write {{rate}} in the place of the rate, and add [sustain] with \
             from = and to =, the lowest and the highest that may be tried",
            file.name
        ))
    })?;
    plan.method = options.method.map_or(plan.method, Into::into);
    plan.searches = options.searches.unwrap_or(plan.searches);
    let settings = SustainSettings { plan, out: options.out.clone(), seconds: options.seconds };
    if options.check {
        return print(tickscope_experiment::check_sustain(&settings)?.as_bytes());
    }
    memory::reuse_freed();
    let (root, found) = tickscope_experiment::sustain(&settings)?;
    if options.report {
        figures::written(sustain_figure(&found).as_slice(), &root.join("figures"), options.json)?;
    }
    match options.json {
        true => print_json(&Report { version: 1, found: &found })?,
        false => {
            print(sustained_text(&found).as_bytes())?;
            line("")?;
            line(format_args!("the trials, a run each: {}", root.display()))?;
        }
    }
    match found.lower.is_some() && found.upper.is_some() {
        true => Ok(()),
        false => Err(Failure::unresolved(found.why.unwrap_or_default())),
    }
}
