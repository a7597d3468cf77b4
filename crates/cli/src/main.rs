//! The `tickscope` command: options in, crates called, results printed.

mod clock;
mod clock_example;
mod clock_gauge;
mod clock_monitor;
mod clock_text;
mod collection;
mod cost_account;
mod doctor;
mod experiment;
mod export;
mod failure;
mod host;
mod interrupt;
mod kernel_probe;
mod manual;
mod network;
mod options;
mod overhead;
mod probe;
mod process;
mod recorded_example;
mod report;
mod run;
mod show;
mod stamp_cost;

use std::process::ExitCode;

use clap::Parser;

use options::{Command, Options};

fn main() -> ExitCode {
    let done = match &Options::parse().command {
        Command::Run(options) => run::run(options),
        Command::Show(options) => show::show(options),
        Command::Report(options) => report::report(options),
        Command::Export(options) => export::export(options),
        Command::Doctor(options) => doctor::doctor(options),
        Command::Clock(options) => clock::clock(options),
        Command::Collect(options) => collection::collect(options),
        Command::Completions(options) => manual::completions(options),
        Command::Man => manual::man(),
        Command::ProbeServe(options) => probe::serve(options),
        Command::ProbeAsk(options) => probe::ask(options),
        Command::ClockMonitor(options) => clock_monitor::monitor(options),
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
