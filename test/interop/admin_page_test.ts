/** The page of the admin server as a person sees it: in Chromium, of running sidecars. @module */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import test from "node:test";
import { startFilePair } from "../kit/mesh/file_pair.ts";
import { type BrowserPage, openPage } from "../kit/process/browser.ts";
import { freePort, loopbackHost } from "../kit/process/ports.ts";
import { runPostern } from "../kit/process/postern.ts";
import { eventually } from "../kit/process/process.ts";
import { startCountingOrigin } from "../kit/wire/http_origin.ts";
import { RawClient, statusOf } from "../kit/wire/http_raw.ts";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

const LOOKS = [
  ...[[400, 800], [1_280, 900], [3_840, 2_160]].map(([width = 0, height = 0]) =>
    ({ scheme: "light", width, height }) as const
  ),
  ...[[400, 800], [1_280, 900], [3_840, 2_160]].map(([width = 0, height = 0]) =>
    ({ scheme: "dark", width, height }) as const
  ),
];

/** What axe-core finds, and the width of what sticks out. */
async function faultsOf(page: BrowserPage): Promise<readonly string[]> {
  const found = await page.evaluate<readonly string[]>(`
    axe.run(document, { resultTypes: ["violations"] }).then(({ violations }) =>
      violations.map(({ id, nodes }) => id + ": " + nodes.map(({ html }) => html).join(" "))
    )
  `);
  const wide = await page.evaluate<number>("document.documentElement.scrollWidth - innerWidth");
  return wide > 0 ? [...found, `${wide} pixels wider than the window`] : found;
}

async function assertFlawless(page: BrowserPage): Promise<void> {
  await page.evaluate(`${AXE}; undefined`);
  for (const look of LOOKS) {
    await page.look(look);
    assert.deepEqual(await faultsOf(page), [], JSON.stringify(look));
  }
}

const textOf = (page: BrowserPage, selector: string) =>
  page.evaluate<string>(`document.querySelector(${JSON.stringify(selector)})?.innerText ?? ""`);

const colourOf = (page: BrowserPage) =>
  page.evaluate<string>('getComputedStyle(document.querySelector("header")).backgroundColor');

const bannerSays = (page: BrowserPage, text: RegExp) =>
  eventually(`the banner says ${text}`, async () => text.test(await textOf(page, "header")));

test("the page follows a running sidecar, in both themes and at every width", async () => {
  await using origin = await startCountingOrigin();
  await using pair = await startFilePair({ protocol: "http", apps: [origin, origin] });
  const { web, upstream } = pair;
  await using page = await openPage(`http://${await web.adminAddress()}/`);
  await bannerSays(page, /^web\b[^]*Ready[^]*Live/);
  assert.equal(await colourOf(page), "rgb(23, 105, 63)");
  assert.match(await textOf(page, "#upstreams"), /Upstreams/);
  await using client = await RawClient.open(upstream);
  const ask = async () => {
    client.send("GET /orders HTTP/1.1\r\nHost: db\r\n\r\n");
    return statusOf(await client.response());
  };
  assert.equal(await ask(), 200);
  await eventually("the open connection is on the page", async () => {
    return /^1\b/.test(await textOf(page, ".figures > :nth-child(2) dd"));
  });
  await assertFlawless(page);
  // A row that stays is the same element, so that a reader keeps the place.
  await page.evaluate('document.querySelector("#paths ~ table a").focus(); undefined');
  await pair.kill(0);
  await pair.kill(1);
  for (let asked = 0; asked < 8; asked++) assert.equal(await ask(), 503);
  await bannerSays(page, /Ready, with trouble/);
  assert.equal(await page.evaluate("document.activeElement.nodeName"), "A");
  assert.match(await textOf(page, ".troubles"), /upstream db/);
  await assertFlawless(page);
  assert.deepEqual(page.problems, []);
  web.kill("SIGKILL");
  await bannerSays(page, /Disconnected since/);
  assert.notEqual(await colourOf(page), "rgb(23, 105, 63)");
});

test("the page of a sidecar that is not ready is red, and has its state without scripts", async () => {
  const host = loopbackHost();
  const agent = await freePort(host);
  await using web = runPostern([
    ...["proxy", "-sidecar-for", "web-1", "-http-addr", `${host}:${agent}`],
    ...["-admin-bind", `${host}:${await freePort(host)}`],
  ]);
  const address = await web.adminAddress();
  const { body } = await web.admin("/");
  assert.match(body, /<span>Not ready<\/span>/);
  await using page = await openPage(`http://${address}/`);
  await bannerSays(page, /Not ready[^]*Live/);
  assert.equal(await colourOf(page), "rgb(181, 25, 28)");
  await assertFlawless(page);
  assert.deepEqual(page.problems, []);
});
