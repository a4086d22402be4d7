//! The progress of a published result on an external rail.

use super::{ClientBinding, RequestShape, not_empty};
use crate::state::Options;
use gateway_domain::ids::Hex32;
use gateway_domain::operation::{ExportState, ExternalExport};
use gateway_engine::Export;
use gateway_service::strict::Fault;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Body of `POST .../external-export`.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct CustodyExternalExportRequest {
    /// The operation's publication receipt, which must match.
    pub publication_receipt: String,
    /// The external rail.
    #[schema(min_length = 1)]
    pub rail: String,
    /// The caller's reference for this step.
    pub export_ref: Hex32,
    /// The state, which only goes forward.
    pub state: ExportState,
    /// The rail's id of the transfer.
    #[schema(min_length = 1)]
    pub external_id: String,
    /// The caller's clock, epoch milliseconds; not verified.
    pub exported_at_ms: i64,
    /// The caller.
    pub client: Option<ClientBinding>,
}

impl RequestShape for CustodyExternalExportRequest {
    type Checked = Export;

    fn client(&self) -> Option<&ClientBinding> {
        self.client.as_ref()
    }

    fn check(&self, _: &Options) -> Result<Export, Fault> {
        let export = ExternalExport {
            rail: not_empty("/rail", &self.rail)?,
            export_ref: self.export_ref,
            state: self.state,
            external_id: not_empty("/external_id", &self.external_id)?,
            exported_at_ms: self.exported_at_ms,
        };
        Ok(Export { publication_receipt: self.publication_receipt.clone(), export, requester: None })
    }
}
