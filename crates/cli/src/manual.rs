//! Shell completions and the man page, both generated from the options.

use std::io::{self, Write};

use clap::{Command, CommandFactory};
use clap_mangen::Man;

use crate::failure::Failure;
use crate::options::{CompletionsOptions, Options};
use crate::output::print;

/// Prints what a shell completes by.
pub fn completions(options: &CompletionsOptions) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut public(), "tickscope", &mut script);
    print(&script)
}

/// The command without what `run` alone starts.
fn public() -> Command {
    let whole = Options::command();
    let parts = whole.get_subcommands().filter(|part| !part.is_hide_set()).cloned();
    let public = Command::new("tickscope").version(env!("CARGO_PKG_VERSION")).args(whole.get_arguments().cloned());
    public.subcommands(parts)
}

/// Prints the man page: the command, each of its commands with their options, then what no option says.
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
        write_part(part, page)?;
        for below in part.get_subcommands().filter(|of| of.get_name() != "help") {
            write_part(below, page)?;
        }
    }
    page.write_all(CLOSING.as_bytes())
}

fn write_part(part: &Command, page: &mut Vec<u8>) -> io::Result<()> {
    let name = part.get_bin_name().unwrap_or(part.get_name());
    writeln!(page, ".SH {}", name.to_uppercase())?;
    let man = Man::new(part.clone());
    man.render_synopsis_section(page)?;
    man.render_description_section(page)?;
    man.render_options_section(page)
}

/// End of the man page: exit status, environment, files.
const CLOSING: &str = r#".SH EXIT STATUS
.TP
0
Done.
.TP
1
Something went wrong; what was measured until then is kept.
.TP
2
The input is wrong: an option, the run file, a name. Nothing was measured.
.TP
3
A finding: the evidence contradicts itself or an assumption, or this host cannot give sound bounds.
.TP
4
A limit of the run file, or of --limits, is violated; or compare found slower or changed what its --fail-on names.
.TP
5
A limit, or what --fail-on unresolved of compare looks at, is not resolved: the bounds leave it open.
.SH ENVIRONMENT
Programs that stamp read TICKSCOPE_DIR (the stamp directory, on tmpfs; unset: every point is off), TICKSCOPE_NODE,
TICKSCOPE_POLICY, TICKSCOPE_POOL_BYTES, TICKSCOPE_BLOCK_BYTES and TICKSCOPE_WHEN_FULL (drop, or wait);
\fBtickscope run\fR sets them.
.SH FILES
A run file says what is measured, and a run is a directory of Parquet files: see docs/run-file.md and
docs/run-format.md.
.SH SEE ALSO
docs/guide.md: your own service in ten minutes. docs/commands.md: what --json holds, events and what to do.
"#;
