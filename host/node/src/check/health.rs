//! The damage in a node's database: found when it is opened, and by a check that repeats over all its rows.

use crate::error::NodeError;
use crate::memory::health::DAMAGE_KEPT_MAX;
use crate::node::Node;
use crate::store::operation;
use crate::store::tables::{Damage, Scope};
use gateway_domain::dsse::Envelope;
use gateway_domain::error_chain;
use gateway_domain::ids::KeyId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Findings that are reported as text.
const FINDINGS_REPORTED_MAX: usize = 16;

/// Whether a node is usable, and its damage. A damaged share or record leaves the rest of a node usable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NodeStatus {
    /// Whether the node can serve its undamaged keys.
    pub is_usable: bool,
    /// The first findings of damage, in order, or why the node cannot be used otherwise; without secrets.
    pub findings: Vec<String>,
    /// The number of all findings of damage.
    pub n_findings: usize,
    /// The keys whose shares are missing or damaged on the node.
    pub keys: BTreeSet<KeyId>,
    /// The decision that the node admitted last: a gateway that does not have it has an older copy of its database.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub newest_decision: Option<Envelope>,
}

impl Node {
    /// Checks the shares, and whether the node has stopped, as the first round of the check. Called when the node is opened, so
    /// that damage is reported before the node is used.
    pub async fn start_checks(&self) {
        let found = self.check_shares().await;
        self.health.opened(found.unwrap_or_else(|error| vec![unreadable(&error)]));
    }

    /// Checks the next rows.
    pub async fn check_next_rows(&self) {
        let (found, next) = match self.check(self.health.cursor()).await {
            Ok(checked) => checked,
            Err(error) => (vec![unreadable(&error)], None),
        };
        self.health.record(found, next);
    }

    /// Whether the node is usable, and the damage that the checks found.
    pub async fn status(&self) -> NodeStatus {
        match self.full_disk().await {
            Some(path) => NodeStatus::unusable(format!("the disk with `{}` is full", path.display())),
            None => NodeStatus {
                newest_decision: self.newest_decision().await.unwrap_or_else(|error| {
                    tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        "the newest decision cannot be read"
                    );
                    None
                }),
                ..NodeStatus::of(self.health.findings())
            },
        }
    }

    async fn newest_decision(&self) -> Result<Option<Envelope>, NodeError> {
        let mut conn = self.database.readers().acquire().await?;
        Ok(operation::newest_statement(&mut conn).await?.map(|statement| statement.request.envelope))
    }
}

impl NodeStatus {
    /// A node that cannot be used, for this reason, which is no damage.
    #[must_use]
    pub fn unusable(why: String) -> Self {
        Self { findings: vec![why], ..Self::default() }
    }

    fn of(damage: BTreeSet<Damage>) -> Self {
        let is_usable =
            damage.len() < DAMAGE_KEPT_MAX && damage.iter().all(|found| found.scope != Scope::Node);
        let (mut findings, mut keys, n_findings) = (Vec::new(), BTreeSet::new(), damage.len());
        for found in damage {
            if findings.len() < FINDINGS_REPORTED_MAX {
                findings.push(found.to_string());
            }
            match found.scope {
                Scope::Key(key_id) => _ = keys.insert(key_id),
                Scope::Node | Scope::Records => {}
            }
        }
        Self { is_usable, findings, n_findings, keys, newest_decision: None }
    }
}

/// The finding for a node that cannot be checked, which makes it unusable.
#[must_use]
pub fn unreadable(error: &NodeError) -> Damage {
    let what = format!("cannot be checked: {}", error_chain(error));
    Damage { table: "database", row: String::new(), what, scope: Scope::Node }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gateway_domain::ids::Hex32;

    fn damage(row: &str, scope: Scope) -> Damage {
        Damage { table: "share", row: row.to_owned(), what: "broken".to_owned(), scope }
    }

    #[test]
    fn a_node_is_usable_unless_all_of_it_is_damaged() {
        let key = KeyId(Hex32::new([1; 32]));
        let sound = NodeStatus::of(BTreeSet::new());
        assert_eq!((sound.is_usable, sound.n_findings), (true, 0));
        let found = NodeStatus::of([damage("a", Scope::Key(key)), damage("b", Scope::Records)].into());
        assert_eq!((found.is_usable, found.n_findings, found.keys), (true, 2, BTreeSet::from([key])));
        assert_eq!(found.findings, ["share, a: broken", "share, b: broken"]);
        assert!(!NodeStatus::of([damage("a", Scope::Node)].into()).is_usable);
        let many = (0..DAMAGE_KEPT_MAX).map(|n| damage(&n.to_string(), Scope::Records)).collect();
        let found = NodeStatus::of(many);
        assert!(!found.is_usable, "not all of its damage is known");
        assert_eq!(found.findings.len(), FINDINGS_REPORTED_MAX);
    }
}
