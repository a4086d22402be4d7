// Scenarios of what a page is told while it is open: by the gateway, and by the other tabs of its reader.

import assert from 'node:assert/strict';
import { APPROVER, browser, call, click, config, hashOf, minimize, open, pay, see, sound, text } from './page.mjs';
import { between, counting, hurried, recording } from './ways.mjs';

/** Stops the scripts of a page, as a debugger does. Returns the session that can resume them. */
async function stop(page) {
  const tab = await page.createCDPSession();
  await tab.send('Debugger.enable');
  const stops = new Promise((resolve) => { tab.once('Debugger.paused', resolve); });
  await tab.send('Debugger.pause');
  page.evaluate(() => {}).catch(() => {});
  await stops;
  return tab;
}

export const streams = {
  /** The gateway is away for a while: the page says so, and recovers by itself. */
  async recovers() {
    const proxy = await between(config.base);
    const page = await open({ subject: 'alice', base: proxy.base });
    await see(page, 'Nothing awaits you.');
    await proxy.down();
    await see(page, 'the gateway does not answer', '#connection');
    await pay('meanwhile');
    await proxy.up();
    await see(page, 'invoice meanwhile');
    await page.waitForFunction(() => document.querySelector('#connection').innerText === '', { polling: 100 });
    await pay('later');
    await see(page, 'invoice later');

    // A machine that sleeps: the page stands still, while its connection ends and things happen.
    const tab = await stop(page);
    await proxy.down();
    await pay('asleep');
    await proxy.up();
    await tab.send('Debugger.resume');
    await see(page, 'invoice asleep');

    // A page that the browser froze, as it does with those that are hidden.
    await tab.send('Debugger.disable');
    await tab.send('Page.setWebLifecycleState', { state: 'frozen' });
    await proxy.down();
    await pay('frozen');
    await proxy.up();
    await tab.send('Page.setWebLifecycleState', { state: 'active' });
    await minimize(page);
    await minimize(page, 'normal');
    await see(page, 'invoice frozen');
    sound(page, ['ERR_CONNECTION_REFUSED', 'ERR_CONNECTION_RESET', 'ERR_EMPTY_RESPONSE', 'ERR_INCOMPLETE_CHUNKED_ENCODING', 'ERR_SOCKET_NOT_CONNECTED']);
  },

  /** Eight windows of a reader have one stream, and all are shown what happens; windows that are hidden have none. */
  async shared() {
    const proxy = await counting(config.base);
    const operation = await pay('one');
    const windows = [];
    for (let nth = 0; nth < 8; nth += 1) windows.push(await open({ subject: 'alice', base: proxy.base, scripts: [recording] }));
    for (const page of windows) await see(page, 'invoice one');
    await proxy.has(1);
    await pay('two');
    for (const page of windows) await see(page, 'invoice two');
    // There are connections left for requests.
    const href = operation.links.self.href;
    for (const page of windows) await page.evaluate((hash) => { location.hash = hash; }, `#${href}`);
    for (const page of windows) await see(page, 'What approvers sign');

    // The window with the stream is closed, and something happens before another one has it.
    const leaders = async () => (await Promise.all(windows.map((page) => page.evaluate(() => window.streams)))).map((n, nth) => (n > 0 ? nth : null)).filter((nth) => nth !== null);
    assert.equal((await leaders()).length, 1);
    proxy.holds = true;
    const [leader] = windows.splice((await leaders())[0], 1);
    await leader.close();
    await proxy.has(0);
    await call('POST', `${href}/cancel`, { reason: 'enough' }, { 'x-client-id': 'desk', 'x-subject-id': 'carol', 'x-scopes': 'operations.*' });
    await new Promise((resolve) => setTimeout(resolve, 1000));
    proxy.holds = false;
    for (const page of windows) await see(page, 'meanwhile', '#notice');
    await proxy.has(1);

    // Hidden windows have no stream, and go on where they were when they are seen again.
    for (const page of windows) await page.evaluate(() => { document.querySelector('#notice').replaceChildren(); location.hash = '#/'; });
    for (const page of windows) await see(page, 'invoice two');
    for (const page of windows) await minimize(page);
    await proxy.has(0);
    const before = proxy.n;
    await pay('asleep');
    await new Promise((resolve) => setTimeout(resolve, 2500));
    assert.equal(proxy.n, before, 'no hidden window asks for events');
    for (const page of windows) assert(!(await text(page)).includes('invoice asleep'));
    for (const page of windows.slice(0, 2)) {
      await minimize(page, 'normal');
      await see(page, 'invoice asleep');
    }
    await proxy.has(1);
    await pay('awake');
    for (const page of windows.slice(0, 2)) await see(page, 'invoice awake');
    for (const page of windows.slice(2)) await minimize(page, 'normal');
    for (const page of windows) await see(page, 'invoice awake');
    await proxy.has(1);

    // The gateway was restored from an older copy: it has not the event that the windows know.
    proxy.refuses = true;
    proxy.holds = true;
    proxy.cut();
    await pay('restored');
    proxy.holds = false;
    for (const page of windows) await see(page, 'invoice restored');
    proxy.refuses = false;
    await pay('later');
    for (const page of windows) await see(page, 'invoice later');
    await proxy.has(1);
    windows.forEach((page) => sound(page, ['410', 'ERR_INCOMPLETE_CHUNKED_ENCODING', 'ERR_CONNECTION_RESET', 'ERR_SOCKET_NOT_CONNECTED']));

    // Other readers have streams of their own, of whose names and messages nothing tells the credentials.
    const eve = await open({ subject: 'mallory', tenant: 'other', base: proxy.base, scripts: [recording] });
    await see(eve, 'There are no operations yet.');
    const token = await open({ token: 's3cret-token', base: proxy.base, scripts: [recording] });
    await proxy.has(3);
    await pay('last');
    await see(windows[0], 'invoice last');
    await see(token, 'invoice last');
    const recorded = await Promise.all([windows[0], eve, token].map((page) => page.evaluate(() => window.channels)));
    const names = new Set(recorded.flat().map(({ name }) => name));
    assert.equal(names.size, 3, [...names].join(' '));
    for (const name of names) assert.match(name, /^events-[0-9a-f]{64}$/);
    const said = JSON.stringify(recorded);
    assert(!said.includes('s3cret') && !said.includes('mallory'), said);
    assert(JSON.stringify(recorded[0]).includes(operation.operation_id) && !JSON.stringify(recorded[1]).includes('operation_id'), said);
    sound(eve);

    // The reader of a window changes: it leaves the stream of the one before.
    await click(windows[0], '#who');
    await windows[0].waitForSelector('#subject');
    await windows[0].evaluate(() => { document.querySelector('#subject').value = 'mallory'; document.querySelector('#tenant').value = 'other'; });
    await click(windows[0], 'form .actions button');
    await see(windows[0], 'There are no operations yet.');
    await proxy.has(3);
    await pay('after');
    await see(windows[1], 'invoice after');
    assert(!(await text(windows[0])).includes('invoice'));
  },

  /** What happened before a page was seen, or before it knew its place in the log, is shown or said when it is seen. */
  async unseen() {
    const proxy = await counting(config.base);
    const [one, two] = [await pay('one'), await pay('two')];
    const opened = await open({ subject: 'alice', base: proxy.base, hash: hashOf(one), hidden: true });
    await new Promise((resolve) => setTimeout(resolve, 1000));
    assert.equal(proxy.n, 0, 'a hidden window asks for no events');
    proxy.holds = true;
    const hidden = await open({ subject: 'alice', base: proxy.base, hash: hashOf(two) });
    await hidden.waitForSelector('#approve');
    await minimize(hidden);
    for (const operation of [one, two]) await call('POST', `${operation.links.self.href}/approve`, { subject_id: 'bob', ...APPROVER });
    proxy.holds = false;
    await minimize(opened, 'normal');
    await see(opened, '1 of 2: bob');
    await opened.waitForSelector('#approve');
    await minimize(hidden, 'normal');
    await see(hidden, 'This operation may have changed meanwhile.', '#notice');
    assert.equal(await text(opened, '#notice'), '', 'it shows what is so');
    for (const page of [opened, hidden]) sound(page);
  },

  /** A window takes the stream from one that is silent, and only from such a one. It says when the gateway is silent. */
  async silent() {
    const proxy = await counting(config.base, '', { beatMs: 500 });
    const open_ = () => open({ subject: 'alice', base: proxy.base, scripts: [recording, hurried] });
    const first = await open_();
    await proxy.has(1);
    const second = await open_();
    for (const page of [first, second]) await see(page, 'Nothing awaits you.');
    let n = proxy.n;
    await new Promise((resolve) => setTimeout(resolve, 9000));
    assert.equal(proxy.n, n, 'a quiet gateway is not a silent window');
    await second.evaluate(() => { const now = Date.now.bind(Date); Date.now = () => now() + 3_600_000; });
    await new Promise((resolve) => setTimeout(resolve, 1000));
    assert.equal(proxy.n, n, 'a computer that slept heard nothing meanwhile');

    // The window with the stream stands still. What happens until another one takes the stream is shown, also by a new window.
    assert.equal(await first.evaluate(() => window.streams), 1);
    await stop(first);
    await pay('unheard');
    await see(second, 'invoice unheard');
    assert.equal(proxy.n, n += 1);
    await stop(second);
    const third = await open_();
    await see(third, 'invoice unheard');
    await pay('new');
    await see(third, 'invoice new');

    // A gateway that takes the request for the stream and says nothing.
    proxy.holds = true;
    proxy.cut();
    await see(third, 'the gateway does not answer', '#connection');
    await pay('held');
    proxy.holds = false;
    await see(third, 'invoice held');
    await third.waitForFunction(() => document.querySelector('#connection').innerText === '', { polling: 100 });
    sound(third, ['ERR_INCOMPLETE_CHUNKED_ENCODING', 'ERR_CONNECTION_RESET', 'ERR_SOCKET_NOT_CONNECTED']);
  },

  /** What happens while a page is loading is shown when it is there; what happens all the time does not keep it from being there. */
  async loading() {
    const [one, two] = [await pay('one'), await pay('two')];
    const page = await open({ subject: 'alice', hash: hashOf(one) });
    await page.waitForSelector('#approve');
    await page.setRequestInterception(true);
    let answer = async (request) => {
      if (!request.url().endsWith(two.links.self.href)) return request.continue();
      const body = await (await fetch(request.url(), { headers: request.headers() })).text();
      await call('POST', `${two.links.self.href}/approve`, { subject_id: 'bob', ...APPROVER });
      await new Promise((resolve) => setTimeout(resolve, 1500));
      answer = (request) => request.continue();
      return request.respond({ status: 200, contentType: 'application/json', body });
    };
    page.on('request', (request) => answer(request));
    await page.evaluate((hash) => { location.hash = hash; }, hashOf(two));
    await see(page, 'invoice two');
    await see(page, 'This operation has changed meanwhile.', '#notice');

    answer = async (request) => {
      await new Promise((resolve) => setTimeout(resolve, 1500));
      return request.continue();
    };
    await page.evaluate(() => { location.hash = '#/'; });
    await see(page, 'Awaiting you');
    await page.waitForNetworkIdle({ concurrency: 1, idleTime: 2000 });
    let isSeen = false;
    const seen = see(page, 'invoice often-').finally(() => { isSeen = true; });
    for (let nth = 0; !isSeen; nth += 1) {
      await pay(`often-${nth}`);
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    await seen;
    answer = (request) => request.continue();
    sound(page);
  },
};
