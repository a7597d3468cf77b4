//! Words of a file's column that mean something to this version, each a variant, and any other word kept as it is.

/// Declares an enum of words, each variant with its word, and after `or` those that older schemas had for it.
macro_rules! words {
    (
        $(#[$attribute:meta])*
        pub enum $name:ident {
            $($(#[$meaning:meta])+ $variant:ident = $word:literal $(or $old:literal)*,)+
        }
    ) => {
        $(#[$attribute])*
        #[derive(Clone, PartialEq, Eq, Hash, Debug)]
        pub enum $name {
            $($(#[$meaning])+ $variant,)+
            /// A word that this version does not know.
            Other(String),
        }

        impl $name {
            /// Every word that this version knows.
            pub const KNOWN: &[&str] = &[$($word),+];

            /// The word in files and results.
            pub fn name(&self) -> &str {
                match self {
                    $(Self::$variant => $word,)+
                    Self::Other(word) => word,
                }
            }
        }

        /// Reads a word of a file; in code a variant is named, so that a typo does not compile.
        impl std::str::FromStr for $name {
            type Err = std::convert::Infallible;
            fn from_str(word: &str) -> std::result::Result<Self, Self::Err> {
                Ok(match word {
                    $($word $(| $old)* => Self::$variant,)+
                    other => Self::Other(other.into()),
                })
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }

        impl PartialEq<str> for $name {
            fn eq(&self, word: &str) -> bool {
                self.name() == word
            }
        }

        impl PartialEq<&str> for $name {
            fn eq(&self, word: &&str) -> bool {
                self.name() == *word
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::Other(String::new())
            }
        }

        $crate::table::named_values!($name);
    };
}
pub(crate) use words;
