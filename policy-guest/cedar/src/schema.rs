//! The schema: the guest's fixed part, and the bundle's `data/schema.cedarschema` with the types of facts, public fields, attributes and
//! documents.

use crate::documents::Documents;
use crate::location::located;
use cedar_policy::{RestrictedExpression as Value, Schema, SchemaFragment};
use gateway_policy_sdk::Data;
use serde::Deserialize;
use std::collections::BTreeMap;

pub(crate) const FILE: &str = "schema.cedarschema";

const FIXED: &str = include_str!("fixed.cedarschema");

/// The types that a bundle defines and the fixed part uses: of the facts, of an asset action's public fields, of people's attributes,
/// and of the documents. A type that the bundle does not define is empty.
#[derive(Debug, Default)]
pub(crate) struct Types {
    pub(crate) facts: BTreeMap<String, Member>,
    pub(crate) fields: BTreeMap<String, Member>,
    pub(crate) attributes: BTreeMap<String, Member>,
    pub(crate) documents: Documents,
}

/// A member of such a type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member {
    kind: Kind,
    pub(crate) required: bool,
}

/// The types that a text can be read as.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// A signed 64-bit decimal number.
    Long,
    /// `true` or `false`.
    Bool,
    /// The text unchanged.
    String,
    /// A decimal number with one to four places.
    Decimal,
    /// Milliseconds since 1970-01-01, as a decimal number.
    Datetime,
    /// `Set<String>`: comma-separated texts without surrounding white space; empty ones are dropped.
    Set,
}

/// The schema of all policies of this bundle.
///
/// # Errors
/// What is wrong with the bundle's part, with its place.
pub(crate) fn read(data: &dyn Data) -> Result<(Schema, Types), String> {
    let text = data.get(FILE, "").unwrap_or_default();
    let (own, _) =
        SchemaFragment::from_cedarschema_str(&text).map_err(|fault| located(FILE, &text, &fault))?;
    let declared = own.to_json_string().map_err(|fault| located(FILE, &text, &fault))?;
    let mut declared: Namespaces =
        serde_json::from_str(&declared).map_err(|fault| format!("data/{FILE}: {fault}"))?;
    let common = declared.remove("").map(|own| own.common_types).unwrap_or_default();
    let defined = |name: &str| common.get(name);

    let mut fixed = FIXED.to_owned();
    for name in
        ["Facts", "Fields", "Attributes", "Documents"].into_iter().filter(|name| defined(name).is_none())
    {
        fixed.push_str(&format!("type {name} = {{}};\n"));
    }
    let (fixed, _) =
        SchemaFragment::from_cedarschema_str(&fixed).map_err(|fault| format!("the fixed schema: {fault}"))?;
    let schema = Schema::from_schema_fragments([fixed, own]).map_err(|fault| located(FILE, &text, &fault))?;
    let members = |name| defined(name).map_or_else(|| Ok(BTreeMap::new()), |record| members(name, record));
    let types = Types {
        facts: members("Facts")?,
        fields: members("Fields")?,
        attributes: members("Attributes")?,
        documents: Documents::declared(&common, &schema)?,
    };
    Ok((schema, types))
}

/// Cedar's JSON form of a schema, as far as it is read here: namespaces by name.
type Namespaces = BTreeMap<String, Namespace>;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Namespace {
    #[serde(default)]
    common_types: BTreeMap<String, Type>,
}

#[derive(Deserialize)]
pub(crate) struct Type {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    #[serde(default)]
    pub(crate) name: String,
    pub(crate) element: Option<Box<Type>>,
    #[serde(default)]
    pub(crate) attributes: BTreeMap<String, Attribute>,
}

#[derive(Deserialize)]
pub(crate) struct Attribute {
    #[serde(flatten)]
    pub(crate) of: Type,
    #[serde(default = "yes")]
    pub(crate) required: bool,
}

const fn yes() -> bool {
    true
}

fn members(name: &str, record: &Type) -> Result<BTreeMap<String, Member>, String> {
    if record.kind != "Record" {
        return Err(format!("data/{FILE}: type `{name}` is not a record"));
    }
    let read = |(member, attribute): (&String, &Attribute)| match Kind::of(&attribute.of) {
        Some(kind) => Ok((member.clone(), Member { kind, required: attribute.required })),
        None => Err(format!(
            "data/{FILE}: `{member}` of type `{name}` has a type that a text cannot be read as; use Long, Bool, \
             String, decimal, datetime or Set<String>"
        )),
    };
    record.attributes.iter().map(read).collect()
}

impl Kind {
    fn of(declared: &Type) -> Option<Self> {
        match (declared.kind.as_str(), declared.name.as_str()) {
            ("EntityOrCommon", "Long") => Some(Self::Long),
            ("EntityOrCommon", "Bool") => Some(Self::Bool),
            ("EntityOrCommon", "String") => Some(Self::String),
            ("EntityOrCommon", "decimal") => Some(Self::Decimal),
            ("EntityOrCommon", "datetime") => Some(Self::Datetime),
            ("Set", _) => {
                let element = declared.element.as_deref().and_then(Self::of)?;
                matches!(element, Self::String).then_some(Self::Set)
            }
            _ => None,
        }
    }
}

impl Member {
    /// The text as a value of this type; `None` if it is not of this type.
    pub(crate) fn read(self, text: &str) -> Option<Value> {
        Some(match self.kind {
            Kind::Long => Value::new_long(text.parse().ok()?),
            Kind::Bool => Value::new_bool(text.parse().ok()?),
            Kind::String => Value::new_string(text.to_owned()),
            Kind::Decimal => Value::new_decimal(text),
            Kind::Datetime => Value::new_datetime(instant(text.parse().ok()?)?),
            Kind::Set => {
                let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
                Value::new_set(items.map(|item| Value::new_string(item.to_owned())))
            }
        })
    }

    /// A text of this type, to evaluate once before the first request.
    pub(crate) const fn sample(self) -> &'static str {
        match self.kind {
            Kind::Long | Kind::Datetime => "1",
            Kind::Bool => "true",
            Kind::String | Kind::Set => "sample",
            Kind::Decimal => "1.0",
        }
    }
}

/// Milliseconds since 1970-01-01 as Cedar writes an instant: `2026-01-31T23:59:59.999Z`. `None` for a year beyond 0 to 9999.
///
/// The date is computed as in Howard Hinnant's `civil_from_days`, in eras of 400 years that begin on 1 March.
fn instant(ms: i64) -> Option<String> {
    let (days, ms_of_day) = (ms.div_euclid(86_400_000), ms.rem_euclid(86_400_000));
    let days = days.checked_add(719_468)?;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    if !(0..=9999).contains(&year) {
        return None;
    }
    let (hour, minute) = (ms_of_day / 3_600_000, ms_of_day / 60_000 % 60);
    let (second, fraction) = (ms_of_day / 1_000 % 60, ms_of_day % 1_000);
    Some(format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{fraction:03}Z"))
}

#[cfg(test)]
mod tests {
    use super::instant;

    #[test]
    fn milliseconds_are_written_as_an_instant() {
        let cases = [
            (0, "1970-01-01T00:00:00.000Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_709_251_199_999, "2024-02-29T23:59:59.999Z"),
            (1_772_323_200_000, "2026-03-01T00:00:00.000Z"),
            (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
        ];
        for (ms, expected) in cases {
            assert_eq!(instant(ms).as_deref(), Some(expected));
        }
        assert_eq!((instant(253_402_300_800_000), instant(i64::MAX)), (None, None));
    }
}
