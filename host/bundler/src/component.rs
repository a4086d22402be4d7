//! From the module that rustc made to the component that a bundle carries.
//!
//! The module brings its own world: the SDK's bindings put it into a custom section. So nothing but the module is
//! needed, and no tool besides rustc (ADR 0014).

use crate::Error;
use wit_component::ComponentEncoder;

/// The component of a core module. The same module gives the same bytes.
///
/// # Errors
/// [`Error::Component`] for a module that does not say its world, or does not keep to it.
pub(crate) fn encode(module: &[u8]) -> Result<Vec<u8>, Error> {
    let encoded = ComponentEncoder::default().validate(true).module(module).and_then(|mut it| it.encode());
    encoded.map_err(|fault| Error::Component(format!("{fault:#}").replace('\n', " ")))
}
