//! The bundle's policies, and what Cedar's answer means.

use cedar_policy::{AuthorizationError, Authorizer, Decision, Entities, PolicyId, PolicySet, Request};
use gateway_policy_sdk::{Answer, Data};

const FILE: &str = "policies.cedar";

/// Policies named in one verdict at most: a verdict has room for 128 reasons, and nobody reads so many.
const NAMED_MAX: usize = 16;

/// The policies of one bundle.
pub(crate) struct Policies(PolicySet);

/// The outcome, with the policies that brought it about in ascending order.
pub(crate) enum Judgement {
    Failed(Vec<String>),
    Forbidden(Vec<String>),
    NotPermitted,
    Permitted(Vec<String>),
}

impl Policies {
    /// Parsed anew for every evaluation: an instance lives for one.
    ///
    /// # Errors
    /// Why the text is no set of policies.
    pub(crate) fn read(data: &dyn Data) -> Result<Self, String> {
        let text = data.get(FILE, "").ok_or_else(|| format!("data/{FILE} is missing"))?;
        let set: PolicySet = text.parse().map_err(|fault| format!("data/{FILE} cannot be read: {fault}"))?;
        // Nothing here links a template, so its author would wait in vain for it to apply.
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

    /// Its `@id`, or its place in the file: `policy0` is the first.
    fn name(&self, id: &PolicyId) -> String {
        let given = self.0.annotation(id, "id").filter(|given| !given.is_empty());
        format!("policy `{}`", given.map_or_else(|| id.to_string(), str::to_owned))
    }

    /// With its `@advice`: what would change the answer.
    fn described(&self, id: &PolicyId) -> String {
        match self.0.annotation(id, "advice") {
            Some(advice) => format!("{}: {advice}", self.name(id)),
            None => self.name(id),
        }
    }
}

/// In ascending order, whatever order Cedar's sets have.
fn named(all: impl Iterator<Item = String>) -> Vec<String> {
    let mut all: Vec<_> = all.collect();
    all.sort_unstable();
    all.truncate(NAMED_MAX);
    all
}

impl Judgement {
    pub(crate) fn tell(self, answer: &mut Answer) {
        match self {
            Self::Failed(policies) => policies.into_iter().for_each(|it| answer.deny("cedar_error", it)),
            Self::Forbidden(policies) => policies.into_iter().for_each(|it| answer.deny("cedar_forbid", it)),
            Self::NotPermitted => answer.deny("cedar_no_permit", "no policy permits this"),
            Self::Permitted(policies) => {
                policies.into_iter().for_each(|it| answer.because("cedar_permit", it))
            }
        }
    }
}
