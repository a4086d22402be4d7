// Scenarios of the decisions of the policy.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import { call, click, config, hashOf, identify, open, pay, see, shoot, sound, submission, text } from './page.mjs';

const PAGE = 25;
const HOSTILE = 'acct-<img src=x onerror=alert(1)><script>alert(2)</script>';

/** Submits a payment that the policy denies; returns the name of the decision. */
async function refuse(name, changes, headers = {}) {
  const answer = await fetch(`${config.base}/v1/operations/sign`, {
    method: 'POST', headers: { 'content-type': 'application/json', ...headers }, body: JSON.stringify(submission(name, changes)),
  });
  const content = await answer.json();
  assert.equal(content.error, 'policy_rejected', JSON.stringify(content));
  return content.decision_id;
}

const pageOf = (id) => `#/v1/policy/decisions/${id}`;
const named = (page) => page.$$eval('tbody td:first-child a', (links) => links.map((link) => link.title));
const value = (page, name) => page.$eval(`#filter-${name}`, (input) => input.value);
const go = (page, hash) => page.evaluate((to) => { document.querySelector('main').replaceChildren(); location.hash = to; }, hash);

/** Waits until the gateway shows of its policy what is expected. */
async function until(path, isShown) {
  for (let tries = 0; ; tries += 1) {
    const shown = await call('GET', path);
    if (isShown(shown)) return shown;
    assert(tries < 400, JSON.stringify(shown));
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** Enters a filter and sends the form; waits until the list has this address. */
async function find(page, name, words, hash) {
  await page.$eval(`#filter-${name}`, (input, words) => { input.value = words; }, words);
  await click(page, '.filters button');
  await page.waitForFunction((hash) => location.hash === hash, { polling: 50 }, hash);
}

const finds = (page, expected) => page.waitForFunction(
  (expected) => [...document.querySelectorAll('tbody td:first-child a')].map((link) => link.title).join(' ') === expected, { polling: 50, timeout: 20_000 }, expected.join(' '),
).catch(async () => assert.deepEqual(await named(page), expected, await text(page)));

export const decisions = {
  /** Refusals, previews and decisions on operations, newest first, by filters and page by page. */
  async decisions() {
    const paid = await pay('paid', { to_account: 'acct-known' });
    const hostile = await refuse('at three', { to_account: HOSTILE }, { 'x-request-id': 'at-three' });
    const zero = await refuse('zero', { to_account: 'acct-known', amount_minor: 0 });
    const page = await open({ subject: 'alice', hash: '#/decisions' });
    await see(page, 'Decisions of the policy', 'h1');
    assert.deepEqual((await named(page)).slice(0, 3), [zero, hostile, `${paid.operation_id}-1`]);
    assert.equal(await page.$eval('nav a[aria-current]', (link) => link.hash), '#/decisions');
    await shoot(page, 'list');

    // By the form, and by the address that it makes.
    await find(page, 'code', ' recipient_not_permitted ', '#/decisions?code=recipient_not_permitted');
    await finds(page, [hostile]);
    await page.reload();
    await finds(page, [hostile]);
    assert.equal(await value(page, 'code'), 'recipient_not_permitted');
    await find(page, 'idempotency_key', 'at four', '#/decisions?code=recipient_not_permitted&idempotency_key=at+four');
    await see(page, 'No decision is found.');
    await find(page, 'idempotency_key', 'at three', '#/decisions?code=recipient_not_permitted&idempotency_key=at+three');
    await finds(page, [hostile]);
    // The same search, made again, finds what is new.
    const again = await refuse('at three', { to_account: HOSTILE });
    await click(page, '.filters button');
    await finds(page, [again, hostile]);
    await go(page, '#/decisions?decision=DENY&request_id=at-three');
    await finds(page, [hostile]);
    assert.equal(await value(page, 'decision'), 'DENY');
    // Times are exact, and in the reader's zone.
    await page.emulateTimezone('America/St_Johns');
    const { at_ms: at } = await call('GET', `/v1/policy/decisions/${zero}`);
    for (const ms of [at, at - at % 1000, 1_000_000_000_123]) {
      await go(page, `#/decisions?after_ms=${ms}&before_ms=${ms}`);
      await see(page, 'No decision is found.');
      assert.equal(await page.$eval('#filter-after_ms', (input) => new Date(input.value).getTime()), ms);
      await find(page, 'subject_id', 'carol', `#/decisions?subject_id=carol&after_ms=${ms}&before_ms=${ms}`);
    }
    await go(page, `#/decisions?decision=DENY&after_ms=${at}`);
    await finds(page, [again]);
    await go(page, '#/decisions?operation_id=12');
    await see(page, '`operation_id` must be 64 lowercase hexadecimal characters', '.alert');
    assert.equal(await value(page, 'operation_id'), '12');

    // Page by page: the focus goes on with what is new.
    for (let nth = 0; nth < PAGE; nth += 1) await call('POST', '/v1/policy/preview', { intent: submission(`previewed-${nth}`) });
    await go(page, '#/decisions?subject_id=carol');
    await see(page, 'Show more');
    assert.equal((await named(page)).length, PAGE);
    await click(page, 'main p button');
    await page.waitForFunction((n) => document.querySelectorAll('tbody tr').length > n, { polling: 50 }, PAGE);
    const all = await named(page);
    assert.equal(new Set(all).size, all.length);
    assert.deepEqual(all.slice(PAGE - 1, PAGE + 3), ['preview-1', again, zero, hostile]);
    assert.equal(await page.evaluate(() => document.activeElement.title), again);

    // A part of a search may have no result although more follow: the page reads on, up to a limit.
    const shown = await call('GET', `/v1/policy/decisions/${hostile}`);
    let n_parts = 0;
    const part = (decisions) => ({ status: 200, contentType: 'application/json', body: JSON.stringify({ decisions, next_cursor: 'more' }) });
    await page.setRequestInterception(true);
    page.on('request', (request) => {
      const url = request.url();
      if (!url.includes('code=')) return request.continue();
      n_parts += 1;
      return request.respond(part(url.includes('code=rare') && n_parts > 2 ? [shown] : []));
    });
    await go(page, '#/decisions?code=rare');
    await finds(page, [hostile]);
    n_parts = 0;
    await go(page, '#/decisions?code=none');
    await see(page, 'None among the newest ones.');
    await see(page, 'Show more');
    assert.equal(n_parts, 10);
    sound(page, ['400']);
  },

  /** One decision: what a submitter wrote is text; its reasons, facts and record are shown, and what is wrong with them is said. */
  async reasons() {
    const id = await refuse('at three', { to_account: HOSTILE }, { 'x-request-id': 'at-three' });
    const page = await open({ subject: 'alice', hash: '#/decisions?request_id=at-three' });
    await click(page, 'tbody a');
    await see(page, 'The policy denied this submission', 'h1');
    for (const words of [
      'The account paid is not one that the deployment and the bundle\'s list permit.', 'recipient_not_permitted', HOSTILE, 'at-three', 'at three',
      'deployment.permitted_recipients', 'acct-known', 'nodes and authority compute it for themselves', 'none: the submission was refused', 'carol (desk)', id,
    ]) await see(page, words);
    assert.equal(await page.$('main img, main script'), null);
    const shown = await call('GET', `/v1/policy/decisions/${id}`);
    const remedies = shown.reasons.map(({ remedy }) => remedy).filter(Boolean);
    assert(remedies.length > 0, JSON.stringify(shown));
    for (const words of [...remedies, shown.bundle_hash, String(shown.fuel_used)]) await see(page, words);
    await shoot(page, 'hostile');

    // A record that is damaged, without a verdict, with a fact that only the gateway states; then one of a bundle that is not active any more.
    let changes = {
      intact: false, fault: { kind: 'trap', detail: '<b>unreachable</b>' },
      facts: [{ name: 'pending.submitter.count', value: '3', class: 'claimed' }, { name: 'moon.phase', value: null, class: null }],
    };
    await page.setRequestInterception(true);
    page.on('request', (request) => (request.url() === `${config.base}/v1/policy/decisions/${id}`
      ? request.respond({ status: 200, contentType: 'application/json', body: JSON.stringify({ ...shown, ...changes }) }) : request.continue()));
    await page.reload();
    for (const words of ['The policy failed on this submission', 'The policy gave no verdict: trap: <b>unreachable</b>', 'This record is damaged']) await see(page, words);
    const cells = await page.$$eval('tbody tr', (rows) => rows.map((row) => [...row.cells].map((cell) => cell.innerText)));
    assert.deepEqual(cells, [['pending.submitter.count', '3', 'only claimed'], ['moon.phase', 'none', 'no fact of any deployment']]);
    await shoot(page, 'damaged');
    changes = { reasons: [{ code: 'closed', operands: [], text: '', remedy: '' }], obligations: [] };
    await page.reload();
    await see(page, `operation-gateway policy explain ${id}`);
    sound(page);
  },

  /** A policy in Cedar names the rule that decided; a submission that is allowed names who must approve yet. */
  async rule() {
    const page = await open({ subject: 'alice', hash: pageOf(await refuse('zero', { amount_minor: 0 })) });
    await see(page, 'amount-not-positive, in data/policies.cedar, line 9, column 1');
    await see(page, 'submit an amount of at least 1 minor unit');
    await shoot(page, 'rule');
    const large = await pay('large');
    await go(page, pageOf(`${large.operation_id}-1`));
    await see(page, 'The policy allowed this submission', 'h1');
    for (const words of ['payment-to-permitted-recipient, in data/policies.cedar, line 5, column 1', '2 more', '1 of treasurer', 'More people must approve before the admission.']) await see(page, words);
    await shoot(page, 'missing');
    sound(page);
  },

  /** An approval that the policy denies leads to its decision, that to the operation, and that to all decisions on it. */
  async denied() {
    const { operations: [operation] } = await call('GET', '/v1/operations');
    const page = await open({ subject: 'alice', hash: hashOf(operation) });
    await click(page, '#approve');
    await see(page, 'The policy has ended it', '.alert');
    await see(page, 'recipient_not_permitted', '.alert');
    await click(page, '.alert a');
    await see(page, 'The policy denied this approval', 'h1');
    await click(page, `main a[href="${hashOf(operation)}"]`);
    await see(page, 'What approvers sign');
    await click(page, 'main a[href^="#/decisions"]');
    await finds(page, ['refusal-1', `${operation.operation_id}-1`]);
    assert.equal(await value(page, 'operation_id'), operation.operation_id);

    // Of the other family.
    const { operation: key } = await call('POST', '/v1/custody/keys', { ...config.key, key_ref: 'treasury-2' });
    await go(page, pageOf(`${key.operation_id}-1`));
    await click(page, `main a[href="${hashOf(key)}"]`);
    await see(page, 'What approvers sign');
    sound(page, ['403', '404']);
  },

  /** What the candidate would have decided otherwise, with both verdicts and their reasons; what a submitter wrote is text. */
  async candidate() {
    const evaluated = (n) => until('/v1/policy/bundles', (shown) => shown.candidate?.shadow.evaluated === n);
    const differ = (n) => until('/v1/policy/shadow', (shown) => shown.differences.length === n);
    const page = await open({ subject: 'alice', hash: '#/decisions' });
    await click(page, 'main a[href="#/decisions/candidate"]');
    const { candidate: bundle } = await evaluated(0);
    await see(page, bundle.bundle.bundle_hash);
    await see(page, 'No difference among 0 evaluated.');
    await refuse('none', { to_account: 'acct-2', amount_minor: 0, currency: 'XTS' });
    await evaluated(1);
    await page.reload();
    await see(page, 'No difference among 1 evaluated.');

    // The candidate permits few recipients. A submission that both deny has no operation, and a preview none either.
    const paid = submission('paid', { to_account: HOSTILE });
    paid.client.subject_id = HOSTILE;
    const { operation } = await call('POST', '/v1/operations/sign', paid);
    const refused = await refuse('zero', { amount_minor: 0 });
    await call('POST', '/v1/policy/preview', { intent: submission('previewed', { amount_minor: 5, currency: 'JPY' }) });
    await differ(3);
    await page.reload();
    await see(page, 'none: a preview');
    assert.equal(await page.$('main img, main script'), null);
    const shown = await page.$$eval('section.card', (cards) => cards.slice(1).map((card) => ({
      title: card.querySelector('h2').innerText, said: card.querySelector('dl').innerText,
      rows: [...card.querySelectorAll('tbody tr')].map((row) => [...row.cells].map((cell) => cell.innerText)),
    })));
    assert.deepEqual(shown.map(({ title }) => title), [
      'Payment of 5 JPY to …lier, key treasury-1', 'Payment of 0.00 EUR to …lier, key treasury-1', 'Payment of 12\u202f345.00 EUR to …ipt>, key treasury-1',
    ]);
    assert.deepEqual(shown.map(({ rows }) => rows[0]), [['Verdict', 'ALLOW', 'DENY'], ['Verdict', 'DENY', 'DENY'], ['Verdict', 'ALLOW', 'DENY']]);
    const { said, rows } = shown[2];
    assert(said.includes(`Moment\nsubmission\nSubmitted by\n${HOSTILE} (desk)`), said);
    const [, active, after] = rows.find(([name]) => name === 'Reasons');
    assert(active.includes('recipient_permitted') && !active.includes('recipient_not_permitted'), active);
    for (const words of ['recipient_not_permitted', 'The account paid is not one that', 'Add the account at', HOSTILE]) assert(after.includes(words), after);
    // Of obligations and approvals what differs.
    assert.deepEqual(shown.map(({ rows }) => rows.map(([name]) => name).join(' ')), ['Verdict Reasons', 'Verdict Reasons', 'Verdict Reasons Obligations Approvals']);
    assert.deepEqual(rows[3].slice(1).map((cell) => cell.match(/Required\s+(\d)/)[1]), ['2', '3']);
    await shoot(page, 'candidate');
    for (const [id, decision] of [[operation.operation_id, `${operation.operation_id}-1`], [(await call('GET', `/v1/policy/decisions/${refused}`)).operation_id, refused]]) {
      await click(page, `main a[href="#/decisions?operation_id=${id}"]`);
      await finds(page, [decision]);
      await go(page, '#/decisions/candidate');
    }

    // Other tenants see none of it.
    const other = await open({ subject: 'eve', tenant: 'other', hash: '#/decisions/candidate' });
    await see(other, 'None of your tenant.');
    assert.equal(await other.$('main table'), null);
    fs.rmSync(config.candidate, { recursive: true });
    await until('/v1/policy/bundles', (shown) => shown.candidate === null);
    await page.reload();
    await see(page, 'There is no candidate.');
    assert.equal(await page.$('main table, main section'), null);
    await shoot(page, 'none');
    for (const shown of [page, other]) sound(shown);
  },

  /** A reader without the scope is told which one to ask for, and sees neither an empty list nor a decision. */
  async scopes() {
    const id = await refuse('zero', { amount_minor: 0 });
    const reader = await open({});
    await identify(reader, { 'x-client-id': 'console', 'x-subject-id': 'alice', 'x-roles': 'approver', 'x-scopes': 'operations.read' });
    for (const hash of ['#/decisions', '#/decisions?decision=DENY', '#/decisions/candidate', pageOf(id), '#/log']) {
      await go(reader, hash);
      await see(reader, 'You need the scope audit.read to see this.');
      await see(reader, 'Your scopes: operations.read.');
      assert.equal(await reader.$('main form, main table'), null);
      assert(!(await text(reader)).includes('No decision'), hash);
    }
    await shoot(reader, 'scopes');
    sound(reader, ['403']);
  },
};
