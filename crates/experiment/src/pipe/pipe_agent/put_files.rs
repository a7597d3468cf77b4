//! Files of a node on their way to the folder that its command runs in, a piece at a time.

use std::fs::File;
use std::os::unix::fs::{FileExt, PermissionsExt};

use super::PipeAgent;
use crate::Error;
use crate::node_plan::{NodePlan, Site, There};
use crate::pipe::protocol::{PIECE_BYTES, Question};

impl PipeAgent {
    /// Copies the files of a node into the folder that its command runs in.
    pub(super) fn put_files(&mut self, node: &NodePlan) -> Result<(), Error> {
        let Site::There(There { files, .. }) = node.site() else { return Ok(()) };
        for file in files {
            let path = self.folder.join(file);
            let wrong = |e: std::io::Error| {
                Error::input(format!("node '{}': cannot read {}: {e}. Correct files", node.name, path.display()))
            };
            let opened = tickscope_store::open_regular(&path).map_err(wrong)?;
            let executable = opened.metadata().map_err(wrong)?.permissions().mode() & 0o100 != 0;
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            self.put(&name, executable, &opened).map_err(|e| match e {
                PutError::Read(e) => wrong(e),
                PutError::Agent(e) => e,
            })?;
        }
        Ok(())
    }

    fn put(&mut self, name: &str, executable: bool, file: &File) -> Result<(), PutError> {
        let (mut offset, mut piece) = (0, vec![0; PIECE_BYTES]);
        loop {
            let read = file.read_at(&mut piece, offset).map_err(PutError::Read)?;
            if read == 0 && offset > 0 {
                return Ok(());
            }
            let question = Question::Put { name: name.into(), executable, offset };
            self.ask_with(question, piece[..read].to_vec()).map_err(PutError::Agent)?;
            offset += read as u64;
            if read == 0 {
                return Ok(());
            }
        }
    }
}

enum PutError {
    Read(std::io::Error),
    Agent(Error),
}
