//! The two worlds of the contract in `wit/policy.wit`.

use super::BundleError;

/// The world of bundles whose component needs no WASI.
pub const WORLD: &str = "svc:policy@2.x";

/// The world of bundles whose language runtime needs WASI.
pub const WASI_WORLD: &str = "svc:policy-wasi@2.x";

/// The world for which a component is built. The manifest names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum World {
    /// `svc:policy@2.x`: only the interfaces of `svc:policy` and `svc:bundle`.
    Pure,
    /// `svc:policy-wasi@2.x`: those, and WASI for languages whose runtimes cannot start without it.
    Wasi,
}

impl World {
    /// The manifest's spelling.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pure => WORLD,
            Self::Wasi => WASI_WORLD,
        }
    }

    /// The world with this spelling.
    ///
    /// # Errors
    /// [`BundleError::World`] for another text.
    pub fn parse(name: &str) -> Result<Self, BundleError> {
        [Self::Pure, Self::Wasi]
            .into_iter()
            .find(|world| world.name() == name)
            .ok_or_else(|| BundleError::World { found: name.to_owned() })
    }

    /// Whether a component of this world may import this.
    pub(crate) fn provides(self, import: &str) -> bool {
        let ours = [
            "svc:bundle/data@1.",
            "svc:bundle/documents@1.",
            "svc:bundle/log@1.",
            "svc:policy/facts@2.",
            "svc:policy/types@2.",
            "svc:transaction/types@1.",
        ];
        ours.iter().any(|interface| import.starts_with(interface))
            || (self == Self::Wasi && crate::wasi::is_provided(import))
    }
}
