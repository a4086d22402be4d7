# The rules of policy-guest/payment-guard for payments, without data files. All conditions are evaluated, so that one answer
# names everything that has to change.
package payment_guard

import rego.v1

decision := {
	"allow": count(denied) == 0,
	"reasons": denied,
	"obligations": owed,
	"quorum": {"subjects": counted, "required": required, "satisfied": reached},
}

permitted := {trim_space(account) | some account in split(input.facts["deployment.permitted_recipients"], ",")}

recipient_permitted if input.payment.to_account in permitted

recipient_permitted if "*" in permitted

denied contains {"code": "recipient_not_permitted", "detail": detail} if {
	not recipient_permitted
	detail := sprintf("account `%s` is not among the permitted recipients", [input.payment.to_account])
}

denied contains {"code": "amount_not_positive", "detail": detail} if {
	input.payment.amount_minor < 1
	detail := sprintf("amount_minor %d %s must be at least 1", [input.payment.amount_minor, input.payment.currency])
}

# Approvals required if the deployment sets no number. A value that is not a number denies below.
default required := 1

required := to_number(input.facts["deployment.required_approvals"])

denied contains {"code": "fact_unreadable", "detail": text} if {
	text := input.facts["deployment.required_approvals"]
	not to_number(text)
}

# The submitter's own approval counts only if the deployment permits it.
default separated := true

separated := false if input.facts["deployment.separation_of_duties"] == "false"

denied contains {"code": "fact_unreadable", "detail": text} if {
	text := input.facts["deployment.separation_of_duties"]
	not text in {"true", "false"}
}

own(approval) if {
	separated
	approval.subject_id == input.submitter.subject_id
}

counted := {approval.subject_id | some approval in input.approvals; not own(approval)}

default reached := false

reached if count(counted) >= required

# No later approval can change the answer.
final if input.moment == "admission"

final if {
	input.moment == "preview"
	count(input.approvals) > 0
}

progress := sprintf("%d of %d approvals", [count(counted), required])

denied contains {"code": "quorum_not_reached", "detail": progress} if {
	not reached
	final
}

owed contains {"code": "collect_approvals", "detail": progress} if {
	not reached
	not final
}
