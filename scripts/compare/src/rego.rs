//! The default policy's conditions in Rego, run by regorus in process.

use crate::Allowed;
use crate::case::Case;
use regorus::languages::rego::compiler::Compiler;
use regorus::rvm::program::Program;
use regorus::rvm::vm::RegoVM;
use regorus::{Engine, Value};
use serde_json::json;
use std::error::Error;
use std::sync::Arc;

const TEXT: &str = include_str!("../payment_guard.rego");
const ENTRY: &str = "data.payment_guard.decision";

/// The interpreter: the text is parsed once, and the engine cloned for each evaluation, as its documentation advises.
pub(crate) struct Interpreted(Engine);

/// The engine's newer interface: the text is compiled once, with a new machine for each evaluation.
pub(crate) struct Compiled(Arc<Program>);

impl Interpreted {
    pub(crate) fn new() -> Result<Self, Box<dyn Error>> {
        let mut prepared = engine()?;
        // The first evaluation prepares state that the clones share.
        prepared.set_input(input(&Case::to("acct-2")?)?);
        prepared.eval_rule(ENTRY.into())?;
        Ok(Self(prepared))
    }
}

impl Compiled {
    pub(crate) fn new() -> Result<Self, Box<dyn Error>> {
        let policy = engine()?.compile_with_entrypoint(&ENTRY.into())?;
        Ok(Self(Compiler::compile_from_policy(&policy, &[ENTRY])?))
    }
}

impl Interpreted {
    pub(crate) fn allows(&self, case: &Case) -> Allowed {
        let mut engine = self.0.clone();
        engine.set_input(input(case)?);
        allows(&engine.eval_rule(ENTRY.into())?)
    }
}

impl Compiled {
    pub(crate) fn allows(&self, case: &Case) -> Allowed {
        let mut machine = RegoVM::new();
        machine.load_program(Arc::clone(&self.0));
        machine.set_input(input(case)?);
        allows(&machine.execute()?)
    }
}

fn engine() -> Result<Engine, Box<dyn Error>> {
    let mut engine = Engine::new();
    engine.add_policy("payment_guard.rego".into(), TEXT.into())?;
    Ok(engine)
}

/// A result other than true or false is an error: a rule without a value must not look like a denial.
fn allows(decision: &Value) -> Allowed {
    Ok(*decision["allow"].as_bool()?)
}

fn input(case: &Case) -> Result<Value, Box<dyn Error>> {
    let (request, payment) = (case.request(), case.payment()?);
    let fact = |name: &str| (name.to_owned(), case.facts.get(name).into());
    let facts = serde_json::Map::from_iter(
        [
            "deployment.permitted_recipients",
            "deployment.required_approvals",
            "deployment.separation_of_duties",
        ]
        .map(fact),
    );
    let approvals = request
        .approvals
        .iter()
        .map(|approval| json!({"subject_id": approval.subject_id, "roles": approval.roles}));
    Ok(Value::from(json!({
        "moment": request.moment.as_str(),
        "submitter": {"subject_id": request.submitter.subject_id, "roles": request.submitter.roles},
        "payment": {
            "from_account": payment.from_account,
            "to_account": payment.to_account,
            "amount_minor": payment.amount_minor,
            "currency": payment.currency,
        },
        "approvals": approvals.collect::<Vec<_>>(),
        "facts": facts,
    })))
}
