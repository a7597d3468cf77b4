//! What a method's interval is worth, by who vouches for it.

use serde::Serialize;

/// The kind of a method's bound. In the public JSON a name keeps what it was: there the return trip of ids that come
/// back is `published`, too.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RivalBound {
    /// It holds while the rate stays within rho.
    Guaranteed,
    /// The method's authors state it.
    Published,
    /// Between two stamps of one node.
    #[serde(rename = "published")]
    OfOneNode,
    /// A published method that we corrected.
    Corrected,
    /// As the program says of itself.
    Stated,
    /// It has none.
    None,
}

impl RivalBound {
    /// It in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Guaranteed => "guaranteed",
            Self::Published => "published",
            Self::OfOneNode => "of one node",
            Self::Corrected => "corrected",
            Self::Stated => "stated",
            Self::None => "none",
        }
    }
}
