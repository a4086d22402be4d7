//! The schemas of values that are written as one text, number or list, for the OpenAPI document.

use crate::ed25519::Signature;
use crate::ids::{EpochName, Hex32, KeyId, KeyRef, OperationId, Tenant};
use crate::roster::{
    PARTICIPANT_INDEX_MAX, PARTICIPANTS_MAX, ParticipantIndex, Roster, THRESHOLD_MIN, Threshold,
};
use crate::time::EpochMs;
use std::borrow::Cow;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{Array, KnownFormat, Object, ObjectBuilder, Schema, SchemaFormat, Type};
use utoipa::{PartialSchema, ToSchema};

macro_rules! schemas {
    ($($type:ty as $name:literal: $schema:expr;)*) => {
        $(
            impl PartialSchema for $type {
                fn schema() -> RefOr<Schema> {
                    $schema.into()
                }
            }

            impl ToSchema for $type {
                fn name() -> Cow<'static, str> {
                    Cow::Borrowed($name)
                }
            }
        )*
    };
}

schemas! {
    Hex32 as "Hex32": hex(64);
    Signature as "Hex64": hex(128);
    OperationId as "OperationId": hex(64);
    KeyId as "KeyId": hex(64);
    Tenant as "Tenant": Object::with_type(Type::String);
    KeyRef as "KeyRef": Object::with_type(Type::String);
    EpochName as "EpochName": Object::with_type(Type::String);
    EpochMs as "EpochMs": u64::schema();
    ParticipantIndex as "ParticipantIndex": u16::schema();
    Roster as "Roster": roster();
    Threshold as "Threshold": threshold();
}

/// The names of the schemas that the document has in each place, not by reference.
pub const INLINE: [&str; 11] = [
    "Hex32",
    "Hex64",
    "OperationId",
    "KeyId",
    "Tenant",
    "KeyRef",
    "EpochName",
    "EpochMs",
    "ParticipantIndex",
    "Roster",
    "Threshold",
];

fn hex(n_characters: usize) -> ObjectBuilder {
    let pattern = format!("^[0-9a-f]{{{n_characters}}}$");
    Object::builder().schema_type(Type::String).pattern(Some(pattern))
}

/// A text that is one of these words.
pub fn words(description: &str, words: impl IntoIterator<Item = &'static str>) -> RefOr<Schema> {
    let text = Object::builder().schema_type(Type::String).description(Some(description));
    text.enum_values(Some(words)).into()
}

/// A list that [`Roster::parse`] accepts.
fn roster() -> Array {
    let index = Object::builder()
        .schema_type(Type::Integer)
        .minimum(Some(0))
        .maximum(Some(PARTICIPANT_INDEX_MAX))
        .description(Some("0-based"));
    Array::builder()
        .items(index)
        .min_items(Some(usize::from(THRESHOLD_MIN)))
        .max_items(Some(PARTICIPANTS_MAX))
        .unique_items(true)
        .description(Some("each once"))
        .build()
}

fn threshold() -> ObjectBuilder {
    Object::builder()
        .schema_type(Type::Integer)
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int32)))
        .minimum(Some(THRESHOLD_MIN))
        .maximum(u16::try_from(PARTICIPANTS_MAX).ok())
}
