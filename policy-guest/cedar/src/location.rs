//! Names places in the bundle's files, so that an author finds what to correct.

use miette::Diagnostic;

/// `data/FILE:LINE:COLUMN` of a byte offset in the file's text. Lines and columns count from 1, columns in characters.
pub(crate) fn place(file: &str, text: &str, offset: usize) -> String {
    let before = text.get(..offset).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    format!("data/{file}:{line}:{column}")
}

/// The fault after its place: `data/FILE:LINE:COLUMN: MESSAGE`, with what Cedar expected there and its advice.
pub(crate) fn located(file: &str, text: &str, fault: &dyn Diagnostic) -> String {
    let label = fault.labels().and_then(|mut labels| labels.next());
    let place = match &label {
        Some(label) => place(file, text, label.offset()),
        None => format!("data/{file}"),
    };
    let expected = label.as_ref().and_then(|label| label.label()).map(str::to_owned);
    let advice = fault.help().map(|help| help.to_string());
    let more = expected.into_iter().chain(advice).map(|more| format!("; {more}"));
    format!("{place}: {fault}{}", more.collect::<String>())
}
