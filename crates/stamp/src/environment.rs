//! Settings that a process reads from its environment: the same variables as `tickscope.h`.

use std::ffi::OsString;
use std::path::PathBuf;

use tickscope_tick::{Injection, NodeName, PointName, RealtimeInjection};

use crate::block::{BLOCK_BYTES, DEFAULT_BLOCK_BYTES, DEFAULT_POOL_BYTES, FEWEST_BLOCKS, KEY_BYTES, WhenFull};
use crate::directory::{GROUP, PoolKey, group_of};
use crate::policies::{Choice, rules};
use crate::policy::matches;

/// The settings of a process that was asked to measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Environment {
    pub directory: PathBuf,
    pub node: NodeName,
    pub policies: Vec<(String, Choice)>,
    pub pool_bytes: u64,
    pub block_bytes: u32,
    pub when_full: WhenFull,
    /// Directory of the logs of channels under `all`.
    pub logs: Option<PathBuf>,
    /// Group that may read and collect too.
    pub group: Option<u32>,
    pub key: [u8; KEY_BYTES],
    /// The kernel's boot id, read once: a program that changes its root may have no /proc there.
    pub boot_id: [u8; 16],
    pub injection: Option<Injection>,
    pub realtime: Option<RealtimeInjection>,
}

impl Environment {
    /// Reads the variables through `get`; `Ok(None)`: `TICKSCOPE_DIR` is unset, so nothing is to be measured.
    pub fn read(get: impl Fn(&str) -> Option<OsString>) -> Result<Option<Self>, String> {
        let text =
            |name: &str| get(name).filter(|value| !value.is_empty()).map(|value| value.to_string_lossy().into_owned());
        let Some(directory) = get("TICKSCOPE_DIR").filter(|value| !value.is_empty()) else { return Ok(None) };
        let node = text("TICKSCOPE_NODE").unwrap_or_else(|| "node".into());
        let node = NodeName::new(node).map_err(|wrong| format!("TICKSCOPE_NODE: {wrong}"))?;
        let block_bytes =
            number(text, "TICKSCOPE_BLOCK_BYTES", DEFAULT_BLOCK_BYTES, *BLOCK_BYTES.start(), *BLOCK_BYTES.end())?;
        if !block_bytes.is_power_of_two() {
            return Err(format!(
                "expected TICKSCOPE_BLOCK_BYTES as a power of two; found {block_bytes}. Unset it for \
                 {DEFAULT_BLOCK_BYTES}"
            ));
        }
        let when_full = match text("TICKSCOPE_WHEN_FULL").as_deref() {
            None | Some("drop") => WhenFull::Drop,
            Some("wait") => WhenFull::Wait,
            Some("overwrite") => WhenFull::Overwrite,
            Some(other) => {
                return Err(format!(
                    "expected TICKSCOPE_WHEN_FULL as drop, wait or overwrite; found '{other}'. Unset it for drop"
                ));
            }
        };
        Ok(Some(Self {
            directory: directory.into(),
            node,
            policies: rules(&text("TICKSCOPE_POLICY").unwrap_or_default())?,
            pool_bytes: number(text, "TICKSCOPE_POOL_BYTES", DEFAULT_POOL_BYTES, 4096, 1 << 35)?,
            block_bytes,
            when_full,
            logs: get("TICKSCOPE_LOGS").filter(|value| !value.is_empty()).map(PathBuf::from),
            group: group_of(text(GROUP).as_deref())?,
            key: text(PoolKey::VARIABLE).map(|key| key.parse::<PoolKey>()).transpose()?.unwrap_or_default().0,
            boot_id: tickscope_counter::boot_id().map_or([0; 16], |boot| boot.0),
            injection: text(Injection::VARIABLE).map(|map| map.parse()).transpose().map_err(|e| format!("{e}"))?,
            realtime: text(RealtimeInjection::VARIABLE)
                .map(|map| map.parse())
                .transpose()
                .map_err(|e| format!("{e}"))?,
        }))
    }

    /// Blocks of a pool.
    pub fn block_count(&self) -> u32 {
        (self.pool_bytes / u64::from(self.block_bytes)).max(u64::from(FEWEST_BLOCKS)) as u32
    }

    /// The policy of a point: the first rule whose glob matches; else `buffered`.
    pub fn policy_of(&self, point: &PointName) -> Choice {
        let rule = self.policies.iter().find(|(glob, _)| matches(glob, point.as_str()));
        rule.map_or(Choice::BUFFERED, |&(_, policy)| policy)
    }
}

/// Fails where a measured program would turn its points off for what a variable says.
pub fn expect_settings(get: impl Fn(&str) -> Option<OsString>) -> Result<(), String> {
    let measured = |name: &str| if name == "TICKSCOPE_DIR" { Some("/".into()) } else { get(name) };
    Environment::read(measured).map(drop)
}

fn number<N: TryFrom<u64> + Into<u64> + Copy>(
    text: impl Fn(&str) -> Option<String>,
    name: &str,
    otherwise: N,
    least: N,
    most: N,
) -> Result<N, String> {
    let Some(found) = text(name) else { return Ok(otherwise) };
    let range = least.into()..=most.into();
    let parsed = found.parse::<u64>().ok().filter(|number| range.contains(number));
    let wrong = || {
        format!(
            "expected {name} as a whole number from {} to {}; found '{found}'. Unset it for the default",
            range.start(),
            range.end()
        )
    };
    parsed.and_then(|number| N::try_from(number).ok()).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Option<Environment>, String> {
        Environment::read(|name| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into()))
    }

    #[test]
    fn without_a_directory_nothing_is_measured() {
        assert_eq!(read(&[("TICKSCOPE_NODE", "a")]), Ok(None));
        assert_eq!(read(&[("TICKSCOPE_DIR", "")]), Ok(None));
    }

    #[test]
    fn a_wrong_value_is_named_with_what_was_expected() {
        for (name, value) in [
            ("TICKSCOPE_BLOCK_BYTES", "4095"),
            ("TICKSCOPE_BLOCK_BYTES", "65537"),
            ("TICKSCOPE_BLOCK_BYTES", "5000"),
            ("TICKSCOPE_POOL_BYTES", "much"),
            ("TICKSCOPE_WHEN_FULL", "panic"),
            ("TICKSCOPE_POLICY", "send=every"),
            ("TICKSCOPE_POLICY", "send=every 0"),
            ("TICKSCOPE_POLICY", "send=5 of 4"),
            ("TICKSCOPE_POLICY", "send"),
            ("TICKSCOPE_NODE", "a b"),
            ("TICKSCOPE_NODE", "a.b"),
            ("TICKSCOPE_GROUP", "wheel"),
            ("TICKSCOPE_INJECT", "1:2"),
            ("TICKSCOPE_INJECT_REALTIME", "0:0:0:0:2;step@1"),
        ] {
            let error = read(&[("TICKSCOPE_DIR", "/x"), (name, value)]).unwrap_err();
            assert!(error.contains("expected") && error.contains(value.rsplit('=').next().unwrap()), "{error}");
        }
    }

    #[test]
    fn the_first_matching_glob_decides_the_policy() {
        let environment = read(&[("TICKSCOPE_DIR", "/x"), ("TICKSCOPE_POLICY", "sen?=null,send*=every 10,*=2 of 8")]);
        let environment = environment.unwrap().unwrap();
        let found = ["send", "sending", "receive"].map(|point| environment.policy_of(&PointName::new(point).unwrap()));
        assert_eq!(found.map(|policy| policy.to_string()), ["null", "every 10", "2 of 8"]);
    }

    #[test]
    fn blanks_around_globs_and_policies_mean_nothing() {
        for text in ["sent=every 10, *=null", " sent = every 10 ,*=null", "sent =every 10 , * = null , "] {
            let environment = read(&[("TICKSCOPE_DIR", "/x"), ("TICKSCOPE_POLICY", text)]).unwrap().unwrap();
            let found = ["sent", "sending"].map(|point| environment.policy_of(&PointName::new(point).unwrap()));
            assert_eq!(found.map(|policy| policy.to_string()), ["every 10", "null"], "{text}");
            assert_eq!(environment.policies[1].0, "*", "{text}");
        }
    }
}
