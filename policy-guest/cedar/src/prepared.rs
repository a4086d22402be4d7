//! The bundle's files, read and validated, ready to evaluate requests.

use crate::policies::{self, Judgement, Policies, Told};
use crate::quorum::Needs;
use crate::rates;
use crate::request::{self, Form};
use crate::schema::{self, Member, Types};
use cedar_policy::Context;
use gateway_policy_sdk::{
    Answer, Approval, AssetAction, Data, Facts, Group, Intent, KeyChange, Moment, Payment, Person, Quorum,
    Request,
};

/// Everything that does not depend on the request.
pub(crate) struct Prepared {
    /// The texts that were read, by file.
    texts: [(&'static str, Option<String>); 4],
    policies: Policies,
    form: Form,
}

/// Cedar's answers to one request.
pub(crate) struct Evaluated {
    pub(crate) judgement: Judgement,
    pub(crate) needs: Needs,
    pub(crate) groups: Vec<Group>,
}

/// Why a request was not evaluated.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The bundle's files, or the request, cannot be used.
    Files(String),
    /// Policies of the quorum could not be evaluated.
    Policies(Vec<Told>),
}

impl Fault {
    pub(crate) fn tell(self, answer: &mut Answer) {
        match self {
            Self::Files(fault) => answer.deny("cedar_error", &[("fault", &fault)]),
            Self::Policies(policies) => Judgement::Failed(policies).tell(answer),
        }
    }
}

impl Prepared {
    /// # Errors
    /// What is wrong with the files, with its place.
    pub(crate) fn read(data: &dyn Data) -> Result<Self, String> {
        let (schema, mut types) = schema::read(data)?;
        let policies = Policies::read(data, &schema)?;
        let actions = schema.action_entities().map_err(|fault| fault.to_string())?;
        types.documents.find_readers(policies.all(), &actions);
        let form = Form::read(data, &schema, types)?;
        let texts = [policies::FILE, schema::FILE, request::FILE, rates::FILE];
        let texts = texts.map(|file| (file, data.get(file, "")));
        Ok(Self { texts, policies, form })
    }

    /// Checks that the bundle has the files that were read when its component was built.
    ///
    /// # Errors
    /// The file that differs.
    pub(crate) fn check(&self, data: &dyn Data) -> Result<(), Fault> {
        match self.texts.iter().find(|(file, text)| data.get(file, "") != *text) {
            Some((file, _)) => Err(Fault::Files(format!(
                "data/{file} is not the file that the component was built with: run `operation-gateway bundle build`"
            ))),
            None => Ok(()),
        }
    }

    /// # Errors
    /// [`Fault`].
    pub(crate) fn evaluate(
        &self,
        request: &Request,
        facts: &dyn Facts,
        documents: &dyn Data,
        quorum: &Quorum,
    ) -> Result<Evaluated, Fault> {
        let context = self.form.context(request, facts, documents, quorum).map_err(Fault::Files)?;
        let asked = self.form.submitted(request, context.clone()).map_err(Fault::Files)?;
        let judgement = self.policies.judge(&asked.request, &asked.entities);
        let needs = self.policies.needs(&asked.request, &asked.entities).map_err(Fault::Policies)?;
        let groups = self.groups(request, quorum, &needs, &context)?;
        Ok(Evaluated { judgement, needs, groups })
    }

    /// The groups that are needed, each with the counted approvers who belong to it.
    fn groups(
        &self,
        request: &Request,
        quorum: &Quorum,
        needs: &Needs,
        context: &Context,
    ) -> Result<Vec<Group>, Fault> {
        let named = needs.people.iter().filter(|(name, _)| !name.is_empty());
        let mut groups: Vec<_> = named
            .map(|(name, needed)| Group { name: name.clone(), needed: *needed, have: Vec::new() })
            .collect();
        if groups.is_empty() {
            return Ok(groups);
        }
        for subject in &quorum.subjects {
            let Some(approval) = request.approvals.iter().find(|it| it.by.subject_id == *subject) else {
                continue;
            };
            let asked = self.form.approved(request, approval, context.clone()).map_err(Fault::Files)?;
            let belongs_to =
                self.policies.groups(&asked.request, &asked.entities).map_err(Fault::Policies)?;
            for group in groups.iter_mut().filter(|group| belongs_to.contains(group.name.as_str())) {
                group.have.push(subject.clone());
            }
        }
        Ok(groups)
    }

    /// Evaluates a request of each kind; the answers do not matter.
    pub(crate) fn warm_up(&self) {
        let known = Samples(self.form.types());
        for intent in samples(self.form.types()) {
            let request = sample(intent, self.form.types());
            let quorum = gateway_policy_sdk::count(&request, 1, |_| true);
            drop(self.evaluate(&request, &known, &known, &quorum));
        }
    }
}

/// Facts and documents with a value of the declared type.
struct Samples<'a>(&'a Types);

impl Facts for Samples<'_> {
    fn get(&self, name: &str) -> Option<String> {
        self.0.facts.get(name).map(|of| of.sample().to_owned())
    }
}

impl Data for Samples<'_> {
    fn get(&self, document: &str, _: &str) -> Option<String> {
        self.0.documents.sample(document)
    }
}

fn samples(types: &Types) -> [Intent; 3] {
    let text = || "sample".to_owned();
    let field = |(name, of): (&String, &Member)| (name.clone(), of.sample().to_owned());
    [
        Intent::Payment(Payment {
            from_account: text(),
            to_account: text(),
            amount_minor: 1,
            currency: "EUR".to_owned(),
            reference: Some(text()),
        }),
        Intent::AssetAction(AssetAction {
            asset_id: text(),
            action: "transfer".to_owned(),
            chain_id: text(),
            request_digest: text(),
            typed_data_root: text(),
            public_fields: types.fields.iter().map(field).collect(),
            transaction: None,
        }),
        Intent::KeyChange(KeyChange {
            operation: "refresh".to_owned(),
            reason: text(),
            purpose: text(),
            chains: vec![text()],
            target_epoch: Some("1".to_owned()),
            new_key_ref: Some(text()),
            signature_profile: Some(text()),
            asset_id: Some(text()),
            recovering_participant: Some(0),
        }),
    ]
}

/// A request at its admission, with one approval.
fn sample(intent: Intent, types: &Types) -> Request {
    let text = || "sample".to_owned();
    let attribute = |(name, of): (&String, &Member)| (name.clone(), of.sample().to_owned());
    let person = |id: &str| Person {
        person: id.to_owned(),
        subject_id: id.to_owned(),
        roles: vec![text()],
        attributes: types.attributes.iter().map(attribute).collect(),
    };
    Request {
        moment: Moment::Admission,
        intent_hash: text(),
        tenant: text(),
        key_ref: text(),
        client_id: text(),
        submitter: person("submitter"),
        intent,
        participants: vec![0, 1],
        threshold: Some(2),
        bip32_path: Some("0/0".to_owned()),
        approvals: vec![Approval { by: person("approver"), at_ms: 1 }],
    }
}
