//! `[rivals]` of a run file: the programs that a run's bounds are compared with.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

/// Which programs are asked about the nodes' clocks.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RivalsPlan {
    #[serde(deserialize_with = "variants")]
    pub chrony: Vec<ChronyVariant>,
    pub ptp4l: bool,
    /// What the kernel states of each node's `CLOCK_REALTIME`.
    pub ntp: bool,
    /// Port of the chronyd that the others follow; none of its own programs listens there.
    pub chrony_port: Option<u16>,
}

/// One chronyd on each node.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChronyVariant {
    /// Its name in the run.
    pub name: String,
    /// Time between two requests: 2^poll seconds; absent: chrony's own choice.
    #[serde(default)]
    pub poll: Option<i8>,
    /// Interleaved mode: answers carry the kernel's stamp of the answer before.
    #[serde(default)]
    pub xleave: bool,
    /// The chronyd that runs on the node already; none is started.
    #[serde(default)]
    pub running: bool,
}

impl RivalsPlan {
    /// Chosen far from the ports that programs use by default.
    const PORT: u16 = 11_123;
    /// More of them on one node would disturb what they are compared with.
    const MOST_VARIANTS: usize = 8;
    /// What chrony's `minpoll` and `maxpoll` may be.
    const POLLS: std::ops::RangeInclusive<i8> = -7..=24;

    pub fn port(&self) -> u16 {
        self.chrony_port.unwrap_or(Self::PORT)
    }

    pub fn check(&self) -> Result<(), String> {
        if self.chrony.len() > Self::MOST_VARIANTS {
            let (most, found) = (Self::MOST_VARIANTS, self.chrony.len());
            return Err(format!("expected at most {most} variants in rivals.chrony, found {found}. Leave some out"));
        }
        for (number, ChronyVariant { name, poll, xleave, running }) in self.chrony.iter().enumerate() {
            let letters = |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
            if name.is_empty() || name.len() > 32 || !name.chars().all(letters) {
                return Err(format!(
                    "expected a name of 1 to 32 letters, digits, '-' and '_' in rivals.chrony, \
                     found '{name}'. Rename it"
                ));
            }
            if self.chrony[..number].iter().any(|other| other.name == *name) {
                return Err(format!("expected names that differ in rivals.chrony, found '{name}' twice. Rename one"));
            }
            if poll.is_some_and(|poll| !Self::POLLS.contains(&poll)) {
                return Err(format!(
                    "expected rivals.chrony poll from {} to {}, found {}. It is a power of two, in seconds",
                    Self::POLLS.start(),
                    Self::POLLS.end(),
                    poll.unwrap_or_default()
                ));
            }
            if *running && (poll.is_some() || *xleave) {
                return Err(format!(
                    "expected neither poll nor xleave for the chronyd '{name}' that runs already, \
                     found one. Leave it out"
                ));
            }
        }
        Ok(())
    }
}

/// `true`, `false` or a list.
fn variants<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<ChronyVariant>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Given {
        Any(bool),
        Listed(Vec<toml::Value>),
    }
    match Given::deserialize(from)? {
        Given::Any(false) => Ok(Vec::new()),
        Given::Any(true) => {
            Ok(vec![ChronyVariant { name: "default".into(), poll: None, xleave: false, running: false }])
        }
        Given::Listed(all) => all.into_iter().map(|one| one.try_into().map_err(D::Error::custom)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(text: &str) -> Result<RivalsPlan, String> {
        let plan: RivalsPlan = toml::from_str(text).map_err(|e| e.to_string())?;
        plan.check().map(|()| plan)
    }

    #[test]
    fn chrony_is_asked_for_by_a_word_or_as_several_variants() {
        assert_eq!(plan("").unwrap(), RivalsPlan::default());
        assert!(plan("ntp = true").unwrap().ntp);
        assert_eq!(plan("chrony = true").unwrap().chrony[0].name, "default");
        let two =
            plan("chrony = [{ name = \"a\" }, { name = \"b\", poll = -4, xleave = true }]\nptp4l = true").unwrap();
        assert_eq!((two.chrony.len(), two.chrony[1].poll, two.chrony[1].xleave, two.ptp4l), (2, Some(-4), true, true));
    }

    #[test]
    fn a_variant_that_makes_no_sense_is_refused_with_what_was_expected() {
        for (text, said) in [
            ("chrony = [{ name = \"a\" }, { name = \"a\" }]", "twice"),
            ("chrony = [{ name = \"a\\nserver 1.2.3.4\" }]", "letters"),
            ("chrony = [{ name = \"a\", poll = 99 }]", "from -7 to 24"),
            ("chrony = [{ name = \"a\", poll = 1, running = true }]", "runs already"),
            ("chrony = [{ name = \"a\", pol = 1 }]", "pol"),
            ("chrny = true", "chrny"),
        ] {
            let why = plan(text).unwrap_err();
            assert!(why.contains(said), "{text}: {why}");
        }
    }
}
