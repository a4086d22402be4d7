//! Finds the faults of a body: after each one, the faulty value is replaced by a valid one, and the body is read again.

use super::parse::parse;
use super::read::{Reading, read};
use super::{Fault, Json};
use serde::de::DeserializeOwned;

/// Most faults that are reported.
const FAULTS_MAX: usize = 16;

/// Reads a body, and checks what was read. `example` is a valid body, as JSON, and is used only when there is a fault.
///
/// # Errors
/// Every [`Fault`] that can be found at once, at most 16. Only the first one when it is of the whole body: it is missing or not
/// JSON, has a member twice, or is nested deeper than [`super::DEPTH_MAX`].
pub fn read_checked<T: DeserializeOwned, C>(
    body: &[u8],
    example: impl FnOnce() -> Vec<u8>,
    check: impl Fn(&Reading<T>) -> Result<C, Fault>,
) -> Result<(Reading<T>, C), Vec<Fault>> {
    let json = parse(body).map_err(|fault| vec![fault])?;
    let read_and_check = |json: &Json| {
        let reading = read(json)?;
        let checked = check(&reading)?;
        Ok((reading, checked))
    };
    read_and_check(&json).map_err(|first| {
        let example = parse(&example()).unwrap_or(Json::Null);
        all_faults(json, &example, first, |json| read_and_check(json).err())
    })
}

fn all_faults(
    mut body: Json,
    example: &Json,
    first: Fault,
    next: impl Fn(&Json) -> Option<Fault>,
) -> Vec<Fault> {
    let (mut faults, mut replaced) = (Vec::new(), Vec::<String>::new());
    let mut found = Some(first);
    while let Some(fault) = found.take() {
        let was_replaced = |pointer: &str| replaced.iter().any(|other| overlap(other, pointer));
        let is_consequence = fault.compared_with.as_deref().is_some_and(was_replaced);
        let is_repeated = was_replaced(&fault.pointer);
        let wrong = match &fault.compared_with {
            _ if !is_repeated => fault.pointer.clone(),
            // The example's value does not fit the body's other one.
            Some(other) if !is_consequence => other.clone(),
            Some(_) | None => break,
        };
        replace(&mut body, example, &mut segments(&wrong));
        replaced.push(wrong);
        faults.extend((!is_repeated && !is_consequence).then_some(fault));
        if faults.len() < FAULTS_MAX {
            found = next(&body);
        }
    }
    faults
}

/// Whether the pointers are equal, or one is to a value within the other's.
fn overlap(one: &str, other: &str) -> bool {
    let is_within = |inner: &str, outer: &str| {
        inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    is_within(one, other) || is_within(other, one)
}

/// The member names of a JSON pointer.
fn segments(pointer: &str) -> impl Iterator<Item = String> {
    pointer.split('/').skip(1).map(|segment| segment.replace("~1", "/").replace("~0", "~"))
}

/// Replaces the value at a pointer by that of the example, in an array the whole array. Removes a member that the example does
/// not have, and adds one that the body does not have.
fn replace(value: &mut Json, example: &Json, segments: &mut dyn Iterator<Item = String>) {
    match (value, example, segments.next()) {
        (Json::Object(members), Json::Object(examples), Some(name)) => {
            let valid = examples.iter().find(|(other, _)| *other == name).map(|(_, valid)| valid);
            let position = members.iter().position(|(other, _)| *other == name);
            match (position, valid) {
                (Some(index), None) => drop(members.remove(index)),
                (Some(index), Some(valid)) => {
                    if let Some((_, member)) = members.get_mut(index) {
                        replace(member, valid, segments);
                    }
                }
                (None, valid) => members.extend(valid.map(|valid| (name, valid.clone()))),
            }
        }
        (value, example, _) => *value = example.clone(),
    }
}
