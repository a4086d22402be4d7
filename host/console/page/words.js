// What intents, states and events mean, in words. Where it matters the words are made from the bytes that are signed.

const STATES = {
  submitted: ['is being decided', 'wait'],
  pending_approval: ['waits for approvals', 'wait'],
  admitted: ['admitted', 'wait'],
  receipt_materialized: ['admitted by the nodes', 'wait'],
  executing: ['nodes are at work', 'wait'],
  executed: ['executed, not published', 'wait'],
  published: ['published', 'good'],
  failed: ['failed', 'bad'],
};

/** Words and class of a state. */
export const state = (name) => STATES[name] ?? [name, 'wait'];

/** An amount with its currency. The number of decimals is that of the currency, as far as the browser knows it. */
export function amount(minor, currency) {
  const digits = String(minor);
  const negative = digits.startsWith('-') ? '-' : '';
  const whole = digits.replace('-', '');
  if (!/^[A-Z]{3}$/.test(currency) || !known(currency)) return `${digits} minor units of ${currency}`;
  const decimals = new Intl.NumberFormat('en', { style: 'currency', currency }).resolvedOptions().maximumFractionDigits;
  const padded = whole.padStart(decimals + 1, '0');
  const cut = padded.length - decimals;
  const grouped = padded.slice(0, cut).replace(/\B(?=(\d{3})+$)/g, '\u202f');
  return `${negative}${grouped}${decimals ? '.' + padded.slice(cut) : ''} ${currency}`;
}

const known = (currency) => Intl.supportedValuesOf('currency').includes(currency);

const list = (numbers) => (numbers ?? []).join(', ');
const of = (threshold, participants) => `${threshold} of the ${participants?.length ?? 0} participants ${list(participants)}`;

/** One sentence that says what an intent does. Members may be numbers, or strings as in canonical bytes. */
export function sentence(intent, keyRef) {
  switch (intent.kind) {
    case 'payment': {
      const reference = intent.reference ? `, with the reference “${intent.reference}”` : '';
      return `Pay ${amount(intent.amount_minor, intent.currency)} from ${intent.from_account} to ${intent.to_account}${reference}.`;
    }
    case 'asset_action':
      return `Sign the ${intent.action} of ${intent.asset_id} on ${intent.chain_id} with the key ${keyRef}: the digest ${intent.request_digest}.`;
    case 'key_create':
      return `Create the key ${keyRef} for ${intent.asset_id}, of which ${of(intent.threshold, intent.participants)} sign. Purpose: ${intent.purpose}.`;
    case 'refresh':
      return `Give the holders of the key ${keyRef} new shares, as epoch ${intent.target_epoch}. Reason: ${intent.reason}.`;
    case 'reshare':
      return `Give the key ${keyRef} other holders, as epoch ${intent.target_epoch}: ${of(intent.threshold, intent.new_participants)} will sign. Reason: ${intent.reason}.`;
    case 'rotate':
      return `Replace the key ${keyRef} by the new key ${intent.new_key_ref}, of which ${of(intent.threshold, intent.participants)} sign. Reason: ${intent.reason}.`;
    case 'recover':
      return `Rebuild the share of participant ${intent.recovering_participant} of the key ${keyRef}, with the help of ${list(intent.helper_participants)}. Case: ${intent.recovery_case_ref}.`;
    default:
      return `An operation of a kind that this page does not know: ${intent.kind}.`;
  }
}

const EVENTS = {
  submitted: 'submitted it',
  approval_requested: 'Approvals are asked for',
  approvals_waived: 'Approvals are waived',
  quorum_reached: 'Enough people have approved',
  decision_signed: 'The authority admits it',
  admission_applied: 'The nodes admit it',
  execution_requested: 'asked to execute it',
  receipt_materialized: 'The nodes have received the policy’s receipt',
  ceremony_started: 'The nodes begin',
  attempt_lost: 'An attempt of the nodes is given up',
  epoch_decided: 'The new epoch is decided',
  epoch_acked: 'The nodes use the new epoch',
  executed: 'The nodes are done',
  publication_requested: 'asked to publish it',
  published: 'It is published',
  aborted: 'ended it without a node',
  discard_acked: 'Nodes will not sign it any more',
  nodes_given_up: 'Nodes are given up',
  replay_noted: 'submitted it again',
  recovery_recorded: 'A node’s effect is recovered',
  externally_exported: 'recorded an export',
};

/** What an event of evidence says: who did what. */
export function happened({ change, asked_by: asked }) {
  const who = asked?.client?.subject_id;
  switch (change.type) {
    case 'submitted': return `${change.submitter?.subject_id ?? who ?? 'A client'} submitted it`;
    case 'approval_recorded': return `${change.approval.subject_id} approved${signed(change.approval)}`;
    case 'late_approval_recorded': return `${change.approval.subject_id} approved, after there were enough${signed(change.approval)}`;
    case 'rejection_recorded': return `${change.rejection.subject_id} rejected it${signed(change.rejection)}: ${change.rejection.reason}`;
    case 'failed': return `It failed: ${change.failure.detail || change.failure.code}`;
  }
  const words = EVENTS[change.type] ?? change.type;
  return /^[a-z]/.test(words) ? `${who ?? 'A client'} ${words}` : words;
}

const signed = ({ signature }) => ({ ed25519: ', signed with a key', webauthn: ', signed with a passkey' })[signature?.kind] ?? ', not signed';
