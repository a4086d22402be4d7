//! Bundles and activations.

use crate::change::ActivationWrite;
use crate::database::Pool;
use crate::record::decode;
use crate::record::encode::policies as encode;
use crate::sql::row::{Row, blob};
use crate::store::Store;
use async_trait::async_trait;
use gateway_domain::ids::Hex32;
use gateway_engine::Unavailable;
use gateway_engine::ports::{Activated, Activation, StorePolicies, StoredBundle};

const ACTIVATIONS: &str = "SELECT at_ms, sequence, bundle_hash, kind, signers, reason FROM policy_activations
    ORDER BY sequence DESC LIMIT $1";
const FILES: &str =
    "SELECT bundle_id, name, bytes FROM policy_bundles JOIN policy_bundle_files USING (bundle_hash)
    WHERE bundle_hash = $1 ORDER BY name";
const FILE: &str = "SELECT bytes FROM policy_bundle_files WHERE bundle_hash = $1 AND name = $2";

#[async_trait]
impl StorePolicies for Store {
    async fn activation_append(
        &self,
        activation: Activation,
        bundle: StoredBundle,
    ) -> Result<Activated, Unavailable> {
        let (activation, bundle) = (encode::activation(&activation)?, encode::bundle(bundle)?);
        let write = ActivationWrite { activation, bundle };
        self.database.write(write, "a policy activation could not be written").await
    }

    async fn activations(&self, n_max: u32) -> Result<Vec<Activation>, Unavailable> {
        let rows = self
            .database
            .pool()
            .rows(ACTIVATIONS, &[i64::from(n_max).into()], "the policy activations could not be read")
            .await?;
        rows.iter().map(decode::activation).collect()
    }

    async fn bundle_load(&self, bundle_hash: Hex32) -> Result<Option<StoredBundle>, Unavailable> {
        bundle(self.database.pool(), bundle_hash).await
    }

    async fn bundle_file(&self, bundle_hash: Hex32, name: &str) -> Result<Option<Vec<u8>>, Unavailable> {
        let rows = self
            .database
            .pool()
            .rows(
                FILE,
                &[blob(bundle_hash), name.into()],
                format!("bundle `{bundle_hash}` could not be read"),
            )
            .await?;
        Ok(rows.first().and_then(|row| row.bytes("bytes")).map(<[u8]>::to_vec))
    }
}

/// The files of a bundle that was active once, including its signatures.
pub(crate) async fn bundle(pool: &Pool, bundle_hash: Hex32) -> Result<Option<StoredBundle>, Unavailable> {
    let rows =
        pool.rows(FILES, &[blob(bundle_hash)], format!("bundle `{bundle_hash}` could not be read")).await?;
    let Some(first) = rows.first() else { return Ok(None) };
    let what = format!("a file of bundle `{bundle_hash}`");
    let bundle_id = decode::text(&what, first, "bundle_id")?.to_owned();
    let file = |row: &Row| {
        Ok((decode::text(&what, row, "name")?.to_owned(), decode::bytes(&what, row, "bytes")?.to_vec()))
    };
    let files = rows.iter().map(file).collect::<Result<_, _>>()?;
    Ok(Some(StoredBundle { bundle_hash, bundle_id, files }))
}
