//! Files that a node's command leaves, and that its run has in the end, wherever the node is.
//!
//! Idea: commands write them into a folder of the run's directory as it is where they run; of a node elsewhere they are
//! copied from there before its session goes ([`take_outputs`](crate::agent::take_outputs)). Deliberately absent: what
//! stands in them.

use std::path::{Path, PathBuf};

use tickscope_tick::{NodeName, counted};

use crate::Error;

/// Characters of a name.
const MOST_CHARACTERS: usize = 100;

/// The folder of a node's outputs in the run's directory: `{outputs}` of its command.
pub(crate) fn folder(run: &Path, node: &NodeName) -> PathBuf {
    run.join(format!("outputs/node={node}"))
}

/// Refuses what is no plain file's name.
pub(crate) fn check(output: &str) -> Result<(), String> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_-.".contains(letter);
    match !output.is_empty()
        && output.len() <= MOST_CHARACTERS
        && !output.starts_with('.')
        && output.chars().all(is_plain)
    {
        true => Ok(()),
        false => Err(format!(
            "outputs: expected a file's name of at most {} (letters, digits, _ - .; none of a hidden file), found \
             '{output}'. The command writes it into {{outputs}}",
            counted(MOST_CHARACTERS as u64, "character")
        )),
    }
}

/// Makes the folder for a command that names it.
pub(crate) fn make_folder_if_named(run: &Path, node: &NodeName, words: &[String]) -> Result<(), Error> {
    let place = folder(run, node);
    let is_named = words.iter().any(|word| word.contains(&*place.to_string_lossy()));
    if is_named { tickscope_store::make_folders(&place).map_err(Error::from) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_is_the_name_of_a_plain_file() {
        assert_eq!(check("noise-1_a.json"), Ok(()));
        for wrong in ["", ".hidden", "../run.json", "a/b", "a b", "\u{e4}", &"a".repeat(101)] {
            assert!(check(wrong).unwrap_err().contains("expected a file's name"), "{wrong}");
        }
    }
}
