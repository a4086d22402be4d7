//! Which people who approved fill the roles that a rule requires.

use gateway_policy_sdk::{Approval, Group};

/// A group for each role, with those who fill it. Unless `shared`, every person fills one role, and a person with several roles is
/// assigned the one that leaves the fewest roles unfilled.
pub(crate) fn seated(asked: &[(String, u32)], people: &[&Approval], shared: bool) -> Vec<Group> {
    let mut seating: Vec<Option<&str>> = people.iter().map(|_| None).collect();
    if !shared {
        let seats = asked.iter().flat_map(|(role, n_people)| (0..*n_people).map(move |_| role.as_str()));
        for role in seats {
            seat(role, people, &mut seating, &mut people.iter().map(|_| false).collect());
        }
    }
    let sits = |person: &Approval, sits_as: &Option<&str>, role: &str| match shared {
        true => fills(person, role),
        false => *sits_as == Some(role),
    };
    let group = |(role, needed): &(String, u32)| {
        let have = people.iter().zip(&seating).filter(|(person, sits_as)| sits(person, sits_as, role));
        let have = have.map(|(person, _)| person.by.subject_id.clone()).collect();
        Group { name: role.clone(), needed: *needed, have }
    };
    asked.iter().map(group).collect()
}

/// Assigns a person to the role, moving others to other roles if needed: an augmenting path of a bipartite matching.
fn seat<'a>(
    role: &'a str,
    people: &[&Approval],
    seating: &mut Vec<Option<&'a str>>,
    asked_before: &mut Vec<bool>,
) -> bool {
    for (nth, person) in people.iter().enumerate() {
        let Some(asked) = asked_before.get_mut(nth).filter(|asked| !**asked) else { continue };
        if !fills(person, role) {
            continue;
        }
        *asked = true;
        let sits_as = seating.get(nth).copied().flatten();
        if sits_as.is_none_or(|other| seat(other, people, seating, asked_before)) {
            if let Some(place) = seating.get_mut(nth) {
                *place = Some(role);
            }
            return true;
        }
    }
    false
}

fn fills(person: &Approval, role: &str) -> bool {
    person.by.roles.iter().any(|own| own == role)
}
