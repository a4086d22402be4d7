//! What the bundle brings besides its code.

/// The signed files under the bundle's `data/`. The gateway parses them once and looks values up itself, so that a policy
/// needs no JSON parser. Lookups are not recorded with a decision: the bundle's hash pins every file.
pub trait Data {
    /// The value at a JSON pointer (RFC 6901) in `data/<file>`: a string as its text, anything else as JSON without white
    /// space, members sorted by name. None when there is no such file or no such value. `""` is the whole document.
    fn get(&self, file: &str, pointer: &str) -> Option<String>;

    /// A whole number, or none when there is no such value.
    ///
    /// # Errors
    /// [`UnreadableData`] when there is a value and it is not a whole number of 64 bits. Deny then: guessing is not safe.
    fn integer(&self, file: &str, pointer: &str) -> Result<Option<i64>, UnreadableData> {
        read(file, pointer, self.get(file, pointer), |value| value.parse().ok())
    }

    /// `true` or `false`, or none when there is no such value.
    ///
    /// # Errors
    /// [`UnreadableData`] when there is a value and it is neither. Deny then: guessing is not safe.
    fn flag(&self, file: &str, pointer: &str) -> Result<Option<bool>, UnreadableData> {
        read(file, pointer, self.get(file, pointer), |value| match value {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        })
    }

    /// The items of a list, or none when there is no such value.
    ///
    /// # Errors
    /// [`UnreadableData`] when there is a value and it is not a list.
    fn list(&self, file: &str, pointer: &str) -> Result<Option<Vec<String>>, UnreadableData> {
        let value = self.get(file, pointer);
        let nth = |n: usize| self.get(file, &[pointer, "/", &n.to_string()].concat());
        read(file, pointer, value, |text| text.starts_with('[').then(|| (0..).map_while(nth).collect()))
    }
}

/// A name as one step of a JSON pointer: `/` and `~` are written `~1` and `~0`.
#[must_use]
pub fn step(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

fn read<T>(
    file: &str,
    pointer: &str,
    value: Option<String>,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Result<Option<T>, UnreadableData> {
    match value {
        None => Ok(None),
        Some(value) => match parse(&value) {
            Some(parsed) => Ok(Some(parsed)),
            None => Err(UnreadableData { file: file.into(), pointer: pointer.into(), value }),
        },
    }
}

/// A value that is not what its place promises.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadableData {
    /// The file, below `data/`.
    pub file: String,
    /// Where in it.
    pub pointer: String,
    /// What is there.
    pub value: String,
}
