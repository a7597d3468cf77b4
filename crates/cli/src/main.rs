//! The `tickscope` command: options in, crates called, results printed.

mod check;
mod clock;
mod collection;
mod doctor;
mod export;
mod failure;
mod load_factor;
mod manual;
mod options;
mod output;
mod report;
mod run;
mod show;

use std::process::ExitCode;

use clap::Parser;

use options::{Command, Options};

fn main() -> ExitCode {
    let done = match &Options::parse().command {
        Command::Run(options) => run::run(options),
        Command::Show(options) => show::show(options),
        Command::Check(options) => check::check(options),
        Command::Report(options) => report::report(options),
        Command::Export(options) => export::export(options),
        Command::Doctor(options) => doctor::doctor(options),
        Command::Clock(options) => clock::clock(options),
        Command::Collect(options) => collection::collect(options),
        Command::Completions(options) => manual::completions(options),
        Command::Man => manual::man(),
        Command::Role(options) => options.play(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("tickscope: {failure}");
            ExitCode::from(failure.code())
        }
    }
}
