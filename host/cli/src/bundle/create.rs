//! `bundle new`: creates a new policy.

use crate::bundle::template::{self, PolicyName};
use crate::bundle::{Error, layout};
use gateway_service::output::{Lines, ToLines};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// The report of `bundle new`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Created {
    pub(crate) folder: PathBuf,
    pub(crate) n_files: usize,
}

impl ToLines for Created {
    fn add_to(&self, lines: &mut Lines) {
        let folder = self.folder.display();
        lines.add(format_args!("wrote       {} files to {folder}", self.n_files));
        lines.add(format_args!("next        operation-gateway bundle build {folder}"));
        lines.add(format_args!("            operation-gateway bundle test {folder}"));
    }
}

/// Creates the folder `name` with a new policy in `into`.
pub(crate) fn create(name: &PolicyName, into: &Path) -> Result<Created, Error> {
    let folder = into.join(name.as_str());
    if folder.exists() {
        return Err(Error::Exists(folder));
    }
    let files = template::files(name)?;
    for (path, text) in &files {
        layout::write(&folder.join(path), text.as_bytes())?;
    }
    Ok(Created { folder, n_files: files.len() })
}
