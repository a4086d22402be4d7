//! Parses and validates the bundle's policies, and turns Cedar's answers into a verdict.

use crate::location::{located, place};
use crate::quorum::Needs;
use cedar_policy::{
    AuthorizationError, Authorizer, Decision, Effect, Entities, Policy, PolicyId, PolicySet, Request,
    Response, Schema, ValidationMode, Validator,
};
use gateway_policy_sdk::{Answer, Data};
use std::collections::{BTreeMap, BTreeSet, HashMap};

pub(crate) const FILE: &str = "policies.cedar";

/// Most policies that one verdict names. A verdict has room for 128 reasons, more than anyone reads.
const NAMED_MAX: usize = 16;

/// Most faults of one file that are named.
const FAULTS_MAX: usize = 8;

/// The policies of one bundle, by what their annotations make of them.
pub(crate) struct Policies {
    /// Decide on the request.
    rules: PolicySet,
    /// `forbid` with `@quorum`, `@wait` or `@postpone`: those that apply require approvals, or time.
    conditions: PolicySet,
    /// `permit` with `@group`: those that apply to an approver name the person's groups.
    groups: PolicySet,
    notes: HashMap<PolicyId, Note>,
    authorizer: Authorizer,
}

/// What a verdict says of one policy.
struct Note {
    /// Its `@id`, or its position in the file: `policy0` is the first.
    name: String,
    /// Its place in the file.
    place: String,
    /// Its `@remedy`: what would change the verdict.
    remedy: Option<String>,
    /// The code of the reason if it decides.
    code: Option<String>,
    needs: Needs,
    group: Option<String>,
}

/// Cedar's answer, with the policies that determined it in ascending order.
pub(crate) enum Judgement {
    Failed(Vec<Told>),
    Forbidden(Vec<Told>),
    NotPermitted,
    Permitted(Vec<Told>),
}

/// What a reason says of one policy.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Told {
    code: Option<String>,
    policy: String,
    place: String,
    /// Why it could not be evaluated.
    fault: Option<String>,
    remedy: Option<String>,
}

impl Policies {
    /// # Errors
    /// What is wrong with the file, each fault with its place.
    pub(crate) fn read(data: &dyn Data, schema: &Schema) -> Result<Self, String> {
        let text = data.get(FILE, "").ok_or_else(|| format!("data/{FILE} is missing"))?;
        let all: PolicySet = text.parse().map_err(|faults: cedar_policy::ParseErrors| {
            joined(faults.iter().map(|it| located(FILE, &text, it)))
        })?;
        // Nothing here links templates, so a template would never apply, without a message to its author.
        if let Some(template) = all.templates().next() {
            let start = template.as_ref().loc().map_or(0, |loc| loc.start());
            return Err(format!(
                "{}: templates are not supported, since nothing links them",
                place(FILE, &text, start)
            ));
        }
        validate(&text, &all, schema)?;
        let mut policies = Self {
            rules: PolicySet::new(),
            conditions: PolicySet::new(),
            groups: PolicySet::new(),
            notes: HashMap::new(),
            authorizer: Authorizer::new(),
        };
        for policy in all.policies() {
            policies.add(&text, policy)?;
        }
        policies.check_groups()?;
        Ok(policies)
    }

    fn add(&mut self, text: &str, policy: &Policy) -> Result<(), String> {
        let start = policy.as_ref().loc().map_or(0, |loc| loc.start());
        let place = place(FILE, text, start);
        let (code, group) = (policy.annotation("code"), policy.annotation("group"));
        let needs =
            Needs::read(|name| policy.annotation(name)).map_err(|fault| format!("{place}: {fault}"))?;
        let set = match (policy.effect(), &needs, group) {
            (Effect::Forbid, Some(_), None) if code.is_none() => &mut self.conditions,
            (_, None, None) => &mut self.rules,
            (Effect::Permit, None, Some(_)) if code.is_none() => &mut self.groups,
            (_, Some(_), _) => {
                return Err(format!(
                    "{place}: `@quorum`, `@wait` and `@postpone` belong to a `forbid` without `@group` and `@code`"
                ));
            }
            (Effect::Forbid, None, Some(_)) => {
                return Err(format!("{place}: `@group` belongs to a `permit`"));
            }
            (Effect::Permit, None, Some(_)) => {
                return Err(format!(
                    "{place}: `@code` belongs to a policy without `@group`, which gives it as its reason"
                ));
            }
        };
        let note = Note {
            name: policy
                .annotation("id")
                .filter(|id| !id.is_empty())
                .map_or_else(|| policy.id().to_string(), str::to_owned),
            remedy: policy.annotation("remedy").map(str::to_owned),
            code: code.map(str::to_owned),
            needs: needs.unwrap_or_default(),
            group: group.map(str::to_owned),
            place,
        };
        set.add(policy.clone()).map_err(|fault| format!("{}: {fault}", note.place))?;
        self.notes.insert(policy.id().clone(), note);
        Ok(())
    }

    /// A quorum of a group that no policy names could never be reached.
    fn check_groups(&self) -> Result<(), String> {
        let named: BTreeSet<_> = self.notes.values().filter_map(|note| note.group.as_deref()).collect();
        let missing = |note: &Note| {
            let mut groups = note.needs.people.keys();
            let group = groups.find(|group| !group.is_empty() && !named.contains(group.as_str()))?;
            Some(format!("{}: no policy has `@group(\"{group}\")`", note.place))
        };
        self.notes.values().find_map(missing).map_or(Ok(()), Err)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Policy> {
        [&self.rules, &self.conditions, &self.groups].into_iter().flat_map(PolicySet::policies)
    }

    /// Decides on the request. Conditions that apply do not deny it: see [`Policies::needs`].
    pub(crate) fn judge(&self, request: &Request, entities: &Entities) -> Judgement {
        let response = self.authorizer.is_authorized(request, &self.rules, entities);
        if let Err(failed) = self.failed(&response) {
            return Judgement::Failed(failed);
        }
        let determining = named(response.diagnostics().reason().map(|id| self.told(id)));
        match response.decision() {
            Decision::Allow => Judgement::Permitted(determining),
            Decision::Deny if determining.is_empty() => Judgement::NotPermitted,
            Decision::Deny => Judgement::Forbidden(determining),
        }
    }

    /// The approvals and the time that the request needs, by the conditions that apply.
    ///
    /// # Errors
    /// The policies that failed.
    pub(crate) fn needs(&self, request: &Request, entities: &Entities) -> Result<Needs, Vec<Told>> {
        let mut needs = Needs::default();
        for note in self.determining(&self.conditions, request, entities)? {
            needs.raise(&note.needs);
        }
        Ok(needs)
    }

    /// The groups to which the principal of this request belongs, an approver.
    ///
    /// # Errors
    /// The policies that failed.
    pub(crate) fn groups(&self, request: &Request, entities: &Entities) -> Result<BTreeSet<&str>, Vec<Told>> {
        let determining = self.determining(&self.groups, request, entities)?;
        Ok(determining.into_iter().filter_map(|note| note.group.as_deref()).collect())
    }

    /// The policies of `set` that apply.
    fn determining(
        &self,
        set: &PolicySet,
        request: &Request,
        entities: &Entities,
    ) -> Result<Vec<&Note>, Vec<Told>> {
        if set.is_empty() {
            return Ok(Vec::new());
        }
        let response = self.authorizer.is_authorized(request, set, entities);
        self.failed(&response)?;
        Ok(response.diagnostics().reason().filter_map(|id| self.notes.get(id)).collect())
    }

    /// The policies that could not be evaluated, each with its fault, as an error.
    fn failed(&self, response: &Response) -> Result<(), Vec<Told>> {
        let failed =
            response.diagnostics().errors().map(|AuthorizationError::PolicyEvaluationError(error)| {
                let fault = Some(error.inner().to_string());
                Told { fault, code: None, remedy: None, ..self.told(error.policy_id()) }
            });
        let failed = named(failed);
        if failed.is_empty() { Ok(()) } else { Err(failed) }
    }

    fn told(&self, id: &PolicyId) -> Told {
        let note = self.notes.get(id);
        Told {
            code: note.and_then(|note| note.code.clone()),
            policy: note.map_or_else(|| id.to_string(), |note| note.name.clone()),
            place: note.map(|note| note.place.clone()).unwrap_or_default(),
            fault: None,
            remedy: note.and_then(|note| note.remedy.clone()),
        }
    }
}

/// Strict validation: the types of every policy are those of the schema.
fn validate(text: &str, policies: &PolicySet, schema: &Schema) -> Result<(), String> {
    let result = Validator::new(schema.clone()).validate(policies, ValidationMode::Strict);
    let mut faults: BTreeMap<usize, String> = BTreeMap::new();
    for fault in result.validation_errors() {
        let start =
            miette::Diagnostic::labels(fault).and_then(|mut it| it.next()).map_or(0, |it| it.offset());
        faults.entry(start).or_insert_with(|| located(FILE, text, fault));
    }
    if result.validation_passed() { Ok(()) } else { Err(joined(faults.into_values())) }
}

/// The first faults, separated by `; `.
fn joined(faults: impl Iterator<Item = String>) -> String {
    faults.take(FAULTS_MAX).collect::<Vec<_>>().join("; ")
}

/// The first [`NAMED_MAX`] in ascending order, since Cedar's sets have no fixed order.
fn named(all: impl Iterator<Item = Told>) -> Vec<Told> {
    let mut all: Vec<_> = all.collect();
    all.sort_unstable();
    all.truncate(NAMED_MAX);
    all
}

impl Judgement {
    pub(crate) fn tell(self, answer: &mut Answer) {
        match self {
            Self::Failed(all) => all.iter().for_each(|it| answer.deny("cedar_error", &it.operands())),
            Self::Forbidden(all) => {
                all.iter()
                    .for_each(|it| answer.deny(it.code.as_deref().unwrap_or("cedar_forbid"), &it.operands()));
            }
            Self::NotPermitted => answer.deny("cedar_no_permit", &[]),
            Self::Permitted(all) => {
                all.iter().for_each(|it| {
                    answer.because(it.code.as_deref().unwrap_or("cedar_permit"), &it.operands())
                });
            }
        }
    }
}

impl Told {
    fn operands(&self) -> Vec<(&str, &str)> {
        let Self { code: _, policy, place, fault, remedy } = self;
        let more = [("fault", fault), ("remedy", remedy)];
        let more = more.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?)));
        [("policy", &**policy), ("place", place)].into_iter().chain(more).collect()
    }
}
