// Evidence, verified in the browser by the code of `evidence verify`. The roots of trust must not come from the gateway that is checked,
// so the reader chooses a file; its public keys stay in this browser.

import { el, card, alert, code, said, table } from './elements.js';
import { check, prepare } from './checks.js';

const KEPT = 'roots';
export const keptRoots = () => localStorage.getItem(KEPT);

const VERDICTS = {
  holds: ['good', 'Everything that this page checks holds.'],
  not_checked: ['wait', 'Nothing fails, but a part is only claimed: see the checks that were not made.'],
  fails: ['bad', 'The evidence does not hold.'],
};

/** Verifies the pages of a document, and shows each check. */
export async function report(pages, operationId) {
  const roots = keptRoots();
  if (roots === null) return [alert('Choose the roots of trust first.')];
  const began = performance.now();
  try {
    const { verdict, checks } = await check({ call: 'verify', pages, roots, operation_id: operationId ?? null, now_ms: Date.now() });
    const took = Math.round(performance.now() - began);
    const [kind, words] = VERDICTS[verdict];
    return [
      el('p', { id: 'verdict', class: `state ${kind}`, role: 'status', 'data-verdict': verdict, 'data-ms': took }, words),
      table('Checks', ['Check', 'Result', 'What was found'], checks.map(({ name, status }) => {
        const [result, found] = Object.entries(status)[0];
        const [mark, shown] = { holds: ['good', 'holds'], fails: ['bad', 'fails'], not_checked: ['wait', 'not checked'] }[result];
        const faults = Array.isArray(found) ? el('ul', {}, found.map(({ at, what }) => el('li', {}, code(at || '/'), ' ', said(what)))) : said(found);
        return [name, el('span', { class: `state ${mark}` }, shown), faults];
      })),
      el('p', {}, 'Not checked here, but by the command: whether the policy answers the same when it is run again (', el('code', {}, '--bundle'), '), the nodes’ own logs (', el('code', {}, '--nodes'), '), and cosignatures of witnesses (', el('code', {}, '--witness-policy'), ').'),
      el('p', { class: 'quiet' }, `Checked on this device in ${took} ms, without the gateway.`),
    ];
  } catch (error) {
    return [alert(`Nothing was checked: ${error.message}`)];
  }
}

/** Chooses the roots of trust. */
export function rootsChooser(onchosen = () => {}) {
  const known = el('p', {});
  const show = () => {
    known.replaceChildren(keptRoots() === null
      ? 'None are chosen. The operator prints them with “operation-gateway evidence roots”, and gives them to you in a way that you trust.'
      : 'Chosen, and kept in this browser.');
  };
  const choose = async (event) => {
    localStorage.setItem(KEPT, await event.target.files[0].text());
    show();
    onchosen();
  };
  show();
  return card('Roots of trust', known,
    el('label', { for: 'roots' }, 'roots.json'), el('input', { type: 'file', id: 'roots', accept: '.json', onchange: choose }));
}

/** The page on which files are verified. */
export function verifyPage() {
  prepare();
  const result = el('div', { id: 'report' });
  const verify = async (files) => {
    result.replaceChildren(el('p', { role: 'status' }, 'Checking…'));
    result.replaceChildren(...await report(await Promise.all([...files].map((file) => file.text()))));
  };
  const drop = el('div', {
    class: 'drop',
    ondragover: (event) => { event.preventDefault(); drop.classList.add('over'); },
    ondragleave: () => drop.classList.remove('over'),
    ondrop: (event) => { event.preventDefault(); drop.classList.remove('over'); verify(event.dataTransfer.files); },
  },
  el('label', { for: 'evidence' }, 'Drop evidence here: one file, or all pages of one document'),
  el('input', { type: 'file', id: 'evidence', multiple: true, accept: '.json', onchange: (event) => verify(event.target.files) }));
  return [
    el('h1', {}, 'Verify evidence'),
    el('p', {}, 'Files are checked on this device and are not sent anywhere. This also works without a connection, once the page is loaded.'),
    rootsChooser(), card('Evidence', drop, result),
  ];
}
