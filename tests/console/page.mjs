// A gateway and the pages of its console, in headless Chromium, for the scenarios.

import assert from 'node:assert/strict';
import puppeteer from 'puppeteer-core';

export const config = JSON.parse(process.argv[3]);
export const APPROVER = { roles: ['approver'], approved_at_ms: 1 };
export let browser;

export async function call(method, path, body, headers = {}) {
  const answer = await fetch(config.base + path, {
    method, headers: { 'content-type': 'application/json', ...headers }, body: body && JSON.stringify(body),
  });
  const content = await answer.json();
  assert.equal(answer.status, 200, JSON.stringify(content));
  return content;
}

/** The body of a submission. */
export function submission(name, changes = {}) {
  const payment = { from_account: 'acct-operating', to_account: 'acct-supplier', amount_minor: 1234500, currency: 'EUR', reference: `invoice ${name}`, ...changes };
  return {
    idempotency_key: name, key_ref: 'treasury-1', payment, requested_participants: [0, 1, 2], threshold: 2, publication_mode: 'manual',
    client: { client_id: 'desk', subject_id: 'carol', roles: ['operator'], scopes: ['operations.sign'] },
  };
}

export const pay = async (name, changes) => (await call('POST', '/v1/operations/sign', submission(name, changes))).operation;

/** A page whose errors, and requests to other hosts, fail the scenario. */
export async function watched(context, base = config.base) {
  // In a window of its own, since tabs behind another one are hidden.
  const page = await context.newPage({ type: 'window' });
  page.faults = [];
  page.on('pageerror', (error) => page.faults.push(String(error)));
  page.on('console', (message) => message.type() === 'error' && page.faults.push(`${message.text()} ${message.location().url ?? ''}`));
  page.on('request', (request) => {
    const url = new URL(request.url());
    if (url.host !== new URL(base).host && !['blob:', 'data:'].includes(url.protocol)) page.faults.push(`asks another host: ${url}`);
  });
  await page.setViewport({ width: 1200, height: 900 });
  return page;
}

/** A page of the console at this address, read by `subject` in the role of an approver. */
export async function open({ subject, token, tenant, hash = '', base = config.base, context = browser, roles = 'approver', scripts = [], hidden = false } = {}) {
  const page = await watched(context, base);
  if (hidden) await minimize(page);
  for (const script of scripts) await page.evaluateOnNewDocument(script);
  await page.evaluateOnNewDocument((reader) => { if (reader && location.protocol === 'http:' && !sessionStorage.getItem('reader')) sessionStorage.setItem('reader', reader); },
    subject || token ? JSON.stringify(token ? { token } : { subject, roles, tenant }) : null);
  await page.goto(`${base}/console/${hash}`);
  if (!hidden) await page.waitForSelector('main h1');
  return page;
}

/** Sends these headers in the place of the reader's, as a proxy does. */
export async function identify(page, identity) {
  await page.setRequestInterception(true);
  page.on('request', (request) => request.continue({ headers: { ...request.headers(), ...identity } }));
}

export const text = (page, selector = 'main') => page.$eval(selector, (element) => element.innerText);

export async function see(page, words, selector = 'main') {
  const wait = page.waitForFunction((selector, words) => document.querySelector(selector)?.innerText.includes(words), { timeout: 20_000, polling: 100 }, selector, words);
  await wait.catch(async () => assert.fail(`no “${words}” in:\n${await text(page)}`));
}

export const sound = (page, but = []) => assert.deepEqual(page.faults.filter((fault) => !but.some((part) => fault.includes(part))), []);
export const shoot = (page, name) => page.screenshot({ path: `${config.folder}/${name}.png`, fullPage: true });

export async function click(page, selector) {
  await page.waitForSelector(selector);
  await page.$eval(selector, (element) => element.click());
}

export const hashOf = (operation) => `#${operation.links.self.href}`;

/** Hides the window of a page, or shows it again. */
export async function minimize(page, windowState = 'minimized') {
  const session = await page.createCDPSession();
  const { windowId } = await session.send('Browser.getWindowForTarget');
  await session.send('Browser.setWindowBounds', { windowId, bounds: { windowState } });
  await page.waitForFunction((state) => document.visibilityState === state, { polling: 50 }, windowState === 'normal' ? 'visible' : 'hidden');
}

// On a busy machine Chromium sometimes dies of a signal before it is there. That says nothing of the gateway, so it is started anew.
async function launch(attempts) {
  try {
    return await puppeteer.launch({ executablePath: config.chromium, args: ['--no-sandbox', '--disable-dev-shm-usage'] });
  } catch (error) {
    if (attempts === 1) throw error;
    console.log(`Chromium did not start, and is started again: ${error.message}`);
    return launch(attempts - 1);
  }
}

export async function start() {
  browser = await launch(3);
}
