//! `[[limit]]` of a run file, or of a file of its own: how long a stage may take, or must.
//!
//! Guarantees: a duration is a whole number of nanoseconds and a share one of billionths, read exactly; what is wrong
//! with a limit is told with its line. Deliberately absent: traces. What keeps a limit is decided in
//! [`tickscope_analysis`].

use std::path::Path;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use tickscope_store::LimitRule;
use tickscope_tick::DurationForm;
use tickscope_trace::Layout;
use toml::Spanned;

use crate::Error;
use crate::run_file::read_text;

/// The tables of a file, each with where it stands.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(transparent)]
pub(crate) struct LimitPlans(Vec<Spanned<LimitPlan>>);

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LimitPlan {
    name: Option<String>,
    stage: String,
    #[serde(default, deserialize_with = "duration")]
    at_most: Option<u64>,
    #[serde(default, deserialize_with = "duration")]
    at_least: Option<u64>,
    #[serde(default = "all", deserialize_with = "share")]
    share: u32,
}

/// A file with `[[limit]]` tables, also a whole run file; whatever else stands in it is not looked at.
#[derive(Clone, Debug)]
pub struct LimitFile {
    name: String,
    text: String,
    limits: LimitPlans,
}

impl LimitFile {
    /// Reads it; limits of what layout is not known yet.
    pub fn read(path: &Path) -> Result<Self, Error> {
        #[derive(Deserialize)]
        struct File {
            #[serde(default, rename = "limit")]
            limits: LimitPlans,
        }
        let name = path.display().to_string();
        let text = read_text(path).map_err(|e| {
            Error::input(format!("cannot read the limits {name}: {e}. docs/run-file.md says what may stand in it"))
        })?;
        let File { limits } =
            toml::from_str(&text).map_err(|e| Error::input(format!("{name}: {}", e.to_string().trim_end())))?;
        if limits.0.is_empty() {
            return Err(Error::input(format!(
                "{name}: expected a [[limit]] with a stage and at_most, found none. Add one, or leave --limits out"
            )));
        }
        Ok(Self { name, text, limits })
    }

    /// The limits, of stages of that layout.
    pub fn rules(&self, layout: &Layout) -> Result<Vec<LimitRule>, Error> {
        let checked = self.limits.check(&self.text, Some(layout));
        checked.map_err(|why| Error::input(format!("{}: {why}", self.name)))?;
        Ok(self.limits.rules())
    }
}

impl LimitPlans {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The same as a run keeps them.
    pub fn rules(&self) -> Vec<LimitRule> {
        self.0.iter().map(|limit| limit.get_ref().rule()).collect()
    }

    /// Rules that span several fields, several limits, and the layout; `text` is that of the file.
    pub fn check(&self, text: &str, layout: Option<&Layout>) -> Result<(), String> {
        let mut known: Vec<(usize, &LimitPlan)> = Vec::new();
        for limit in &self.0 {
            let line = 1 + text[..limit.span().start].matches('\n').count();
            let limit = limit.get_ref();
            let wrong = |why: String| format!("line {line}: [[limit]] of '{}': {why}", limit.stage);
            limit.check().map_err(wrong)?;
            let layout = layout.ok_or_else(|| {
                wrong(
                    "expected a [layout] that has the stage, found none. Add the points that ids pass, in order".into(),
                )
            })?;
            let stage = layout.stage_named(&limit.stage).map_err(|e| wrong(e.to_string()))?;
            if known.iter().any(|&(other, earlier)| other == stage && limit.is_same(earlier)) {
                return Err(wrong(
                    "expected one limit of that kind and share of the stage, found a second. Leave one out".into(),
                ));
            }
            known.push((stage, limit));
        }
        Ok(())
    }
}

impl LimitPlan {
    fn rule(&self) -> LimitRule {
        let Self { name, stage, at_most, at_least, share } = self.clone();
        LimitRule { name, stage, at_most_ns: at_most, at_least_ns: at_least, share_ppb: share }
    }

    fn check(&self) -> Result<(), String> {
        match (self.at_least, self.at_most) {
            (None, None) => Err("expected at_most or at_least, found neither. Write at_most = \"250us\"".into()),
            (Some(least), Some(most)) if least > most => Err(format!(
                "expected at_least up to at_most ({most} ns), found {least} ns. Exchange them, or correct one"
            )),
            _ => Ok(()),
        }
    }

    /// Two limits of one stage and one share that both say the most, or both the least.
    fn is_same(&self, other: &Self) -> bool {
        let both = |of: fn(&Self) -> Option<u64>| of(self).is_some() && of(other).is_some();
        self.share == other.share && (both(|limit| limit.at_most) || both(|limit| limit.at_least))
    }
}

/// A duration in nanoseconds.
fn duration<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    let read = match toml::Value::deserialize(from)? {
        toml::Value::String(text) => DurationForm::LIMIT.read(&text),
        other => Err(DurationForm::LIMIT.wrong(other)),
    };
    read.map(Some).map_err(D::Error::custom)
}

fn all() -> u32 {
    LimitRule::ALL_PPB
}

/// A share in parts per billion.
fn share<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    let value = toml::Value::deserialize(from)?;
    let share = value.as_float().or_else(|| value.as_integer().map(|whole| whole as f64));
    let parts = share.filter(|share| *share > 0.0 && *share <= 1.0).map(|share| share * f64::from(all()));
    // The double next to a decimal is that decimal's alone: nine digits come back as they were written.
    let exact = parts.filter(|parts| parts.round() / f64::from(all()) == share.unwrap_or_default());
    exact.map(|parts| parts.round() as u32).filter(|&parts| parts > 0).ok_or_else(|| {
        D::Error::custom(format!(
            "expected a share of the traces above 0 and up to 1, with at most nine decimals, found {value}. Write \
             0.999 for 99.9 %"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Plan;

    const DEMO: &str = include_str!("../../../experiments/demo.toml");

    fn with(limits: &str) -> Result<Vec<LimitRule>, String> {
        Plan::parse(&format!("{DEMO}\n{limits}")).map(|plan| plan.limits.rules())
    }

    fn limit(rest: &str) -> String {
        format!("[[limit]]\nstage = \"server.received > server.reply\"\n{rest}\n")
    }

    #[test]
    fn limits_are_read_to_the_nanosecond_and_the_billionth() {
        for (text, ns) in [
            ("1ns", 1),
            ("0.5us", 500),
            ("1.250\u{b5}s", 1_250),
            ("250 us", 250_000),
            ("0.000001ms", 1),
            ("86400s", 86_400_000_000_000),
            ("0.1s", 100_000_000),
        ] {
            let found = with(&limit(&format!("at_most = \"{text}\""))).unwrap();
            assert_eq!(
                (found[0].at_most_ns, found[0].at_least_ns, found[0].share_ppb),
                (Some(ns), None, all()),
                "{text}"
            );
        }
        for (text, ppb) in
            [("1", all()), ("1.0", all()), ("0.999", 999_000_000), ("1e-9", 1), ("0.123456789", 123_456_789)]
        {
            let found = with(&limit(&format!("at_least = \"1us\"\nshare = {text}"))).unwrap();
            assert_eq!((found[0].at_least_ns, found[0].share_ppb), (Some(1_000), ppb), "{text}");
        }
        let named = with("[[limit]]\nname = \"all of it\"\nstage = \"end-to-end\"\nat_most = \"1ms\"").unwrap();
        assert_eq!((named[0].name.as_deref(), named[0].stage.as_str()), (Some("all of it"), "end-to-end"));
    }

    #[test]
    fn a_limit_that_is_wrong_is_told_with_its_line_and_what_helps() {
        let first = DEMO.lines().count() + 2;
        let most = limit("at_most = \"1ms\"");
        for (wrong, line, said) in [
            (limit("at_most = 250"), 2, "found 250. Write \"250us\""),
            (limit("at_most = \"250\""), 2, "with its unit (ns, us, ms, s)"),
            (limit("at_most = \"250 min\""), 2, "found '250 min'"),
            (limit("at_most = \"0us\""), 2, "from 1ns"),
            (limit("at_most = \"-1us\""), 2, "found '-1us'"),
            (limit("at_most = \"0.5ns\""), 2, "whole nanoseconds"),
            (limit("at_most = \"1.us\""), 2, "found '1.us'"),
            (limit("at_most = \"86401s\""), 2, "to 86400s"),
            (limit("at_most = \"1us\"\nshare = 0.0"), 3, "above 0"),
            (limit("at_most = \"1us\"\nshare = 1.001"), 3, "up to 1"),
            (limit("at_most = \"1us\"\nshare = 99.9"), 3, "Write 0.999"),
            (limit("at_most = \"1us\"\nshare = 0.9999999999"), 3, "nine decimals"),
            (limit("at_most = \"1us\"\nshare = nan"), 3, "found nan"),
            (limit("at_most = \"1us\"\nshare = \"all\""), 3, "found \"all\""),
            (limit("atmost = \"1us\""), 2, "atmost"),
            (limit(""), 0, "found neither"),
            (limit("at_most = \"1us\"\nat_least = \"2us\""), 0, "up to at_most (1000 ns), found 2000 ns"),
            (
                "[[limit]]\nstage = \"server.recieved > server.reply\"\nat_most = \"1s\"".into(),
                0,
                "did you mean 'server.received>server.reply'",
            ),
            ("[[limit]]\nstage = \"client.sent > server.reply\"\nat_most = \"1s\"".into(), 0, "to extra in [layout]"),
            (format!("{most}{}", most.replace(" > ", ">")), 3, "found a second"),
            (format!("{most}{}", limit("at_least = \"1us\"\nat_most = \"2ms\"")), 3, "found a second"),
        ] {
            let why = with(&wrong).unwrap_err();
            assert!(why.contains(said) && why.contains(&format!("line {}", first + line)), "{wrong}\n{why}");
        }
        let both = format!("{most}{}{}", limit("at_least = \"1us\""), limit("at_most = \"9us\"\nshare = 0.5"));
        assert_eq!(with(&both).unwrap().len(), 3, "another kind, another share");
        let bare = "run = { name = \"t\", seconds = 1 }\nclock.reference = \"a\"\n\
                    node = [{ name = \"a\", command = [\"true\"], ends_run = true }]\n";
        let why = Plan::parse(&format!("{bare}{most}")).unwrap_err();
        assert!(why.contains("line 4") && why.contains("expected a [layout]"), "{why}");
    }
}
