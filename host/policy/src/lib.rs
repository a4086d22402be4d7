//! Runs signed policy bundles as WebAssembly components.
