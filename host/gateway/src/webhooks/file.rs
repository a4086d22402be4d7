//! The file of webhooks, and the secrets that sign their requests.

use super::post::{PRIVATE, Post};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gateway_auth::ProviderUrl;
use gateway_domain::error_chain;
use gateway_domain::ids::Tenant;
use gateway_domain::operation::State;
use gateway_seal::key_file;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// Largest file.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Most webhooks: each has a task, and up to [`AT_ONCE`](super::delivery::AT_ONCE) connections.
pub(super) const WEBHOOKS_MAX: usize = 64;

/// Most secrets of a webhook: each adds a signature to every request.
const SECRETS_MAX: usize = 4;

/// Largest file of a secret.
const SECRET_FILE_BYTES_MAX: u64 = 256;

/// A webhook of the file, ready to be sent to.
#[derive(Debug)]
pub(super) struct Webhook {
    pub(super) name: String,
    /// Whose events it gets. `None`: those of all tenants.
    pub(super) tenant: Option<Tenant>,
    /// Events after which the operation is in one of these states. None: all events.
    pub(super) states: Vec<State>,
    pub(super) post: Post,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    webhooks: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    url: String,
    /// Relative to the folder of the document.
    secret_files: Vec<PathBuf>,
    /// `*` for all.
    tenant: String,
    #[serde(default)]
    states: Vec<State>,
    #[serde(default)]
    allow_private_addresses: bool,
}

/// Reads the webhooks of a file, and their secrets.
///
/// # Errors
/// What is wrong, in one line, which shows neither a secret nor the URL.
pub(super) fn read(path: &Path) -> Result<Vec<Webhook>, String> {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text));
    read.map_err(|error| error_chain(&error))?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(format!("has more than {FILE_BYTES_MAX} bytes"));
    }
    // The messages of serde show values, which may be a secret in a wrong place.
    let wrong = |error: serde_json::Error| {
        let what = if error.is_data() { "has not the form of a file of webhooks" } else { "is not JSON" };
        format!("{what}, at line {}, column {}", error.line(), error.column())
    };
    let document: Document = serde_json::from_str(&text).map_err(wrong)?;
    if document.webhooks.len() > WEBHOOKS_MAX {
        return Err(format!("has more than {WEBHOOKS_MAX} webhooks"));
    }
    let folder = path.parent().unwrap_or(Path::new(""));
    let mut names = BTreeSet::new();
    let webhook = |entry: Entry| {
        let name = entry.name.clone();
        if !is_name(&name) {
            return Err(format!(
                "the name `{name}` of a webhook must be 1 to 64 lowercase letters, digits and hyphens"
            ));
        }
        if !names.insert(name.clone()) {
            return Err(format!("there are two webhooks `{name}`"));
        }
        entry.open(folder).map_err(|why| format!("the webhook `{name}` {why}"))
    };
    document.webhooks.into_iter().map(webhook).collect()
}

fn is_name(name: &str) -> bool {
    let is_of_name = |byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
    (1..=64).contains(&name.len()) && name.bytes().all(is_of_name)
}

impl Entry {
    fn open(self, folder: &Path) -> Result<Webhook, String> {
        if self.tenant.is_empty() {
            return Err("must name a `tenant`, or `*` for all".to_owned());
        }
        let url: ProviderUrl = self.url.parse().map_err(|why| format!("has a `url` that {why}"))?;
        let url = url.as_url().clone();
        if !self.allow_private_addresses && PRIVATE.contains_literal(&url) {
            return Err("has a private address as `url`: say so with `allow_private_addresses`".to_owned());
        }
        if !(1..=SECRETS_MAX).contains(&self.secret_files.len()) {
            return Err(format!("must have 1 to {SECRETS_MAX} `secret_files`"));
        }
        if self.secret_files.iter().any(|file| file.to_string_lossy().contains("whsec_")) {
            return Err("has a secret among its `secret_files`: put it into a file, and name that".to_owned());
        }
        let secrets = self.secret_files.iter().map(|file| secret(&folder.join(file)));
        let secrets = secrets
            .collect::<Result<_, _>>()
            .map_err(|why| format!("has a secret that cannot be used: {why}"))?;
        Ok(Webhook {
            name: self.name,
            tenant: Some(self.tenant).filter(|tenant| tenant != "*").map(Tenant),
            states: self.states,
            post: Post::new(url, secrets, self.allow_private_addresses)?,
        })
    }
}

/// Reads a secret in the form of Standard Webhooks: `whsec_` and Base64 of 24 to 64 bytes.
fn secret(path: &Path) -> Result<Zeroizing<Vec<u8>>, String> {
    let text = key_file::load_bytes(path, SECRET_FILE_BYTES_MAX).map_err(|error| error_chain(&error))?;
    let encoded = text.trim_ascii_end().strip_prefix(b"whsec_");
    let secret = encoded.and_then(|encoded| STANDARD.decode(encoded).ok()).map(Zeroizing::new);
    secret.filter(|secret| (24..=64).contains(&secret.len())).ok_or_else(|| {
        format!("the file `{}` must have one line, `whsec_` and Base64 of 24 to 64 bytes", path.display())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    /// A folder with a secret `good`, and ones that cannot be used.
    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let good = format!("whsec_{}\n", STANDARD.encode([7; 24]));
        let short = format!("whsec_{}", STANDARD.encode([7; 23]));
        let long = format!("whsec_{}", STANDARD.encode([7; 65]));
        for (name, text) in
            [("good", &good[..]), ("short", &short), ("long", &long), ("bare", "c2VjcmV0"), ("open", &good)]
        {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            let mode = if name == "open" { 0o640 } else { 0o600 };
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        }
        folder
    }

    fn read_text(folder: &tempfile::TempDir, text: &str) -> Result<Vec<Webhook>, String> {
        let path = folder.path().join("webhooks.json");
        fs::write(&path, text).unwrap();
        read(&path)
    }

    fn entry(change: impl FnOnce(&mut serde_json::Value)) -> String {
        let mut entry = serde_json::json!({
            "name": "books", "url": "https://books.example/secret-path", "secret_files": ["good"], "tenant": "acme",
        });
        change(&mut entry);
        serde_json::json!({"webhooks": [entry]}).to_string()
    }

    #[test]
    fn webhooks_are_read_with_their_secrets() {
        let folder = folder();
        let text = entry(|entry| entry["states"] = serde_json::json!(["published", "failed"]));
        let [webhook] = <[_; 1]>::try_from(read_text(&folder, &text).unwrap()).unwrap();
        assert_eq!((&webhook.name[..], webhook.tenant.clone()), ("books", Some(Tenant("acme".to_owned()))));
        assert_eq!(webhook.states, [State::Published, State::Failed]);
        let all = read_text(&folder, &entry(|entry| entry["tenant"] = "*".into())).unwrap();
        assert_eq!((all[0].tenant.clone(), &all[0].states[..]), (None, &[][..]));
        assert_eq!(read_text(&folder, r#"{"webhooks": []}"#).unwrap().len(), 0);
        let debugged = format!("{webhook:?}");
        assert!(!debugged.contains("books.example") && !debugged.contains('7'), "{debugged}");
    }

    #[test]
    fn wrong_webhook_is_one_line_without_its_address() {
        let folder = folder();
        let inside = "has a private address as `url`: say so with `allow_private_addresses`";
        let secrets = "must have 1 to 4 `secret_files`";
        let secret = "has a secret that cannot be used: the file ";
        for (member, value, why) in [
            (
                "url",
                serde_json::json!("http://books.example/secret-path"),
                "has a `url` that must be an `https` URL",
            ),
            (
                "url",
                "https://user:secret-path@books.example".into(),
                "has a `url` that must be an `https` URL",
            ),
            ("url", "https://127.0.0.1/secret-path".into(), inside),
            ("url", "http://[::1]/secret-path".into(), inside),
            ("url", "https://169.254.169.254/secret-path".into(), inside),
            ("url", "https://0xa.1/secret-path".into(), inside),
            ("secret_files", serde_json::json!([]), secrets),
            ("secret_files", serde_json::json!(["good", "good", "good", "good", "good"]), secrets),
            ("secret_files", serde_json::json!(["short"]), secret),
            ("secret_files", serde_json::json!(["long"]), secret),
            ("secret_files", serde_json::json!(["bare"]), secret),
            ("secret_files", serde_json::json!(["open"]), secret),
            ("secret_files", serde_json::json!(["missing"]), secret),
            ("tenant", "".into(), "must name a `tenant`, or `*` for all"),
        ] {
            let error = read_text(&folder, &entry(|entry| entry[member] = value)).unwrap_err();
            assert!(error.starts_with(&format!("the webhook `books` {why}")), "{error}");
            assert!(!error.contains("secret-path") && !error.contains('\n'), "{error}");
        }
        let named = |name: &str| entry(|entry| entry["name"] = name.into());
        for wrong in ["", "Books", "a b", "a/b", &"x".repeat(65)] {
            let error = read_text(&folder, &named(wrong)).unwrap_err();
            assert!(error.starts_with(&format!("the name `{wrong}` of a webhook must be")), "{error}");
        }
        // A secret in a wrong place is not shown.
        for (member, value) in [
            ("secret", serde_json::json!("whsec_c2VjcmV0")),
            ("secret_files", "whsec_c2VjcmV0".into()),
            ("states", serde_json::json!(["whsec_c2VjcmV0"])),
        ] {
            let error = read_text(&folder, &entry(|entry| entry[member] = value)).unwrap_err();
            assert!(
                error.starts_with("has not the form of a file of webhooks, at line 1, column "),
                "{error}"
            );
            assert!(!error.contains("whsec"), "{error}");
        }
        let among = entry(|entry| entry["secret_files"] = serde_json::json!(["good", "whsec_c2VjcmV0"]));
        let error = read_text(&folder, &among).unwrap_err();
        assert!(
            error.contains("has a secret among its `secret_files`") && !error.contains("c2VjcmV0"),
            "{error}"
        );
        assert_eq!(read_text(&folder, "{").unwrap_err(), "is not JSON, at line 1, column 1");
        let twice = named("books")
            .replace("}]}", "},{}]}")
            .replace("{}", &named("books")[13..named("books").len() - 2]);
        assert_eq!(read_text(&folder, &twice).unwrap_err(), "there are two webhooks `books`");
        let many = format!(
            r#"{{"webhooks": [{}]}}"#,
            vec![&named("books")[13..named("books").len() - 2]; 65].join(",")
        );
        assert_eq!(read_text(&folder, &many).unwrap_err(), "has more than 64 webhooks");
        let large = " ".repeat(1 << 20) + "{}";
        assert_eq!(read_text(&folder, &large).unwrap_err(), "has more than 1048576 bytes");
    }
}
