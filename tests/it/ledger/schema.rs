//! Tables, indexes and triggers that differ from those that the migrations create.

use super::checked;
use super::history::History;

#[tokio::test(flavor = "multi_thread")]
async fn altered_schema_is_found() {
    let history = History::written().await;
    let damages = [
        ("DROP TRIGGER policy_activations_rise", "trigger policy_activations_rise"),
        ("DROP INDEX operations_owing", "index operations_owing"),
        ("DROP TABLE write_probe", "table write_probe"),
        ("CREATE TABLE stray (id INTEGER)", "table stray"),
        ("CREATE TRIGGER stray AFTER INSERT ON events BEGIN SELECT 1; END", "trigger stray"),
        ("ALTER TABLE write_probe ADD COLUMN more TEXT", "table write_probe"),
    ];
    for (damage, row) in damages {
        history.damage(damage).await;
        let (findings, _) = checked(&history.database()).await.unwrap();
        assert_eq!(findings.len(), 1, "{damage}: {findings:#?}");
        assert_eq!((findings[0].table.as_str(), findings[0].row.as_str()), ("sqlite_schema", row));
    }
}

/// A constraint that was not enforced at the time of a write.
#[tokio::test(flavor = "multi_thread")]
async fn sqlite_integrity_errors_are_findings() {
    let history = History::written().await;
    let damage = "UPDATE custody_keys SET busy_with = zeroblob(32) WHERE key_ref = 'vault'";
    history.damage(damage).await;
    let (findings, _) = checked(&history.database()).await.unwrap();
    let refers = |what: &str| what.contains("refers to a row of `operations` that does not exist");
    assert!(
        findings.iter().any(|finding| finding.table == "custody_keys" && refers(&finding.what)),
        "{findings:#?}"
    );
}
