//! The run file that `tickscope init` writes: short enough to be read at once, each of its values explained.

use crate::run_file::node_of;

/// A run file for `command` alone, or, where it is empty, one of a service and its client to fill in.
pub fn run_file_to_start_from(command: &[String]) -> String {
    if command.is_empty() { TWO_NODES.into() } else { of_one_command(command) }
}

/// Braces stand for placeholders in a run file, and a word that needs them cannot be written there.
fn of_one_command(command: &[String]) -> String {
    let words: Vec<String> = command.iter().map(|word| toml::Value::String(word.clone()).to_string()).collect();
    ONE_COMMAND.replace("NODE", node_of(command).as_str()).replace("COMMAND", &words.join(", "))
}

const TWO_NODES: &str = r#"# A run file: what tickscope starts, and in which order an id passes its points. All that
# it may say is in docs/run-file.md of tickscope's repository. Paths start from this file's directory, and
# commands run there.

[run]
name = "first"
seconds = 5                      # what {seconds} stands for below

[network]
kind = "auto"                    # namespaces where the rights are there (root), else addresses of loopback

[clock]
reference = "client"             # durations are in ticks of this node's counter
# rho = "server-room"            # how far the rates of two machines' clocks may wander: a preset or a number of ppm

# Nodes are started in this order and ended in the reverse one.
[[node]]
name = "server"
command = ["./server", "{address}", "7400"]
ready = 7400                     # the next node starts once something listens on this port, or
# ready = "listening"            # once it has printed a line that contains this text
# environment = { KEY = "value" }

[[node]]
name = "client"
command = ["./client", "{server.address}", "7400", "{seconds}"]
ends_run = true                  # the run is over when this command ends; the others are sent SIGTERM

# In which order an id passes the points. The programs open them by the last part of these names:
# tickscope_open("send", TICKSCOPE_BEFORE, 0) in C, point("send", "before") in Python.
[layout]
path = ["client.send", "server.received", "server.reply", "client.response"]

# A program that logs a clock, with no library of tickscope's in it: lines `id,time` become stamps of a point.
# [[log]]
# node = "client"
# point = "response"
# file = "{run}/responses.csv"   # {run} is the run's directory
# clock = "monotonic"            # realtime | monotonic | counter
"#;

const ONE_COMMAND: &str = r#"# A run file: what tickscope starts, and in which order an id passes its points. All that
# it may say is in docs/run-file.md of tickscope's repository. Paths start from this file's directory, and
# the command runs there.

[run]
name = "NODE"
seconds = 5                      # what {seconds} stands for in commands

[clock]
reference = "NODE"               # durations are in ticks of this node's counter

[[node]]
name = "NODE"
command = [COMMAND]
ends_run = true                  # the run is over when this command ends
# environment = { KEY = "value" }

# In which order an id passes the points; without it they are ordered by when they were passed.
# [layout]
# path = ["NODE.begin", "NODE.middle", "NODE.end"]
"#;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Plan;

    #[test]
    fn the_files_to_start_from_are_run_files_and_every_line_that_is_a_comment_there_may_be_none() {
        let awkward = ["./my.prog", "--say", "\"quoted\" \\ back", "line\nbreak", "ü"].map(String::from);
        for (command, nodes) in [(&[] as &[String], 2), (&awkward, 1)] {
            let text = run_file_to_start_from(command);
            let plan = Plan::parse(&text).unwrap();
            assert_eq!((plan.nodes.len(), plan.has_layout()), (nodes, nodes == 2));
            if nodes == 1 {
                assert_eq!((plan.nodes[0].command.as_slice(), plan.nodes[0].name.as_str()), (command, "my"));
            }
        }
        // Lines of code begin with `# ` and hold a value or open a table; sentences do neither.
        let is_code = |line: &str| line.starts_with("# [") || line.starts_with("# ") && line.contains(" = ");
        let on = |text: &str| -> String {
            let lines = text.lines().filter(|line| !line.starts_with("# ready = \"")).map(|line| match is_code(line) {
                true => line[2..].to_owned() + "\n",
                false => line.to_owned() + "\n",
            });
            lines.collect()
        };
        for command in [&[] as &[String], &["prog".to_owned()]] {
            let text = on(&run_file_to_start_from(command));
            let plan = Plan::parse(&text).unwrap_or_else(|why| panic!("{why}: {text}"));
            assert!(plan.has_layout() && plan.nodes.iter().any(|node| !node.environment.is_empty()));
        }
    }
}
