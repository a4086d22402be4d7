//! Whether the people who approved fill the roles that a rule requires.

use gateway_policy_sdk::Approval;

/// The roles that still need people, each as many times as people are missing. Unless `shared`, every person fills one role,
/// and a person with several roles is assigned the one that leaves the fewest roles unfilled.
pub(crate) fn unfilled<'a>(asked: &'a [(String, u32)], people: &[&Approval], shared: bool) -> Vec<&'a str> {
    let seats = asked.iter().flat_map(|(role, n_people)| (0..*n_people).map(move |nth| (role.as_str(), nth)));
    if shared {
        let has = |role: &str, nth: u32| {
            people.iter().filter(|person| fills(person, role)).nth(nth as usize).is_some()
        };
        return seats.filter(|(role, nth)| !has(role, *nth)).map(|(role, _)| role).collect();
    }
    let mut seating: Vec<Option<&str>> = people.iter().map(|_| None).collect();
    seats
        .filter(|(role, _)| !seat(role, people, &mut seating, &mut people.iter().map(|_| false).collect()))
        .map(|(role, _)| role)
        .collect()
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
    person.roles.iter().any(|own| own == role)
}
