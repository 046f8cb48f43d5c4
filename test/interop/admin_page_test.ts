/** The page of the admin server as a person sees it: in Chromium, of running sidecars. @module */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import test from "node:test";
import { type BrowserPage, type Looks, openPage } from "../kit/process/browser.ts";
import { freePorts, loopbackHost } from "../kit/process/ports.ts";
import { runPostern } from "../kit/process/postern.ts";
import { eventually } from "../kit/process/process.ts";
import { startShopMesh } from "./admin_page_mesh.ts";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

const DESK: Looks = { scheme: "light", width: 1_280, height: 900 };
const LOOKS: readonly Looks[] = [
  { scheme: "light", width: 400, height: 800 },
  DESK,
  { scheme: "light", width: 3_840, height: 2_160 },
  { scheme: "dark", width: 400, height: 800 },
  { scheme: "dark", width: 1_280, height: 900 },
  { scheme: "dark", width: 3_840, height: 2_160 },
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

/** Ten processes share the processor with whatever else runs. */
const SAY_TIMEOUT_MS = 90_000;
const FILLS = { ok: "rgb(23, 105, 63)", warn: "rgb(242, 176, 30)", bad: "rgb(181, 25, 28)" };

const textOf = (page: BrowserPage, selector: string) =>
  page.evaluate<string>(`document.querySelector(${JSON.stringify(selector)})?.innerText ?? ""`);

const colourOf = (page: BrowserPage) =>
  page.evaluate<string>('getComputedStyle(document.querySelector("header")).backgroundColor');

/** Waits until the element's text matches. */
const says = (page: BrowserPage, selector: string, text: RegExp) =>
  eventually(`${selector} says ${text}`, async () => text.test(await textOf(page, selector)), {
    timeoutMs: SAY_TIMEOUT_MS,
  });

test("the page follows a sidecar at work, in both themes and at every width", async () => {
  await using shop = await startShopMesh();
  await using page = await openPage(`http://${await shop.orders.adminAddress()}/`);
  await page.look(DESK);
  await says(page, "header", /^orders\b[^]*Ready, with trouble[^]*Live/);
  assert.equal(await colourOf(page), FILLS.warn);
  assert.match(await textOf(page, ".troubles"), /upstream mail has no healthy instance/);
  await says(page, ".callers", /checkout\n[1-9][^]*batch\n[^]*100 % errors/);
  await says(page, ".upstreams", /mail\s+not usable\n[^]*payments\s+healthy\n[1-9]/);
  await says(page, "#upstreams ~ *", /no endpoint/);
  await says(page, '[aria-label="upstream payments"]', /GET \/health\*[^]*80 %[^]*20 %/);
  await says(page, '[aria-label="upstream stock"]', /ejected for/);
  await says(page, "#refusals ~ table", /batch[^]*intention_denied, status 403/);
  await says(page, "#slow ~ table", /GET \/orders/);
  await says(page, "#connections ~ table", /checkout\s+orders\s+HTTP\/1\.1, \d+ request/);
  await says(page, "#intentions ~ table", /checkout[^]*allow\s+\d/);
  await says(page, "#certificates ~ table", /leaf[^]*expires in/);
  await says(page, "#peers ~ ul", /checkout\s+ready\n[1-9][^]*batch[^]*spiffe:/);
  // A row that stays is the same element, so that a reader keeps the place.
  await page.evaluate('document.querySelector("#paths ~ table a").focus(); undefined');
  const before = await textOf(page, "#connections ~ table");
  await eventually("the numbers change", async () => {
    return await textOf(page, "#connections ~ table") !== before;
  });
  assert.equal(await page.evaluate("document.activeElement.nodeName"), "A");
  await assertFlawless(page);
  await page.look(DESK);
  const isStreamed = () =>
    page.evaluate<boolean>('document.querySelector("[data-last-event]").dataset.own === ""');
  await eventually("events are streamed", isStreamed, { timeoutMs: SAY_TIMEOUT_MS });
  // Nothing else is read any more.
  await page.evaluate("fetch = () => new Promise(() => {}); undefined");
  await shop.deny("mobile");
  await says(page, "#events ~ table", /intention mobile => orders changed from .* to deny/);
  assert.deepEqual(page.problems, []);
  await page.visit(`http://${await shop.checkout.adminAddress()}/`);
  await says(page, "header", /^checkout\b[^]*Ready[^]*Live/);
  assert.equal(await colourOf(page), FILLS.ok);
  shop.checkout.kill("SIGKILL");
  await says(page, "header", /Disconnected since/);
  assert.notEqual(await colourOf(page), FILLS.ok);
});

test("the page of a sidecar that is not ready is red, and has its state without scripts", async () => {
  const host = loopbackHost();
  const [agent = 0, admin = 0] = await freePorts(host, 2);
  await using web = runPostern([
    ...["proxy", "-sidecar-for", "web-1", "-http-addr", `${host}:${agent}`],
    ...["-admin-bind", `${host}:${admin}`],
  ]);
  const address = await web.adminAddress();
  const { body } = await web.admin("/");
  assert.match(body, /<span>Not ready<\/span>/);
  await using page = await openPage(`http://${address}/`);
  await says(page, "header", /Not ready[^]*Live/);
  assert.equal(await colourOf(page), FILLS.bad);
  await assertFlawless(page);
  assert.deepEqual(page.problems, []);
});
