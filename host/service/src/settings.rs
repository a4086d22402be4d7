//! The settings of a process. A flag wins over the environment, the environment over the file, the file over the default.
//!
//! [`settings!`](crate::settings!) states each setting of an area once, and gives the rows of a [`Section`], a type with the values, and
//! the function that reads them. A process's [`Table`] lists the sections. `--help`, the environment, the file and the [`Reader`] use
//! these rows. A fault is one line. Faults are reported together, first those of names, then those of values.

pub mod process;
mod reader;
pub mod rules;
mod sources;
mod table;

pub use reader::{Reader, days, number, one_of};
pub use sources::{Flags, ProcessSettings, Resolved, Secret, Source, resolve};
pub use table::{MILLISECONDS_MAX, Section, Setting, Table};

/// States the settings of one area: for each a help text, the name, the default and the unit, and, if the area's type has a field
/// for it, the field and the function that reads it by its name.
///
/// ```
/// use gateway_service::settings::{Reader, number};
/// use std::time::Duration;
///
/// gateway_service::settings! {
///     /// How work is done.
///     pub struct Work("work", "Work") {
///         /// Workers at the same time
///         workers = "4", "WORKERS" => n_workers: u32 = number(1..=64);
///         /// How long a worker may take
///         work_within_ms = "1000", "MILLISECONDS" => within: Duration = Reader::duration;
///     }
/// }
/// ```
#[macro_export]
macro_rules! settings {
    (
        $(#[$meta:meta])*
        pub struct $area:ident($section:literal, $heading:literal) {
            $(
                $(#[doc = $help:literal])+
                $name:ident = $default:literal, $unit:literal $(=> $field:ident: $value:ty = $read:expr)?;
            )+
        }
    ) => {
        $(#[$meta])*
        #[expect(missing_docs, reason = "the help text of each setting describes it")]
        pub struct $area {
            $($(pub $field: $value,)?)+
        }

        impl $area {
            /// The rows.
            pub const SECTION: $crate::settings::Section = $crate::settings::Section {
                name: $section,
                heading: $heading,
                settings: &[$($crate::settings::Setting {
                    name: stringify!($name),
                    default: $default,
                    unit: $unit,
                    help: concat!($($help),+).trim_ascii(),
                }),+],
            };

            /// Reads the values.
            pub fn read(reader: &mut $crate::settings::Reader<'_>) -> Self {
                Self { $($($field: ($read)(reader, stringify!($name)),)?)+ }
            }
        }
    };
}
