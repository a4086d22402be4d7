// Passkeys (WebAuthn): signing a statement, and making a credential for the registry of approvers.

import { el, card, alert, done } from './elements.js';

const encode = (bytes) =>
  btoa(String.fromCharCode(...new Uint8Array(bytes))).replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, '');
const decode = (text) => Uint8Array.from(atob(text.replaceAll('-', '+').replaceAll('_', '/')), (c) => c.charCodeAt(0));
const hex = (bytes) => [...new Uint8Array(bytes)].map((byte) => byte.toString(16).padStart(2, '0')).join('');
const fromHex = (text) => Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16));

/** The reader's passkeys that can be used on this page, by the site that they are of. */
export function usable(keys) {
  const here = keys.filter((key) => key.kind === 'webauthn' && key.origins.includes(location.origin));
  return Map.groupBy(here, (key) => key.rp_id);
}

/** Has one of these passkeys, which are of one site, sign a statement with this SHA-256, hexadecimal. */
export async function sign(digest, rpId, keys) {
  const allowCredentials = keys.map((key) => ({ type: 'public-key', id: decode(key.credential_id) }));
  const { rawId, response } = await navigator.credentials.get({
    publicKey: { challenge: fromHex(digest), rpId, allowCredentials, userVerification: 'required' },
  });
  return {
    kind: 'webauthn',
    credential_id: encode(rawId),
    authenticator_data: encode(response.authenticatorData),
    client_data_json: encode(response.clientDataJSON),
    signature: encode(response.signature),
  };
}

const ES256 = -7;
const EDDSA = -8;

/** Makes a passkey for this page. Returns its entry for the registry. No device replaces one that it has by it. */
async function make(subject, existing) {
  const rpId = location.hostname;
  const excludeCredentials = existing.filter((key) => key.rp_id === rpId).map((key) => ({ type: 'public-key', id: decode(key.credential_id) }));
  const created = await navigator.credentials.create({
    publicKey: {
      challenge: crypto.getRandomValues(new Uint8Array(32)),
      rp: { id: rpId, name: 'operation-gateway' },
      user: { id: crypto.getRandomValues(new Uint8Array(32)), name: subject, displayName: subject },
      excludeCredentials,
      pubKeyCredParams: [{ type: 'public-key', alg: ES256 }, { type: 'public-key', alg: EDDSA }],
      authenticatorSelection: { userVerification: 'required', residentKey: 'preferred' },
      attestation: 'none',
    },
  });
  const [algorithm, length] = created.response.getPublicKeyAlgorithm() === ES256 ? ['ES256', 65] : ['EdDSA', 32];
  const key = created.response.getPublicKey();
  if (key === null) throw new Error('the browser does not know the form of the public key');
  return {
    kind: 'webauthn', credential_id: encode(created.rawId), algorithm, public_key: hex(key.slice(-length)),
    rp_id: rpId, origins: [location.origin],
  };
}

/** The page on which an approver makes a passkey. */
export function enrolment({ identity, signed_approvals: rule }) {
  const result = el('div');
  const own = identity?.approver_keys ?? [];
  const name = el('input', { type: 'text', id: 'subject', value: identity?.subject_id ?? '', readonly: Boolean(identity), required: true });
  const onsubmit = async (event) => {
    event.preventDefault();
    try {
      const entry = JSON.stringify(await make(name.value, own), null, 2);
      result.replaceChildren(
        done('The passkey is made. It counts once the operator has put this entry under “keys” of ', name.value, ' in the registry of approvers:'),
        el('pre', { id: 'entry', tabindex: 0 }, entry),
        el('button', { class: 'second', type: 'button', onclick: () => navigator.clipboard.writeText(entry) }, 'Copy the entry'));
    } catch (error) {
      const why = error.name === 'InvalidStateError' ? 'this device has one already, which is in the registry' : error.message;
      result.replaceChildren(alert(`No passkey was made: ${why}.`));
    }
  };
  return [
    el('h1', {}, 'Passkeys'),
    el('p', {}, { off: 'This gateway does not verify signatures of approvals.', optional: 'Approvals may be signed.', required: 'Every approval must be signed by its approver.' }[rule]),
    card('Yours in the registry', own.length === 0
      ? el('p', {}, 'None that is valid.')
      : el('ul', {}, own.map((key) => el('li', {}, key.kind === 'webauthn' ? `Passkey of ${key.rp_id} ` : 'Key file ', el('code', {}, key.credential_id ?? key.public_key))))),
    el('form', { class: 'card', onsubmit },
      el('h2', {}, 'Make a passkey for this page'),
      el('p', {}, 'Your device makes a key that never leaves it. You give its public half to the operator, who puts it into the registry: the gateway alone cannot do that.'),
      el('label', { for: 'subject' }, 'Approver'), name,
      el('div', { class: 'actions' }, el('button', {}, 'Make a passkey')), result),
  ];
}
