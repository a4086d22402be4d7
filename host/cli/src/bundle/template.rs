//! The files of a new policy, which builds and passes its tests, with a copy of the SDK.
//!
//! The template is the policy `example-policy` in `host/cli/template`. The SDK is `policy-guest/sdk`; its dependencies are those
//! in the lock of `policy-guest`.

mod lock;
mod name;

pub(crate) use name::PolicyName;

use crate::bundle::Error;
use gateway_service::output::{Lines, ToLines};
use serde::Serialize;
use std::collections::BTreeMap;

const FILES: &[(&str, &str)] = &[
    (".gitignore", include_str!("../../template/gitignore")),
    ("Cargo.toml", include_str!("../../template/Cargo.toml")),
    ("README.md", include_str!("../../template/README.md")),
    ("bundle/data/limits.json", include_str!("../../template/bundle/data/limits.json")),
    ("bundle/manifest.json", include_str!("../../template/bundle/manifest.json")),
    ("bundle/tests/custody.json", include_str!("../../template/bundle/tests/custody.json")),
    ("bundle/tests/payments.json", include_str!("../../template/bundle/tests/payments.json")),
    ("component/Cargo.toml", include_str!("../../template/component/Cargo.toml")),
    ("component/src/lib.rs", include_str!("../../template/component/src/lib.rs")),
    ("policy/Cargo.toml", include_str!("../../template/policy/Cargo.toml")),
    ("policy/src/lib.rs", include_str!("../../template/policy/src/lib.rs")),
    ("policy/src/tests.rs", include_str!("../../template/policy/src/tests.rs")),
];

/// The WIT interface between the gateway and a policy, `wit/policy.wit`.
pub(crate) const WIT: &str = include_str!("../../../../wit/policy.wit");

/// The report of `bundle wit`.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Contract {
    /// The text of [`WIT`].
    pub(crate) wit: &'static str,
}

impl ToLines for Contract {
    fn add_to(&self, lines: &mut Lines) {
        lines.add_text(self.wit);
    }
}

/// Files of `policy-guest` that a new policy copies. Only the path of `wit` is changed in them.
const SHARED: &[(&str, &str)] = &[
    ("clippy.toml", include_str!("../../../../policy-guest/clippy.toml")),
    ("rustfmt.toml", include_str!("../../../../policy-guest/rustfmt.toml")),
    ("sdk/Cargo.toml", include_str!("../../../../policy-guest/sdk/Cargo.toml")),
    ("sdk/src/allocator.rs", include_str!("../../../../policy-guest/sdk/src/allocator.rs")),
    ("sdk/src/answer.rs", include_str!("../../../../policy-guest/sdk/src/answer.rs")),
    ("sdk/src/bindings.rs", include_str!("../../../../policy-guest/sdk/src/bindings.rs")),
    ("sdk/src/data.rs", include_str!("../../../../policy-guest/sdk/src/data.rs")),
    ("sdk/src/facts.rs", include_str!("../../../../policy-guest/sdk/src/facts.rs")),
    ("sdk/src/json.rs", include_str!("../../../../policy-guest/sdk/src/json.rs")),
    ("sdk/src/lib.rs", include_str!("../../../../policy-guest/sdk/src/lib.rs")),
    ("sdk/src/quorum.rs", include_str!("../../../../policy-guest/sdk/src/quorum.rs")),
    ("sdk/src/testing.rs", include_str!("../../../../policy-guest/sdk/src/testing.rs")),
];

const LOCK: &str = include_str!("../../../../policy-guest/Cargo.lock");
const TOOLCHAIN: &str = include_str!("../../../../rust-toolchain.toml");

/// The path of `wit` in the SDK's manifest, in this repository and in a new policy.
const WIT_PATHS: (&str, &str) = ("path = \"../../wit\"", "path = \"../wit\"");

/// The files of a new policy, by path.
pub(crate) fn files(name: &PolicyName) -> Result<BTreeMap<String, String>, Error> {
    let own = FILES.iter().map(|(path, text)| ((*path).to_owned(), with_name(text, name)));
    let shared =
        SHARED.iter().map(|(path, text)| ((*path).to_owned(), text.replace(WIT_PATHS.0, WIT_PATHS.1)));
    let mut files: BTreeMap<_, _> = own.chain(shared).collect();
    files.insert("wit/policy.wit".to_owned(), WIT.to_owned());
    files.insert("Cargo.lock".to_owned(), lock::lock(LOCK, name)?);
    files.insert("rust-toolchain.toml".to_owned(), toolchain()?);
    Ok(files)
}

/// The template's text with the policy's name in all three spellings.
fn with_name(text: &str, name: &PolicyName) -> String {
    text.replace("example-policy", name.as_str())
        .replace("example_policy", &name.as_str().replace('-', "_"))
        .replace("ExamplePolicy", &name.type_name())
}

/// The `rust-toolchain.toml` of a new policy: the compiler of this repository, and the target of policies.
fn toolchain() -> Result<String, Error> {
    let broken = || Error::Template("no channel in rust-toolchain.toml".to_owned());
    let parsed: toml::Table = TOOLCHAIN.parse().map_err(|_| broken())?;
    let channel = parsed.get("toolchain").and_then(|it| it.get("channel")).and_then(toml::Value::as_str);
    let channel = channel.ok_or_else(broken)?;
    let target = crate::bundle::cargo::TARGET;
    Ok(format!("[toolchain]\nchannel = \"{channel}\"\nprofile = \"minimal\"\ntargets = [\"{target}\"]\n"))
}

#[cfg(test)]
mod tests;
