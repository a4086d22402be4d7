// The rule of a treasury: see host/docs/tutorials/treasury.md.
//
// 64-bit integers arrive as JavaScript numbers, which are not exact beyond 2^53: such amounts are not convertible.

import { get as fact } from 'svc:policy/facts@2.0.0';
import { get as data } from 'svc:bundle/data@1.0.0';
import { get as document } from 'svc:bundle/documents@1.0.0';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
// 10,000.00 EUR, in units of 10^-4.
const LIMIT = 100_000_000n;

export function describe() {
  return 'treasury-javascript 1.0.0';
}

export function evaluate(request) {
  const { intent, moment } = request;
  const reasons = [];
  const obligations = [];
  let decision = 'allow';
  const because = (code, operands) => reasons.push(statement(code, operands));
  const deny = (code, operands) => {
    decision = 'deny';
    because(code, operands);
  };

  let needed = 0;
  let isLarge = false;
  let isClosed = false;
  if (intent.tag === 'payment') {
    const worth = value(intent.val);
    isLarge = worth !== undefined && worth > LIMIT && isNew();
    needed = isLarge ? 3 : 2;
    isClosed = closed();
    const denials = [];
    if (worth === undefined) denials.push('amount_not_convertible');
    if (intent.val.amountMinor < 1) denials.push('amount_not_positive');
    if (isClosed && (moment === 'submit' || moment === 'preview')) denials.push('closed');
    const operands = { amount_minor: intent.val.amountMinor, currency: intent.val.currency };
    denials.forEach((code) => deny(code, operands));
    if (denials.length === 0) because('payment_permitted', operands);
  } else if (intent.tag === 'key-change' && intent.val.operation === 'key_create' && request.clientId === 'operation-gateway') {
    // Development creates the key of a payment; no client can have this id.
    because('development_key_permitted');
  } else {
    deny('not_a_payment');
  }

  const quorum = count(request, needed, isLarge);
  const progress = { approvals: quorum.subjects.length, required: quorum.required };
  if (quorum.satisfied) {
    const atMs = wait(request, quorum, isLarge, isClosed && (moment === 'approval' || moment === 'admission'));
    if (atMs !== undefined) obligations.push(statement('admit_not_before', { at_ms: atMs }));
    because('quorum_reached', progress);
  } else if (moment === 'admission' || (moment === 'preview' && request.approvals.length > 0)) {
    deny('quorum_not_reached', progress);
  } else {
    obligations.push(statement('collect_approvals', progress));
  }
  return { decision, reasons, obligations, quorum };
}

function statement(code, operands = {}) {
  return { code, operands: Object.entries(operands).map(([name, value]) => ({ name, value: String(value) })) };
}

// What the payment is worth, in units of 10^-4 EUR, rounded up. undefined if its currency has no rate, or the number is too large.
function value({ amountMinor, currency }) {
  const pointer = `/rates/${currency.replaceAll('~', '~0').replaceAll('/', '~1')}`;
  const rate = document('rates', `${pointer}/rate`);
  const decimals = document('rates', `${pointer}/decimals`);
  if (!Number.isSafeInteger(amountMinor) || !/^\d+(\.\d{1,8})?$/.test(rate ?? '') || !/^\d{1,2}$/.test(decimals ?? '')) return undefined;
  const [whole, places = ''] = rate.split('.');
  const scaled = BigInt(whole + places.padEnd(8, '0'));
  if (scaled === 0n) return undefined;
  const worth = BigInt(amountMinor) * scaled;
  const unit = 10n ** (BigInt(decimals) + 4n);
  const rounded = worth / unit + (worth > 0n && worth % unit > 0n ? 1n : 0n);
  return rounded < 2n ** 63n ? rounded : undefined;
}

// Whether the recipient was first paid less than seven days ago, or never.
function isNew() {
  const firstPaid = fact('recipient.first_paid_ms');
  return firstPaid === undefined || firstPaid === null || !(Number(fact('time.now_ms')) - Number(firstPaid) >= 7 * DAY_MS);
}

// Whether it is a weekend or a holiday in Zurich.
function closed() {
  const holiday = data('holidays.json', `/${fact('time.date.Europe/Zurich')}`);
  return ['saturday', 'sunday'].includes(fact('time.weekday.Europe/Zurich')) || (holiday !== undefined && holiday !== null);
}

// Each person counts once, whatever subjects they use. If the number cannot be read, no number of approvals is enough.
function count(request, needed, isLarge) {
  const asked = fact('deployment.required_approvals') ?? '1';
  const required = Math.max(/^\d{1,6}$/.test(asked) ? Number(asked) : 2147483647, needed);
  const isSeparated = fact('deployment.separation_of_duties') !== 'false';
  const people = new Map();
  for (const { by } of request.approvals) {
    if (!(isSeparated && by.person === request.submitter.person) && !people.has(by.person)) people.set(by.person, by);
  }
  const counted = [...people.values()];
  const groups = [];
  if (isLarge) {
    const team = (person) => person.attributes.find(([name]) => name === 'team')?.[1];
    const own = team(request.submitter);
    const treasurers = counted.filter((by) => by.roles.includes('treasurer'));
    const others = treasurers.filter((by) => own !== undefined && team(by) !== undefined && team(by) !== own);
    const group = (name, needed, have) => groups.push({ name, needed, have: have.map((by) => by.subjectId) });
    group('other_team', 1, others);
    group('treasurer', 3, treasurers);
  }
  const subjects = counted.map((by) => by.subjectId);
  const satisfied = subjects.length >= required && groups.every(({ needed, have }) => have.length >= needed);
  return { subjects, required, satisfied, groups };
}

// The time of the admission: a day from the last approval that counts, and an hour at a time while it is closed.
function wait(request, quorum, isLarge, isClosed) {
  const times = [];
  const last = request.approvals.filter(({ by }) => quorum.subjects.includes(by.subjectId)).map(({ atMs }) => Number(atMs));
  if (isLarge) times.push(Math.max(...last) + DAY_MS);
  if (isClosed) times.push(Number(fact('time.now_ms')) + HOUR_MS);
  return times.length > 0 ? Math.max(...times) : undefined;
}
