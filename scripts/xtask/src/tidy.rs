//! `tidy`: what no compiler looks at.

mod bans;
mod functions;
mod places;
mod sizes;
mod source;
mod text;
mod threats;
mod words;

use crate::error::Error;
use crate::finding::Finding;
use crate::tree;

pub(crate) fn check() -> Result<Vec<Finding>, Error> {
    let mut found = bans::check()?;
    let files = tree::text_files()?;
    found.extend(threats::check(&files));
    for file in files.iter().filter(|file| !file.is_generated()) {
        found.extend(text::check(file));
        found.extend(words::check_text(file));
        found.extend(places::check(file));
        if file.is_rust() {
            let code = source::code_only(&file.text);
            found.extend(words::check_code(file, &code));
            found.extend(sizes::check(file, &code));
        }
    }
    Ok(found)
}
