// A small policy in JavaScript: permitted recipients, a limit from the bundle's data, and a quorum of distinct people.
//
// 64-bit integers arrive as JavaScript numbers, which are not exact beyond 2^53: the policy denies such amounts.

import { get as fact } from 'svc:policy/facts@1.1.0';
import { get as data } from 'svc:policy/data@1.1.0';

export function describe() {
  return 'javascript-example 1.0.0';
}

export function evaluate(request) {
  const reasons = [];
  let decision = 'allow';
  const because = (code, detail = '') => reasons.push({ code, detail });
  const deny = (code, detail) => {
    decision = 'deny';
    because(code, detail);
  };

  if (request.intent.tag === 'payment') {
    const { toAccount, amountMinor, currency } = request.intent.val;
    if (list(fact('deployment.permitted_recipients')).includes(toAccount)) {
      because('recipient_permitted', toAccount);
    } else {
      deny('recipient_not_permitted', toAccount);
    }
    const limit = Number(data('limits.json', `/max_minor/${currency}`) ?? NaN);
    if (Number.isSafeInteger(amountMinor) && amountMinor > 0 && amountMinor <= limit) {
      because('amount_permitted');
    } else {
      deny('amount_not_permitted', `${amountMinor} ${currency}; the limit is ${limit}`);
    }
  } else {
    deny('intent_not_permitted', request.intent.tag);
  }

  const quorum = count(request);
  const obligations = [];
  const progress = `${quorum.subjects.length} of ${quorum.required} approvals`;
  if (quorum.satisfied) {
    because('quorum_reached', progress);
  } else if (request.moment === 'admission') {
    deny('quorum_not_reached', progress);
  } else {
    obligations.push({ code: 'collect_approvals', detail: progress });
  }
  return { decision, reasons, obligations, quorum };
}

// The submitter does not count, and no one counts twice. If the fact cannot be read, no number of approvals is enough.
function count(request) {
  const asked = fact('deployment.required_approvals') ?? '1';
  const required = /^\d{1,6}$/.test(asked) ? Number(asked) : 2147483647;
  const people = new Set(request.approvals.map((approval) => approval.subjectId));
  people.delete(request.submitter.subjectId);
  const subjects = [...people];
  return { subjects, required, satisfied: subjects.length >= required };
}

function list(text) {
  return (text ?? '').split(',').map((entry) => entry.trim()).filter((entry) => entry !== '');
}
