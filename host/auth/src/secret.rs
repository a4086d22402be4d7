//! The client secret of this gateway at the identity provider.

use crate::limits::SECRET_BYTES_MAX;
use std::fmt;
use zeroize::Zeroizing;

/// A secret that is overwritten when dropped, and that `Debug` does not show.
pub struct ClientSecret(Zeroizing<String>);

impl ClientSecret {
    /// A secret of one line, without its line ending.
    ///
    /// # Errors
    /// The rule that the text breaks.
    pub fn parse(text: &Zeroizing<String>) -> Result<Self, &'static str> {
        let line = text.strip_suffix('\n').unwrap_or(text);
        let line = line.strip_suffix('\r').unwrap_or(line);
        let is_one_line = !line.is_empty() && !line.contains(char::is_control);
        if !is_one_line || line.len() > SECRET_BYTES_MAX {
            return Err("must be one line of 1 to 1024 bytes");
        }
        Ok(Self(Zeroizing::new(line.to_owned())))
    }

    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ClientSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientSecret(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_one_line_and_never_shown() {
        let parse = |text: &str| ClientSecret::parse(&Zeroizing::new(text.to_owned()));
        for good in ["s3cret", "s3cret\n", "s3cret\r\n"] {
            assert_eq!(parse(good).unwrap().expose(), "s3cret");
        }
        for wrong in ["", "\n", "a\nb", "a\n\n", &"x".repeat(1025)] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
        assert!(!format!("{:?}", parse("s3cret")).contains("s3cret"));
    }
}
