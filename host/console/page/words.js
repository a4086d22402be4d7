// What intents, states and events mean, in words. Where it matters the words are made from the bytes that are signed. What others wrote
// is an element of its own (`said`): it is seen where it begins and ends.

import { said, time } from './elements.js';

const STATES = new Map(Object.entries({
  submitted: ['is being decided', 'wait'],
  pending_approval: ['waits for approvals', 'wait'],
  admitted: ['admitted', 'wait'],
  receipt_materialized: ['admitted, not executed', 'wait'],
  executing: ['nodes are at work', 'wait'],
  executed: ['executed, not published', 'wait'],
  published: ['published', 'good'],
  failed: ['failed', 'bad'],
}));

const STEPS = new Map(Object.entries({
  admission: 'the authority and the nodes decide', execution: 'the nodes are at work', publication: 'the nodes record the publication',
  discard: 'the nodes erase what they have of it',
}));

/** Words and class of an operation's state. */
export function state(operation) {
  const [words, kind] = STATES.get(operation.state) ?? [operation.state, 'wait'];
  const step = STEPS.get(operation.in_progress);
  return [step ? `${words}: ${step}` : words, kind];
}

// Decimals of currencies (ISO 4217). Browsers know others, which are for prices and not for accounts.
const DECIMALS = new Map();
for (const [decimals, currencies] of [
  [0, 'BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF'],
  [2, 'AED AFN ALL AMD ANG AOA ARS AUD AWG AZN BAM BBD BDT BGN BMD BND BOB BRL BSD BTN BWP BYN BZD CAD CDF CHF CNY COP CRC CUP CVE CZK DKK DOP '
    + 'DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GTQ GYD HKD HNL HTG HUF IDR ILS INR IRR JMD KES KGS KHR KPW KYD KZT LAK LBP LKR LRD LSL '
    + 'MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD PAB PEN PGK PHP PKR PLN QAR RON RSD RUB SAR SBD SCR SDG '
    + 'SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TOP TRY TTD TWD TZS UAH USD UYU UZS VES WST XCD YER ZAR ZMW ZWG'],
  [3, 'BHD IQD JOD KWD LYD OMR TND'],
  [4, 'CLF UYW'],
]) {
  for (const currency of currencies.split(' ')) DECIMALS.set(currency, decimals);
}

/** An amount with its currency: in major units if the number of decimals is known. */
export function amount(minor, currency) {
  const digits = String(minor);
  const decimals = DECIMALS.get(currency);
  if (decimals === undefined || !/^-?[0-9]+$/.test(digits)) return [said(digits), ' minor units of ', said(currency)];
  const whole = digits.replace('-', '').padStart(decimals + 1, '0');
  const cut = whole.length - decimals;
  const grouped = whole.slice(0, cut).replace(/\B(?=(\d{3})+$)/g, '\u202f');
  return [`${digits.startsWith('-') ? '-' : ''}${grouped}${decimals ? `.${whole.slice(cut)}` : ''} ${currency}`];
}

const list = (numbers) => (Array.isArray(numbers) ? numbers.map(String).join(', ') : '');
const of = (threshold, participants) => `${Number(threshold)} of the ${participants?.length ?? 0} participants ${list(participants)}`;
const own = (object, name) => (Object.hasOwn(object ?? {}, name) ? object[name] : undefined);

/** What signs: a key, or one that is derived from it. */
function signer(intent, keyRef) {
  const [bip32, taproot] = [own(intent, 'bip32'), own(intent, 'taproot')];
  const derived = [
    bip32 ? ['its child ', said(bip32.path), ' for ', said(bip32.network)] : null,
    taproot ? ['the output key of its Taproot output'] : null,
  ].filter(Boolean);
  const key = ['the key ', said(keyRef)];
  return derived.length === 0 ? key : [...key, ', by ', ...derived.flatMap((words, nth) => (nth ? [' and ', ...words] : words))];
}

const publication = (intent) => (own(intent, 'publication_mode') === 'automatic' ? ' The result is published at once.' : '');

/** What an intent does, as texts and elements. Members may be numbers, or strings as in canonical bytes. */
export function sentence(intent, keyRef) {
  const get = (name) => own(intent, name);
  switch (get('kind')) {
    case 'payment': {
      const reference = get('reference');
      return [
        'Pay ', ...amount(get('amount_minor'), get('currency')), ' from ', said(get('from_account')), ' to ', said(get('to_account')),
        ...(reference ? [', with the reference “', said(reference), '”'] : []), '.', publication(intent),
      ];
    }
    case 'asset_action':
      return [
        'Sign the digest ', said(get('request_digest')), ' with ', ...signer(intent, keyRef), '. Its submitter calls it “', said(get('action')), '” of “',
        said(get('asset_id')), '” on “', said(get('chain_id')), '”.', publication(intent),
      ];
    case 'key_create':
      return [
        'Create the key ', said(keyRef), ' for ', said(get('asset_id')), `, of which ${of(get('threshold'), get('participants'))} sign, with `,
        said(get('signature_profile')), '. Purpose: ', said(get('purpose')), '.',
      ];
    case 'refresh':
      return ['Give the holders of the key ', said(keyRef), ' new shares, as epoch ', said(get('target_epoch')), '. Reason: ', said(get('reason')), '.', publication(intent)];
    case 'reshare':
      return [
        'Give the key ', said(keyRef), ' other holders, as epoch ', said(get('target_epoch')), `: ${of(get('threshold'), get('new_participants'))} will sign. Reason: `,
        said(get('reason')), '.', publication(intent),
      ];
    case 'rotate':
      return [
        'Replace the key ', said(keyRef), ' by the new key ', said(get('new_key_ref')), `, of which ${of(get('threshold'), get('participants'))} sign. Reason: `,
        said(get('reason')), '.', publication(intent),
      ];
    case 'recover':
      return [
        `Rebuild the share of participant ${Number(get('recovering_participant'))} of the key `, said(keyRef), `, with the help of ${list(get('helper_participants'))}. Case: `,
        said(get('recovery_case_ref')), '.', publication(intent),
      ];
    default:
      return ['An operation of a kind that this page does not know: ', said(String(get('kind'))), '.'];
  }
}

/** What must be said beside the sentence, so that an approver does not take a claim for a fact. */
export const caution = (intent) => (own(intent, 'kind') === 'asset_action'
  ? 'The gateway does not know what this digest stands for. Action, asset, chain and the public fields are what its submitter says of it; compare the digest with that of your own wallet.'
  : null);

const EVENTS = new Map(Object.entries({
  approval_requested: ['Approvals are asked for'],
  approvals_waived: ['Approvals are waived'],
  quorum_reached: ['Enough people have approved'],
  admission_resumed: ['The wait for the admission has ended'],
  decision_signed: ['The authority admits it'],
  admission_applied: ['The nodes admit it'],
  execution_requested: [null, ' asked to execute it'],
  receipt_materialized: ['The nodes have signed the policy’s receipt'],
  ceremony_started: ['The nodes begin'],
  epoch_decided: ['The new epoch is decided'],
  epoch_acked: ['The nodes use the new epoch'],
  executed: ['The nodes are done'],
  publication_requested: [null, ' asked to publish it'],
  published: ['It is published'],
  replay_noted: [null, ' submitted it again, with another body'],
  externally_exported: [null, ' recorded an export'],
  nodes_given_up: ['Nodes that do not answer are given up'],
}));

/** What an event of evidence says: who did what. */
export function happened({ change, asked_by: asked }) {
  const who = asked?.client?.subject_id ? said(asked.client.subject_id) : 'The gateway';
  switch (change.type) {
    case 'submitted': return [said(change.submitter?.subject_id ?? asked?.client?.subject_id ?? 'a client'), ' submitted it'];
    case 'approval_recorded': return [said(change.approval.subject_id), ` approved${signed(change.approval)}`];
    case 'late_approval_recorded': return [said(change.approval.subject_id), ` approved, after there were enough${signed(change.approval)}`];
    case 'rejection_recorded': return [said(change.rejection.subject_id), ` ${change.rejection.lost ? 'aborted' : 'rejected'} it${signed(change.rejection)}: `, said(change.rejection.reason)];
    case 'admission_postponed': return ['The policy does not allow the admission before ', time(change.until_ms)];
    case 'approvals_lapsed': return [change.lapsed.flatMap((one, nth) => [nth ? ', ' : 'The approval of ', said(one.subject_id), ` no longer counts (${one.reason})`])].flat();
    case 'failed': return ['It failed: ', said(change.failure.detail || change.failure.code)];
    case 'aborted': return [who, ' ended it, or goes on without a node: ', said(change.failure?.detail ?? change.reason ?? '')];
    case 'attempt_lost': return ['An attempt of the nodes is given up: ', said(change.reason ?? '')];
    case 'discard_acked': return ['Nodes have erased what they had of it'];
    case 'recovery_recorded': return [who, ` recorded a node’s effect${change.outcome === undefined ? '' : ': '}`, change.outcome === undefined ? '' : said(typeof change.outcome === 'string' ? change.outcome : JSON.stringify(change.outcome))];
  }
  const [words, after] = EVENTS.get(change.type) ?? [change.type];
  return words === null ? [who, after] : [words];
}

const SIGNATURES = new Map([['ed25519', ', signed with a key'], ['webauthn', ', signed with a passkey']]);
const signed = ({ signature }) => SIGNATURES.get(signature?.kind) ?? ', not signed';
