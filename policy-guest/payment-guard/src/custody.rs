//! What custody may do: `data/custody.json`. Each of its lists is optional; what a list does not have is denied.

use crate::document::{Entry, Read, at, entry, members};
use crate::rule::Rule;
use gateway_policy_sdk::{Answer, AssetAction, Data, KeyChange};

const FILE: &str = "custody.json";
const LISTS: [&str; 3] = ["chains", "assets", "key_operations"];

/// Judges a custody signature. The rule of the asset's action, or none beyond the deployment's.
pub(crate) fn asset_action(action: &AssetAction, data: &dyn Data, answer: &mut Answer) -> Read<Rule> {
    let chain = entry(data, FILE, "chains", &LISTS, &action.chain_id)?;
    let is_chain_permitted = !matches!(chain, Entry::Unlisted);
    if !is_chain_permitted {
        deny(answer, "chain_not_permitted", "chain", "chains", &action.chain_id);
    }
    let rule = match entry(data, FILE, "assets", &LISTS, &action.asset_id)? {
        Entry::NoFile | Entry::NoList => Some(Rule::default()),
        Entry::Unlisted => None,
        Entry::Listed(actions) => action_rule(action, &actions)?,
    };
    let Some(rule) = rule else {
        let name = [&action.asset_id, "/", &action.action].concat();
        deny(answer, "action_not_permitted", "action", "assets", &name);
        return Ok(Rule::default());
    };
    if is_chain_permitted {
        answer.because("custody_intent_permitted", ["asset action ", &action.action].concat());
    }
    Ok(rule)
}

fn action_rule(action: &AssetAction, actions: &str) -> Read<Option<Rule>> {
    let place = at(&at(FILE, "assets"), &action.asset_id);
    let listed = members(&place, actions)?.find(|(name, _)| *name == action.action);
    listed.map(|(name, rule)| Rule::parse(&at(&place, &name), rule)).transpose()
}

/// Judges a key operation. Its rule, or none beyond the deployment's.
pub(crate) fn key_change(change: &KeyChange, data: &dyn Data, answer: &mut Answer) -> Read<Rule> {
    let rule = match entry(data, FILE, "key_operations", &LISTS, &change.operation)? {
        Entry::NoFile | Entry::NoList => Rule::default(),
        Entry::Listed(rule) => Rule::parse(&at(&at(FILE, "key_operations"), &change.operation), &rule)?,
        Entry::Unlisted => {
            deny(answer, "key_operation_not_permitted", "key operation", "key_operations", &change.operation);
            return Ok(Rule::default());
        }
    };
    answer.because("custody_intent_permitted", ["key operation ", &change.operation].concat());
    Ok(rule)
}

fn deny(answer: &mut Answer, code: &str, what: &str, list: &str, name: &str) {
    answer
        .deny(code, [what, " `", name, "` is not listed; add data/custody.json /", list, "/", name].concat());
}
