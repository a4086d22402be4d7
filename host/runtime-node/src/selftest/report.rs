//! The results of the attacks.

use gateway_service::output::Lines;
use gateway_threshold::SignatureProfile;
use serde::Serialize;

/// The result of one attack.
#[derive(Debug, Serialize)]
pub(crate) struct Played {
    /// The signature profile of the key.
    profile: &'static str,
    /// The protocol that is attacked.
    protocol: &'static str,
    /// The attack.
    attack: &'static str,
    /// What the honest nodes did.
    honest: String,
    /// Whether that is what they must do.
    ok: bool,
}

/// The results so far.
#[derive(Debug, Default)]
pub(crate) struct Report(Vec<Played>);

impl Report {
    pub(crate) fn add(
        &mut self,
        profile: SignatureProfile,
        protocol: &'static str,
        attack: &'static str,
        (ok, honest): (bool, String),
    ) {
        self.0.push(Played { profile: profile.name(), protocol, attack, honest, ok });
    }

    pub(crate) fn is_ok(&self) -> bool {
        !self.0.is_empty() && self.0.iter().all(|played| played.ok)
    }

    pub(crate) fn lines(&self, json: bool) -> serde_json::Result<Lines> {
        #[derive(Serialize)]
        struct Document<'a> {
            ok: bool,
            attacks: &'a [Played],
        }
        let mut lines = Lines::new();
        if json {
            lines.add_json_pretty(&Document { ok: self.is_ok(), attacks: &self.0 })?;
            return Ok(lines);
        }
        for Played { profile, protocol, attack, honest, ok } in &self.0 {
            let result = if *ok { "ok" } else { "FAILED" };
            lines.add(format_args!("{result:6} {profile}, {protocol}: {attack}: {honest}"));
        }
        let n_ok = self.0.iter().filter(|played| played.ok).count();
        lines.add(format_args!("{n_ok} of {} ended as they must", self.0.len()));
        Ok(lines)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests fail by panicking")]
    use super::*;

    #[test]
    fn one_attack_that_is_not_refused_fails_the_report() {
        let mut report = Report::default();
        assert!(!report.is_ok(), "nothing was played");
        let text = |report: &Report, json| report.lines(json).unwrap().as_str().to_owned();
        report.add(SignatureProfile::FrostEd25519Sha512, "signing", "one", (true, "refused".to_owned()));
        assert!(report.is_ok());
        report.add(SignatureProfile::FrostEd25519Sha512, "signing", "two", (false, "signed".to_owned()));
        assert!(!report.is_ok());
        assert_eq!(
            text(&report, false),
            "ok     frost-ed25519-sha512, signing: one: refused\n\
             FAILED frost-ed25519-sha512, signing: two: signed\n\
             1 of 2 ended as they must\n"
        );
        let document: serde_json::Value = serde_json::from_str(&text(&report, true)).unwrap();
        assert_eq!((&document["ok"], &document["attacks"][1]["ok"]), (&false.into(), &false.into()));
    }
}
