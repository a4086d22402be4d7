//! Names of files that survive a crash of the machine: a name is on disk only when its folder is.

use std::fs::File;
use std::io;
use std::path::Path;

/// The folder of a file, which for a name alone is the working directory.
#[must_use]
pub fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Waits until the names in the file's folder are on disk.
pub fn sync_folder_of(path: &Path) -> io::Result<()> {
    File::open(folder_of(path))?.sync_all()
}

/// Gives a file, whose content is on disk, another name in its folder, and waits until that is on disk. A crash leaves under that name
/// the file that was there, or this one.
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::rename(from, to)?;
    sync_folder_of(to)
}
