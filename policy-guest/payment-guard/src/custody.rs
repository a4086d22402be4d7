//! Custody rules from `data/custody.json`. Anything that is not listed is denied; a missing list counts as empty.

use crate::document::{Entry, Read, at, entry, members};
use crate::rule::Rule;
use gateway_policy_sdk::{Answer, AssetAction, Data, KeyChange, step};

const FILE: &str = "custody.json";
const LISTS: [&str; 3] = ["chains", "assets", "key_operations"];

/// Matches every chain, asset or action that is not listed by name.
const ANY: &str = "*";

/// Evaluates a custody signature. Returns the quorum rule of the asset's action, or the default rule if it is denied.
pub(crate) fn asset_action(action: &AssetAction, data: &dyn Data, answer: &mut Answer) -> Read<Rule> {
    let AssetAction { chain_id, asset_id, action: name, .. } = action;
    let is_chain_permitted = named_or_any(data, "chains", chain_id)?.is_some();
    if !is_chain_permitted {
        deny(answer, "chain_not_permitted", "chain", "chains", chain_id);
    }
    let rule = match named_or_any(data, "assets", asset_id)? {
        Some(actions) => action_rule(action, &actions)?,
        None => None,
    };
    let Some(rule) = rule else {
        deny(answer, "action_not_permitted", "action", "assets", &[asset_id, "/", name].concat());
        return Ok(Rule::default());
    };
    if is_chain_permitted {
        answer.because("custody_intent_permitted", &[("action", name)]);
    }
    Ok(rule)
}

/// The entry of `name`, or else that of `*`. The gateway looks them up, so a match does not parse the rest of the file.
fn named_or_any(data: &dyn Data, list: &str, name: &str) -> Read<Option<String>> {
    let found = |name: &str| data.get(FILE, &["/", list, "/", &step(name)].concat());
    match found(name) {
        None => found(ANY).map_or_else(|| listed(data, list, name), |any| Ok(Some(any))),
        Some(_) => listed(data, list, name),
    }
}

fn listed(data: &dyn Data, list: &str, name: &str) -> Read<Option<String>> {
    Ok(match entry(data, FILE, list, &LISTS, name)? {
        Entry::Listed(found) => Some(found),
        Entry::NoFile | Entry::NoList | Entry::Unlisted => None,
    })
}

fn action_rule(action: &AssetAction, actions: &str) -> Read<Option<Rule>> {
    let place = at(&at(FILE, "assets"), &action.asset_id);
    let mut any = None;
    for (name, rule) in members(&place, actions)? {
        if name == action.action {
            return Rule::parse(&at(&place, &name), rule).map(Some);
        }
        if name == ANY {
            any = Some(rule);
        }
    }
    any.map(|rule| Rule::parse(&at(&place, ANY), rule)).transpose()
}

/// Evaluates a key operation. Returns its quorum rule, or the default rule if it is denied.
pub(crate) fn key_change(change: &KeyChange, data: &dyn Data, answer: &mut Answer) -> Read<Rule> {
    let Some(rule) = listed(data, "key_operations", &change.operation)? else {
        deny(answer, "key_operation_not_permitted", "operation", "key_operations", &change.operation);
        return Ok(Rule::default());
    };
    let rule = Rule::parse(&at(&at(FILE, "key_operations"), &change.operation), &rule)?;
    answer.because("custody_intent_permitted", &[("operation", &change.operation)]);
    Ok(rule)
}

fn deny(answer: &mut Answer, code: &str, what: &str, list: &str, name: &str) {
    let place = ["data/custody.json /", list, "/", name].concat();
    answer.deny(code, &[(what, name), ("place", &place)]);
}
