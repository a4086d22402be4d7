//! Checks the bundles that were active, and the activations. Their rows have hashes of themselves.

use super::check::Check;
use super::snapshot::{Snapshot, Stop};
use crate::record::decode;
use crate::record::encode::policies::{activation, file_hash, rows_hash};
use crate::sql::row::{Cell, Hashes, Row, blob};
use gateway_domain::ids::Hex32;
use gateway_engine::ports::StoredBundle;

pub(super) const BUNDLES: &str = "SELECT * FROM policy_bundles ORDER BY bundle_hash";
const NEVER_ACTIVE: &str = "SELECT bundle_hash FROM policy_bundles
    WHERE bundle_hash NOT IN (SELECT bundle_hash FROM policy_activations) ORDER BY bundle_hash";
const NOT_STORED: &str =
    "SELECT bundle_hash FROM policy_activations UNION SELECT bundle_hash FROM policy_bundle_files
    EXCEPT SELECT bundle_hash FROM policy_bundles ORDER BY bundle_hash";
/// Without the bytes, which could be large for all files together.
const FILES: &str = "SELECT bundle_hash, name, row_hash FROM policy_bundle_files ORDER BY bundle_hash, name";
const FILES_OF: &str = "SELECT name, row_hash FROM policy_bundle_files WHERE bundle_hash = $1 ORDER BY name";
const BYTES: &str =
    "SELECT bytes FROM policy_bundle_files WHERE bundle_hash = $1 AND name = CAST($2 AS TEXT)";
const STORED: &str =
    "SELECT bundle_id, name, bytes FROM policy_bundles JOIN policy_bundle_files USING (bundle_hash)
    WHERE bundle_hash = $1 ORDER BY name";
const ACTIVATIONS: &str = "SELECT * FROM policy_activations WHERE sequence > $1 ORDER BY sequence LIMIT $2";

impl Check<'_> {
    pub(super) async fn bundles(&mut self) -> Result<(), Stop> {
        for bundle in self.rows(BUNDLES, &[]).await? {
            let files = self.rows(FILES_OF, &[bundle.cell("bundle_hash").clone()]).await?;
            if bundle_row_hash(&bundle, &files).is_none_or(|hash| bundle.hash("row_hash") != Some(hash)) {
                let name = bundle.named(&["bundle_hash"]);
                self.finding(
                    "policy_bundles",
                    name.clone(),
                    "`row_hash` does not match the row and its files",
                );
                self.finding("policy_bundle_files", name, "not the files that were stored");
            }
        }
        for bundle in self.rows(NEVER_ACTIVE, &[]).await? {
            self.finding("policy_bundles", bundle.named(&["bundle_hash"]), "was never active");
        }
        for bundle in self.rows(NOT_STORED, &[]).await? {
            self.finding("policy_bundles", bundle.named(&["bundle_hash"]), "missing");
        }
        for file in self.rows(FILES, &[]).await? {
            let key = [file.cell("bundle_hash").clone(), file.cell("name").clone()];
            let bytes = self.rows(BYTES, &key).await?;
            let bytes = bytes.first().and_then(|row| row.bytes("bytes"));
            if file_row_hash(&file, bytes).is_none_or(|hash| file.hash("row_hash") != Some(hash)) {
                let name = file.named(&["bundle_hash", "name"]);
                self.finding("policy_bundle_files", name, "`row_hash` does not match the row");
            }
        }
        Ok(())
    }

    pub(super) async fn activations(&mut self) -> Result<(), Stop> {
        let (mut last, mut after, mut previous) =
            (i64::MIN, vec![Cell::Integer(i64::MIN)], Some(Hex32::ZERO));
        while let Some(rows) = self.page(ACTIVATIONS, &["sequence"], &mut after).await? {
            last = rows.last().and_then(|row| row.integer("sequence")).unwrap_or(last);
            self.checked.n_activations = self.checked.n_activations.saturating_add(rows.len() as u64);
            for row in &rows {
                self.activation(row, previous);
                previous = row.hash("row_hash");
            }
        }
        let counted = self.snapshot.statements().counted();
        let counted = self.rows(&counted, &["policy_activations".into()]).await?;
        let counted = counted.first().and_then(|row| row.integer("seq"));
        if counted.unwrap_or(i64::MIN) != last {
            let counted = counted.unwrap_or_default();
            let counters = self.snapshot.statements().counters;
            let what = format!("`{counters}` has this as the last one, but the table ends with {last}");
            self.finding("policy_activations", format!("sequence {counted}"), what);
        }
        Ok(())
    }

    fn activation(&mut self, row: &Row, previous: Option<Hex32>) {
        let name = row.named(&["sequence"]);
        let stored = decode::activation(row).and_then(|stored| activation(&stored));
        let Ok(expected) = stored else {
            return self.finding("policy_activations", name, "cannot be read");
        };
        let mut columns = expected.columns();
        // The tree compares what follows from all entries of the log.
        let mut elsewhere = vec!["ledger_index", "ledger_root"];
        match previous.map(|previous| expected.hash(previous)) {
            Some(Ok(row_hash)) => columns.push(("row_hash", blob(row_hash))),
            Some(Err(_)) => return self.finding("policy_activations", name, "cannot be read"),
            // The hash cannot be computed if the previous row has none.
            None => elsewhere.push("row_hash"),
        }
        if let Some(columns) = row.differences(&columns, &elsewhere) {
            let what = format!("{columns} do not match the rest of the row and the previous row");
            self.finding("policy_activations", name, what);
        }
    }
}

/// A bundle as stored, without files whose names are not text.
pub(super) async fn stored(snapshot: &mut Snapshot, bundle_hash: Hex32) -> Result<StoredBundle, Stop> {
    let rows = snapshot.rows(STORED, &[blob(bundle_hash)]).await?;
    let bundle_id = rows.first().and_then(|row| row.text("bundle_id")).unwrap_or_default().to_owned();
    let file = |row: &Row| Some((row.text("name")?.to_owned(), row.bytes("bytes")?.to_owned()));
    Ok(StoredBundle { bundle_hash, bundle_id, files: rows.iter().filter_map(file).collect() })
}

fn bundle_row_hash(bundle: &Row, files: &[Row]) -> Option<Hex32> {
    let listed = files.iter().map(|file| Some((file.text("name")?, file.hash("row_hash")?)));
    let listed: Vec<_> = listed.collect::<Option<_>>()?;
    rows_hash(bundle.hash("bundle_hash")?, bundle.text("bundle_id")?, &listed).ok()
}

fn file_row_hash(file: &Row, bytes: Option<&[u8]>) -> Option<Hex32> {
    file_hash(file.hash("bundle_hash")?, file.text("name")?, bytes?).ok()
}
