/** Files that come after the proxy: it waits, logs for which, and needs no signal. */
import assert from "node:assert/strict";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import test from "node:test";
import { createAuthority } from "../../kit/certs/certificates.ts";
import { inTime } from "../../kit/clock/long.ts";
import { eventually, pause } from "../../kit/process/process.ts";
import { probeTls } from "../../kit/wire/tls_probe.ts";
import { clientPair } from "../../kit/wire/tls_session.ts";
import { FileListener } from "./file_listener.ts";

/** Minutes are the same as seconds here: retries have long reached their longest pause. */
const LATE_MS = 8_000;

/** Longer than it takes, on any machine, to look at a listener that has just been started. */
const WAIT_MS = 5_000;
const LATE = "secret did not come in time";

const authority = createAuthority();
const client = clientPair(authority.issueLeaf({ service: "shop" }));

test("a listener opens when its late files arrive, and /ready names them until then", async () => {
  const leaf = authority.issueLeaf({ service: "web" });
  await using listener = await FileListener.start({}, {
    cert: "tls/web.crt",
    key: "tls/web.key",
    ca: "ca.pem",
    initialFetchTimeout: "600s",
  });
  // The admin server may be there before the configuration has been read.
  const waiting = await eventually("what is waited for", async () => {
    const answer = await listener.postern.admin("/ready");
    return /waiting for .*web\.crt/.test(answer.body) && answer;
  });
  assert.equal(waiting.status, 503);
  assert.match(waiting.body, /ca\.pem/);
  assert.equal(await listener.place(), undefined);
  await listener.write({ "ca.pem": authority.rootPem });
  await eventually("only the certificate is waited for", async () => {
    const { body } = await listener.postern.admin("/ready");
    return /web\.crt/.test(body) && !/ca\.pem/.test(body);
  });
  await pause(LATE_MS);
  assert.equal(await listener.place(), undefined, "opened without its certificate");
  await mkdir(join(listener.directory, "tls"));
  await listener.write({ "tls/web.crt": leaf.certPem, "tls/web.key": leaf.keyPem });
  await withinSeconds(() => listener.shows(leaf, client));
  await listener.postern.waitReady();
});

test("after its time to wait a listener opens and refuses, until the files come", async () => {
  const leaf = authority.issueLeaf({ service: "web" });
  await using listener = await FileListener.start({ "ca.pem": authority.rootPem }, {
    cert: "web.crt",
    key: "web.key",
    ca: "ca.pem",
    initialFetchTimeout: `${WAIT_MS / 1_000}s`,
  });
  assert.equal(await listener.place(), undefined);
  const place = await listener.open();
  const outcome = await probeTls(place, client);
  assert.equal(outcome.accepted, false);
  await eventually("it is logged", () => listener.lines(LATE).length > 0);
  await eventually("refusals are counted", async () => {
    return await listener.postern.metric("postern_secrets_not_ready_total") > 0;
  });
  const { status, body } = await listener.postern.admin("/ready");
  assert.equal(status, 503);
  assert.match(
    body,
    /^listener inbound refuses every connection: .*are missing: .*web\.crt.*not come/m,
  );
  assert.equal(await listener.postern.metric("postern_listener_usable"), 0);
  await listener.write({ "web.crt": leaf.certPem, "web.key": leaf.keyPem });
  await withinSeconds(() => listener.shows(leaf, client));
  assert.equal(listener.lines(LATE).length, 1);
  await listener.postern.waitReady();
});

/** Found by the system's file events, not by a retry. */
async function withinSeconds(story: () => Promise<unknown>): Promise<void> {
  const started = performance.now();
  await story();
  inTime("files that came late are shown", performance.now() - started, 2_000);
}
