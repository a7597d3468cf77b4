//! `[storage]` of a run file: where in object storage its runs go.

use std::path::Path;

use serde::Deserialize;

use crate::Error;
use crate::object_store::{ObjectStore, expect_address};

/// The folder that runs go below, each under the name of its directory.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StoragePlan {
    /// Such as `s3://BUCKET/RUNS`.
    pub runs: String,
}

impl StoragePlan {
    pub fn check(&self) -> Result<(), String> {
        expect_address(&self.runs)
    }

    /// Address of the run in `root`.
    pub fn address(&self, root: &Path) -> String {
        let absolute = std::path::absolute(root).unwrap_or_else(|_| root.into());
        let name = absolute.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        format!("{}/{name}", self.runs)
    }

    /// The same place, with the keys for it.
    pub fn store(&self, root: &Path) -> Result<ObjectStore, Error> {
        ObjectStore::of_environment(&self.address(root))
    }
}
