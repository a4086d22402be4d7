//! What the tests stand on.

pub(crate) mod bundles;
pub(crate) mod custody;
pub(crate) mod faulty;
pub(crate) mod guests;
pub(crate) mod modes;
pub(crate) mod overtaken;
pub(crate) mod process;
pub(crate) mod recording;
pub(crate) mod samples;
pub(crate) mod verify;
pub(crate) mod world;
