//! Parses the bundle's policies, and turns Cedar's answer into a verdict.

use cedar_policy::{AuthorizationError, Authorizer, Decision, Entities, PolicyId, PolicySet, Request};
use gateway_policy_sdk::{Answer, Data};

const FILE: &str = "policies.cedar";

/// Most policies that one verdict names. A verdict has room for 128 reasons, more than anyone reads.
const NAMED_MAX: usize = 16;

/// The policies of one bundle.
pub(crate) struct Policies(PolicySet);

/// Cedar's answer, with the policies that determined it in ascending order.
pub(crate) enum Judgement {
    Failed(Vec<String>),
    Forbidden(Vec<String>),
    NotPermitted,
    Permitted(Vec<String>),
}

impl Policies {
    /// Parses the text again in every evaluation, since an instance lives for one evaluation.
    ///
    /// # Errors
    /// Why the file is not a usable set of policies.
    pub(crate) fn read(data: &dyn Data) -> Result<Self, String> {
        let text = data.get(FILE, "").ok_or_else(|| format!("data/{FILE} is missing"))?;
        let set: PolicySet = text.parse().map_err(|fault| format!("data/{FILE} cannot be read: {fault}"))?;
        // Nothing here links templates, so a template would never apply, without a message to its author.
        let template = set.templates().next().map(|template| template.id().to_string());
        match template {
            Some(id) => Err(format!("data/{FILE}: {id} is a template, which nothing links")),
            None => Ok(Self(set)),
        }
    }

    pub(crate) fn judge(&self, request: &Request, entities: &Entities) -> Judgement {
        let response = Authorizer::new().is_authorized(request, &self.0, entities);
        let failed =
            response.diagnostics().errors().map(|AuthorizationError::PolicyEvaluationError(error)| {
                format!("{}: {}", self.name(error.policy_id()), error.inner())
            });
        let failed: Vec<_> = named(failed);
        if !failed.is_empty() {
            return Judgement::Failed(failed);
        }
        let determining = named(response.diagnostics().reason().map(|id| self.described(id)));
        match response.decision() {
            Decision::Allow => Judgement::Permitted(determining),
            Decision::Deny if determining.is_empty() => Judgement::NotPermitted,
            Decision::Deny => Judgement::Forbidden(determining),
        }
    }

    /// The policy's `@id`, or its position in the file: `policy0` is the first.
    fn name(&self, id: &PolicyId) -> String {
        let given = self.0.annotation(id, "id").filter(|given| !given.is_empty());
        format!("policy `{}`", given.map_or_else(|| id.to_string(), str::to_owned))
    }

    /// The policy's name, and its `@advice` if it has one: what would change the verdict.
    fn described(&self, id: &PolicyId) -> String {
        match self.0.annotation(id, "advice") {
            Some(advice) => format!("{}: {advice}", self.name(id)),
            None => self.name(id),
        }
    }
}

/// The first [`NAMED_MAX`] in ascending order, since Cedar's sets have no fixed order.
fn named(all: impl Iterator<Item = String>) -> Vec<String> {
    let mut all: Vec<_> = all.collect();
    all.sort_unstable();
    all.truncate(NAMED_MAX);
    all
}

impl Judgement {
    pub(crate) fn tell(self, answer: &mut Answer) {
        match self {
            Self::Failed(policies) => {
                policies.iter().for_each(|it| answer.deny("cedar_error", &[("fault", it)]))
            }
            Self::Forbidden(policies) => {
                policies.iter().for_each(|it| answer.deny("cedar_forbid", &[("policy", it)]))
            }
            Self::NotPermitted => answer.deny("cedar_no_permit", &[]),
            Self::Permitted(policies) => {
                policies.iter().for_each(|it| answer.because("cedar_permit", &[("policy", it)]))
            }
        }
    }
}
