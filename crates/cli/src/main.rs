//! The `tickscope` command: options in, crates called, results printed.

mod clock;
mod clock_example;
mod clock_gauge;
mod clock_text;
mod clock_watching;
mod collecting;
mod doctor;
mod experiment;
mod failure;
mod host;
mod interrupt;
mod kernel_probing;
mod manual;
mod network;
mod options;
mod overhead;
mod probing;
mod recorded_example;
mod report;
mod run;
mod show;
mod spending;
mod stamp_cost;
mod subject;

use std::process::ExitCode;

use clap::Parser;

use options::{Command, Options};

fn main() -> ExitCode {
    let done = match &Options::parse().command {
        Command::Run(options) => run::run(options),
        Command::Show(options) => show::show(options),
        Command::Report(options) => report::report(options),
        Command::Doctor(options) => doctor::doctor(options),
        Command::Clock(options) => clock::clock(options),
        Command::Collect(options) => collecting::collect(options),
        Command::Completions(options) => manual::completions(options),
        Command::Man => manual::man(),
        Command::ProbeServe(options) => probing::serve(options),
        Command::ProbeAsk(options) => probing::ask(options),
        Command::ClockWatch(options) => clock_watching::watch(options),
        Command::StampCost => stamp_cost::print(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("tickscope: {failure}");
            ExitCode::from(failure.code)
        }
    }
}
