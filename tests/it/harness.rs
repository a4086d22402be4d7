//! Helpers of several test modules.

pub(crate) mod alarm;
pub(crate) mod approvers;
pub(crate) mod bundles;
pub(crate) mod certificates;
pub(crate) mod child;
pub(crate) mod custody;
pub(crate) mod documented;
pub(crate) mod faulty;
pub(crate) mod forged;
pub(crate) mod guests;
pub(crate) mod http;
pub(crate) mod modes;
pub(crate) mod pausing;
pub(crate) mod port;
pub(crate) mod process;
pub(crate) mod provider;
pub(crate) mod proxy;
pub(crate) mod recording;
pub(crate) mod samples;
pub(crate) mod terminal;
pub(crate) mod timed;
pub(crate) mod tls;
pub(crate) mod verify;
pub(crate) mod wire;
pub(crate) mod world;
