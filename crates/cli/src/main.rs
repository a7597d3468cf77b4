//! The `tickscope` command: options in, crates called, results printed.
// Whatever is printed may find its reader gone or its disk full: [`output`] alone writes.
#![deny(clippy::print_stdout)]

mod age;
mod agent;
mod archive;
mod check;
mod chosen_run;
mod clock;
mod collection;
mod compare;
mod counts;
mod doctor;
mod export;
mod failure;
mod figures;
mod finish;
mod groups;
mod ids;
mod import;
mod init;
mod kept_answer;
mod live;
mod load;
mod load_factor;
mod manual;
mod memory;
mod merge;
mod noise;
mod options;
mod output;
mod progress;
mod relate;
mod report;
mod run;
mod runs;
mod show;
mod stored;
mod sustain;
mod sweep;
mod tail;
mod unmatched;

use std::process::ExitCode;

use clap::Parser;

use options::{Command, Options};

/// This program reads stamp directories: it has a pool only where one of its roles stamps.
#[used]
#[unsafe(link_section = ".init_array.00200")]
static NO_POOL: extern "C" fn() = tickscope_stamp::no_pool_at_load;

fn main() -> ExitCode {
    let done = match &Options::parse().command {
        Command::Run(options) => run::run(options),
        Command::Relate(options) => relate::relate(options),
        Command::Sustain(options) => sustain::sustain(options),
        Command::Channels(options) => live::channels(options),
        Command::Policy(options) => live::policy(options),
        Command::Dump(options) => live::dump(options),
        Command::Status(options) => live::status(options),
        Command::Load(options) => load::load(options),
        Command::Init(options) => init::init(options),
        Command::Resume(options) => run::resume(options),
        Command::Finish(options) => finish::finish(options),
        Command::Show(options) => show::show(options),
        Command::Runs(options) => runs::runs(options),
        Command::Rm(options) => runs::rm(options),
        Command::Pack(options) => runs::pack(options),
        Command::Unpack(options) => runs::unpack(options),
        Command::Merge(options) => merge::merge(options),
        Command::Check(options) => check::check(options),
        Command::Ids(options) => ids::ids(options),
        Command::Report(options) => report::report(options),
        Command::Figures(options) => figures::figures(options),
        Command::Tail(options) => tail::tail(options),
        Command::Compare(options) => compare::compare(options),
        Command::Export(options) => export::export(options),
        Command::Import(options) => import::import(options),
        Command::Doctor(options) => doctor::doctor(options),
        Command::Clock(options) => clock::clock(options),
        Command::Noise(options) => noise::noise(options),
        Command::Collect(options) => collection::collect(options),
        Command::Completions(options) => manual::completions(options),
        Command::Man => manual::man(),
        Command::Agent(options) => agent::agent(options),
        Command::Role(options) => options.play(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            output::note(&failure);
            ExitCode::from(failure.code())
        }
    }
}
