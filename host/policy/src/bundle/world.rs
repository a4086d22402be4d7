//! The two worlds of the contract.

use super::BundleError;

/// The world that a bundle's manifest names, so that its signers know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum World {
    /// `svc:policy@1.x`: our own interfaces and nothing else.
    Pure,
    /// `svc:policy-wasi@1.x`: the same for languages that cannot start without WASI; see `wit/policy.wit`.
    Wasi,
}

impl World {
    /// The manifest's spelling.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pure => super::WORLD,
            Self::Wasi => super::WASI_WORLD,
        }
    }

    /// # Errors
    /// [`BundleError::World`] for anything else.
    pub fn named(name: &str) -> Result<Self, BundleError> {
        [Self::Pure, Self::Wasi]
            .into_iter()
            .find(|world| world.name() == name)
            .ok_or_else(|| BundleError::World { found: name.to_owned() })
    }

    /// Whether a component of this world may import this.
    pub(crate) fn gives(self, import: &str) -> bool {
        let ours = ["svc:policy/data@1.", "svc:policy/facts@1.", "svc:policy/types@1."];
        ours.iter().any(|interface| import.starts_with(interface))
            || (self == Self::Wasi && crate::wasi::is_given(import))
    }
}
