//! Enums whose variants have a fixed text on the wire.

/// Declares an enum with its wire texts: `as_str`, `Display`, `FromStr` and the list of all variants.
///
/// The texts are the contract with upstream and with users' scripts, so they stand beside the variants and
/// nowhere else.
macro_rules! wire_enum {
    (
        $(#[$meta:meta])*
        pub enum $name:ident { $( $(#[$vmeta:meta])* $variant:ident = $text:literal, )+ }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $( $(#[$vmeta])* $variant, )+ }

        impl $name {
            /// Every variant, in declaration order.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The text on the wire.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::condition::UnknownText;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Self::ALL
                    .iter()
                    .copied()
                    .find(|known| known.as_str() == text)
                    .ok_or_else(|| $crate::condition::UnknownText { kind: stringify!($name), text: text.to_owned() })
            }
        }
    };
}

pub(crate) use wire_enum;
