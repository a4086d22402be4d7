//! Whether a write failed for want of room.

use std::path::Path;

use rustix::fs::statvfs;

use crate::connect::primary_code;

/// Less than this is no room: SQLite's shared memory file grows by half as much, and a small commit needs some pages.
const ROOM_BYTES_MIN: u64 = 64 * 1024;

/// SQLite says so, or it failed to read or write and the file system says so: a sync that meets a full disk, or a side
/// file that can not grow, is an I/O error to SQLite.
pub(crate) fn is_full(error: &sqlx::Error, path: &Path) -> bool {
    const IOERR: i32 = 10;
    const FULL: i32 = 13;
    const CANTOPEN: i32 = 14;
    match primary_code(error) {
        Some(FULL) => true,
        Some(IOERR | CANTOPEN) => !has_room(path),
        Some(_) | None => false,
    }
}

/// A file system that does not say has room.
fn has_room(path: &Path) -> bool {
    statvfs(path).map_or(true, |disk| disk.f_bavail.saturating_mul(disk.f_frsize) >= ROOM_BYTES_MIN)
}
