//! What `tickscope doctor` says of the policies that a program gets from this environment.

use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use tickscope_stamp::block::Policy;
use tickscope_stamp::policies::{Choice, rules};

use super::Look;

/// The policies that `TICKSCOPE_POLICY` gives, and the directory for logs that `TICKSCOPE_LOGS` names.
pub(super) fn looks(get: impl Fn(&str) -> Option<std::ffi::OsString>) -> [Look; 2] {
    let set = |name: &str| get(name).filter(|value| !value.is_empty());
    let given = set("TICKSCOPE_POLICY").map(|text| rules(&text.to_string_lossy()));
    let logs_all = |rules: &Vec<(String, Choice)>| rules.iter().any(|(_, policy)| policy.policy() == Policy::All);
    let wants_logs = given.as_ref().is_some_and(|given| given.as_ref().is_ok_and(logs_all));
    [policies(given), logs(set("TICKSCOPE_LOGS").as_deref(), wants_logs)]
}

fn policies(given: Option<Result<Vec<(String, Choice)>, String>>) -> Look {
    let what = "policies";
    match given {
        None => Look::of(what, "TICKSCOPE_POLICY is not set: every point is buffered", None),
        Some(Ok(rules)) => {
            let rules: Vec<String> = rules.iter().map(|(glob, policy)| format!("{glob} {policy}")).collect();
            Look::of(what, format!("TICKSCOPE_POLICY: {}; every other point buffered", rules.join(", ")), None)
        }
        Some(Err(wrong)) => {
            let costs = "all points of a program that is started with it are off: it says so on standard error";
            Look::of(what, wrong, Some(costs.into()))
        }
    }
}

fn logs(directory: Option<&OsStr>, are_wanted: bool) -> Look {
    let what = "logs of all";
    let costs = "stamps under the policy all are kept as under buffered, without a log: make the directory, name it in \
                 TICKSCOPE_LOGS";
    let Some(directory) = directory else {
        let found = "TICKSCOPE_LOGS is not set: tickscope run names a directory in the run, other programs have none";
        return Look::of(what, found, are_wanted.then(|| costs.into()));
    };
    let name = Path::new(directory).display();
    match writable(directory) {
        Ok(()) => Look::of(what, format!("TICKSCOPE_LOGS: {name}"), None),
        Err(why) => Look::of(what, format!("TICKSCOPE_LOGS: {name}: {why}"), Some(costs.into())),
    }
}

/// Why no file can be made there.
fn writable(directory: &OsStr) -> Result<(), String> {
    if !Path::new(directory).is_dir() {
        return Err("no such directory".into());
    }
    let path = CString::new(directory.as_bytes()).map_err(|_| "a path with a zero byte".to_owned())?;
    // SAFETY: access reads a terminated path.
    match unsafe { libc::access(path.as_ptr(), libc::W_OK | libc::X_OK) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error().to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(variables: &[(&str, &str)]) -> [(String, bool); 2] {
        let get = |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into());
        looks(get).map(|look| (look.found, look.costs.is_some()))
    }

    #[test]
    fn policies_of_the_environment_are_shown_as_they_are_read_or_with_what_is_wrong() {
        let [none, no_logs] = told(&[]);
        assert_eq!(none, ("TICKSCOPE_POLICY is not set: every point is buffered".into(), false));
        assert!(no_logs.0.contains("TICKSCOPE_LOGS is not set") && !no_logs.1);
        let [given, wanted] = told(&[("TICKSCOPE_POLICY", "sen?=null,send*=every 10,*=all")]);
        assert_eq!(
            given,
            ("TICKSCOPE_POLICY: sen? null, send* every 10, * all; every other point buffered".into(), false)
        );
        assert!(wanted.1, "a policy all without logs costs them");
        let [wrong, _] = told(&[("TICKSCOPE_POLICY", "send=every 0")]);
        assert!(wrong.0.contains("TICKSCOPE_POLICY") && wrong.0.contains("every 0") && wrong.1, "{wrong:?}");
        let [_, there] = told(&[("TICKSCOPE_LOGS", "/")]);
        assert!(there.0.ends_with("/"), "{there:?}");
        let [_, missing] = told(&[("TICKSCOPE_LOGS", "/nonexistent/of/this/test")]);
        assert!(missing.0.contains("no such directory") && missing.1, "{missing:?}");
    }
}
