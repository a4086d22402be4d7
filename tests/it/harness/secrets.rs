//! Files that only their owner may read.

use std::fs::{Permissions, set_permissions, write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// Writes a file with mode 0600.
pub(crate) fn write_private(path: impl AsRef<Path>, content: impl AsRef<[u8]>) {
    write(&path, content).unwrap();
    make_private(path);
}

/// Gives the file mode 0600.
pub(crate) fn make_private(path: impl AsRef<Path>) {
    set_permissions(path, Permissions::from_mode(0o600)).unwrap();
}
