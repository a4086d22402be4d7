//! Enums that have words.

/// An enum whose variants have words, by `as_str`. `ALL` has every variant, in order.
#[macro_export]
macro_rules! words {
    (
        $(#[$meta:meta])*
        $visibility:vis enum $name:ident { $($(#[$about:meta])* $variant:ident = $word:tt,)+ }
    ) => {
        $(#[$meta])*
        $visibility enum $name { $($(#[$about])* $variant,)+ }

        impl $name {
            /// Every one, in order.
            $visibility const ALL: [Self; [$($word),+].len()] = [$(Self::$variant),+];

            /// The word.
            #[must_use]
            $visibility const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }
        }
    };
}

/// As [`words!`](crate::words!), for an enum that is serialized: with the same words.
// A word is a `tt`, since derive macros do not read the groups that a `literal` becomes.
#[macro_export]
macro_rules! wire_words {
    (
        $(#[$meta:meta])*
        $visibility:vis enum $name:ident { $($(#[$about:meta])* $variant:ident = $word:tt,)+ }
    ) => {
        $crate::words! {
            $(#[$meta])*
            $visibility enum $name { $($(#[$about])* #[serde(rename = $word)] $variant = $word,)+ }
        }
    };
}
