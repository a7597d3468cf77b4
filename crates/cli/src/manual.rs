//! What a shell and a reader know of the command: completions and man page, both from the options.

use std::io::{self, Write};

use clap::{Command, CommandFactory};
use clap_mangen::Man;

use crate::failure::Failure;
use crate::options::{CompletionsOptions, Options};

/// Prints what a shell completes by.
pub fn completions(options: &CompletionsOptions) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut Options::command(), "tickscope", &mut script);
    print(&script)
}

/// Prints the man page: the command, then each of its commands with their options.
pub fn man() -> Result<(), Failure> {
    let mut command = Options::command();
    command.build();
    let hidden = |of: &&Command| of.is_hide_set() || of.get_name() == "help";
    let mut page = Vec::new();
    write_page(&command, command.get_subcommands().filter(|of| !hidden(of)), &mut page).map_err(Failure::work)?;
    print(&page)
}

fn write_page<'a>(whole: &Command, parts: impl Iterator<Item = &'a Command>, page: &mut Vec<u8>) -> io::Result<()> {
    let man = Man::new(whole.clone());
    man.render_title(page)?;
    man.render_name_section(page)?;
    man.render_synopsis_section(page)?;
    man.render_description_section(page)?;
    man.render_options_section(page)?;
    for part in parts {
        writeln!(page, ".SH TICKSCOPE {}", part.get_name().to_uppercase())?;
        let man = Man::new(part.clone());
        man.render_synopsis_section(page)?;
        man.render_description_section(page)?;
        man.render_options_section(page)?;
    }
    Ok(())
}

/// A reader that has seen enough is no error.
fn print(text: &[u8]) -> Result<(), Failure> {
    match io::stdout().write_all(text) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::work(error)),
        _ => Ok(()),
    }
}
