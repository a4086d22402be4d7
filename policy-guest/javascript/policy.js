// A small policy in JavaScript: permitted recipients, a limit from the bundle's data, and a quorum of distinct people.
//
// 64-bit integers arrive as JavaScript numbers, which are not exact beyond 2^53: the policy denies such amounts.

import { get as fact } from 'svc:policy/facts@2.0.0';
import { get as data } from 'svc:bundle/data@1.0.0';

export function describe() {
  return 'javascript-example 1.0.0';
}

export function evaluate(request) {
  const reasons = [];
  let decision = 'allow';
  const because = (code, operands = {}) => reasons.push(statement(code, operands));
  const deny = (code, operands) => {
    decision = 'deny';
    because(code, operands);
  };

  if (request.intent.tag === 'payment') {
    const { toAccount, amountMinor, currency } = request.intent.val;
    if (list(fact('deployment.permitted_recipients')).includes(toAccount)) {
      because('recipient_permitted', { account: toAccount });
    } else {
      deny('recipient_not_permitted', { account: toAccount });
    }
    const limit = Number(data('limits.json', `/max_minor/${currency}`) ?? NaN);
    if (Number.isSafeInteger(amountMinor) && amountMinor > 0 && amountMinor <= limit) {
      because('amount_permitted');
    } else {
      deny('amount_not_permitted', { amount_minor: amountMinor, currency, limit });
    }
  } else {
    deny('intent_not_permitted', { intent: request.intent.tag });
  }

  const quorum = count(request);
  const obligations = [];
  const progress = { approvals: quorum.subjects.length, required: quorum.required };
  if (quorum.satisfied) {
    because('quorum_reached', progress);
  } else if (request.moment === 'admission') {
    deny('quorum_not_reached', progress);
  } else {
    obligations.push(statement('collect_approvals', progress));
  }
  return { decision, reasons, obligations, quorum };
}

function statement(code, operands) {
  return { code, operands: Object.entries(operands).map(([name, value]) => ({ name, value: String(value) })) };
}

// The submitter does not count, and no person counts twice, whatever subjects they use. If the fact cannot be read, no number of approvals is enough.
function count(request) {
  const asked = fact('deployment.required_approvals') ?? '1';
  const required = /^\d{1,6}$/.test(asked) ? Number(asked) : 2147483647;
  const people = new Map();
  for (const { by } of request.approvals) {
    if (by.person !== request.submitter.person && !people.has(by.person)) people.set(by.person, by.subjectId);
  }
  const subjects = [...people.values()];
  return { subjects, required, satisfied: subjects.length >= required, groups: [] };
}

function list(text) {
  return (text ?? '').split(',').map((entry) => entry.trim()).filter((entry) => entry !== '');
}
