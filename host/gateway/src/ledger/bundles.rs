//! The files of every kept bundle make its hash. Whether its signatures are trusted is no subject here: who signs changes
//! with time, and each start verifies them.

use gateway_engine::Unavailable;
use gateway_engine::ports::StoredBundle;
use gateway_policy::BundleFiles;
use gateway_policy::bundle::{BundleError, MANIFEST_FILE, Manifest};
use gateway_store::{Finding, Fsck};

/// Tells what is wrong with kept bundles.
pub(super) async fn check(
    fsck: &mut Fsck,
    found: &mut (dyn FnMut(Finding) + Send),
) -> Result<(), Unavailable> {
    for hash in fsck.bundle_hashes().await? {
        let bundle = fsck.bundle(hash).await?;
        let row = format!("bundle_hash {hash}");
        let finding = |table: &str, what| Finding { table: table.to_owned(), row: row.clone(), what };
        let bundle_id = bundle.bundle_id.clone();
        match read(bundle) {
            Err(error) => found(finding("policy_bundle_files", error.to_string())),
            Ok((manifest, is_hash)) => {
                if !is_hash {
                    found(finding("policy_bundle_files", "its files have another hash".to_owned()));
                }
                if manifest.bundle_id != bundle_id {
                    found(finding("policy_bundles", "`bundle_id` is not the manifest's".to_owned()));
                }
            }
        }
    }
    Ok(())
}

/// The manifest, which lists exactly the files that are there, and whether it is the one that was kept.
fn read(bundle: StoredBundle) -> Result<(Manifest, bool), BundleError> {
    let files = BundleFiles::new(bundle.files)?;
    files.check_listed()?;
    let manifest = Manifest::parse(files.get(MANIFEST_FILE)?)?;
    let is_hash = manifest.hash()? == bundle.bundle_hash;
    Ok((manifest, is_hash))
}
