/** A registered sidecar's own credentials: `postern_tls` in its registration. */

import assert from "node:assert/strict";
import { rm } from "node:fs/promises";
import test from "node:test";
import { createServer } from "node:tls";
import { EchoClient, expectRefused, waitForEcho, waitForRefusal } from "../kit/wire/echo.ts";
import type { Agents, Mesh } from "../kit/mesh/mesh.ts";
import { freePort } from "../kit/process/ports.ts";
import { eventually, pause } from "../kit/process/process.ts";
import { inlineBundle, startSdsServer } from "../kit/secrets/sds_server.ts";
import { CredentialsStory } from "../kit/mesh/sidecar_credentials.ts";
import { probeTls, serialOf } from "../kit/wire/tls_probe.ts";
import { TlsSession, TlsTraffic } from "../kit/wire/tls_session.ts";
import type { Postern } from "../kit/process/postern.ts";

export function sidecarCredentials(agents: Agents): void {
  for (
    const [name, story] of [
      ["a certificate from files is rotated, spoiled and removed unnoticed", fileCertificateStory],
      ["credentials that make no sense at the start keep the listener closed", badAtStartStory],
      ["a file for the certificate, SDS for the bundle, Consul for the rest", mixedSourcesStory],
      ["an upstream to a server outside the mesh goes by rules of its own", outsideTheMeshStory],
      ["a restart with the agent away keeps what is the sidecar's own", stateDirectoryStory],
    ] as const
  ) {
    test(name, { timeout: 240_000 }, async () => {
      await using mesh = await agents.start({ defaultIntentionPolicy: "deny" });
      await story(mesh);
    });
  }
}

const HELLO = new TextEncoder().encode("hello");

function refusedReason(postern: Postern, reason: RegExp, timeoutMs = 30_000) {
  return postern.process.waitFor(
    new RegExp(`configuration refused[^\\n]*${reason.source}`),
    { timeoutMs },
  );
}

/** Certificate from files, rotated, replaced by a bad one and taken away; no client notices. */
async function fileCertificateStory(agent: Mesh): Promise<void> {
  await using story = await CredentialsStory.start(agent);
  const first = await story.writePair("db");
  const certificate = { source: "file", cert: story.path("db.pem"), key: story.path("db.key") };
  await story.register({ postern_tls: { certificate } });
  const db = story.run();
  await db.waitReady();
  await story.shows(first);

  // Consul still decides about callers: its roots, and its intentions.
  assert.equal((await story.probeAs("batch")).accepted, false);
  assert.equal((await story.probeAsStranger()).accepted, false);
  assert.equal((await probeTls(story.place)).accepted, false);

  const { CertPEM, PrivateKeyPEM } = await story.leaf("web");
  await using traffic = new TlsTraffic(story.place, {
    client: { cert: CertPEM, key: PrivateKeyPEM },
  });
  const second = await story.writePair("db");
  assert.notEqual(second, first);
  await story.shows(second);

  await story.register({ postern_tls: { certificate: { ...certificate, source: "flie" } } });
  await refusedReason(db, /postern_tls\.certificate\.source/);
  await story.shows(second);
  assert.equal((await db.admin("/ready")).status, 200);

  // Half of a change: the new file is not there, so the old one stays.
  await story.register({
    postern_tls: { certificate: { ...certificate, cert: story.path("no.pem") } },
  });
  await pause(300);
  await story.shows(second);
  await story.register({ postern_tls: { certificate } });
  await story.shows(second);

  await story.register({});
  const own = await story.leaf("db");
  await story.shows(serialOf(own.CertPEM));

  // The way back works as well, with no moment between.
  await story.register({ postern_tls: { certificate } });
  await story.shows(second);
  const { errors, handshakes, exchanges } = await traffic.stop({ atLeast: 21 });
  assert.deepEqual(errors, []);
  assert.ok(handshakes > 20 && exchanges > 20, `${handshakes} handshakes, ${exchanges} exchanges`);
}

/** A listener whose configuration is invalid stays closed, and the log names the path. */
async function badAtStartStory(agent: Mesh): Promise<void> {
  await using story = await CredentialsStory.start(agent);
  await story.register({ postern_tls: { certificate: { source: "flie" } } });
  const db = story.run();
  await refusedReason(db, /postern_tls\.certificate\.source must be/);
  await expectRefused(story.place);
  await pause(500);
  assert.deepEqual(await story.probeAs("web"), { accepted: false, alert: "refused" });
  await eventually("/ready says what it waits for", async () => {
    const { status, body } = await db.admin("/ready");
    return status === 503 &&
      /^waiting for credentials of inbound [^\n]*postern_tls\.certificate\.source must/m.test(body);
  });

  const serial = await story.writePair("db");
  await story.register({
    postern_tls: {
      certificate: { source: "file", cert: story.path("db.pem"), key: story.path("db.key") },
    },
  });
  await story.shows(serial);
  await db.waitReady();
}

/** A file for the certificate, SDS for the bundle, Consul for the rest. */
async function mixedSourcesStory(agent: Mesh): Promise<void> {
  await using sds = await startSdsServer();
  await using story = await CredentialsStory.start(agent);
  const serial = await story.writePair("db");
  const address = sds.address.kind === "unix" ? `unix://${sds.address.path}` : "";
  const postern_tls = {
    certificate: { source: "file", cert: story.path("db.pem"), key: story.path("db.key") },
    // State of the world: there a server is silent about names that it does not have yet.
    validation: {
      source: "sds",
      cluster: "sds_cluster",
      name: "roots",
      api: "sotw",
      initialFetchTimeout: "0s",
    },
    sds_clusters: { sds_cluster: { address } },
  };
  await story.register({ postern_tls });
  const db = story.run();
  await sds.seen(({ request }) => JSON.stringify(request).includes("roots"));
  await db.adminAddress();
  await expectRefused(story.place);
  assert.notEqual((await db.admin("/ready")).status, 200);
  await eventually("it waits for the roots", async () => {
    return /^waiting for secrets of inbound \(roots/m.test((await db.admin("/ready")).body);
  });
  await expectRefused(story.place);

  sds.set(inlineBundle("roots", await story.meshRoots()));
  await db.waitReady();
  await story.shows(serial);
  assert.equal((await story.probeAs("batch")).accepted, false, "intentions are Consul's");
  const { CertPEM, PrivateKeyPEM } = await story.leaf("web");
  const client = { cert: CertPEM, key: PrivateKeyPEM };
  using staying = await TlsSession.open(story.place, { client });

  // The CA of another authority now decides: the mesh's own callers are refused, and their open
  // connections end. A caller that is no service of the mesh gets the default.
  sds.set(inlineBundle("roots", story.other.rootPem));
  await eventually("web is refused", async () => !(await story.probeAs("web")).accepted);
  assert.equal((await story.probeAsStranger()).accepted, false);
  // Its SPIFFE id ends like web's, and is another trust domain's.
  await db.process.waitFor(/source=spiffe:\/\/other\.test\/[^\n]*svc\/web [^\n]*intention_denied/, {
    timeoutMs: 20_000,
  });
  assert.ok(await staying.ends({ timeoutMs: 20_000 }), "the open connection was judged again");
}

/** An upstream to a server outside the mesh, by roots and names of its own. */
async function outsideTheMeshStory(agent: Mesh): Promise<void> {
  await using story = await CredentialsStory.start(agent);
  const { host } = story.agent;
  const good = story.other.issueLeaf({ service: "x", uri: "spiffe://other.test/legacy" });
  const bad = story.other.issueLeaf({ service: "x", uri: "spiffe://other.test/else" });
  const shown: (string | undefined)[] = [];
  const serve = (leaf: { readonly certPem: string; readonly keyPem: string }) => {
    const server = createServer({
      cert: leaf.certPem,
      key: leaf.keyPem,
      ca: story.other.rootPem,
      requestCert: true,
      rejectUnauthorized: true,
    }, (socket) => {
      shown.push(socket.getPeerCertificate().subjectaltname);
      socket.on("error", () => {});
      socket.pipe(socket);
    });
    server.on("tlsClientError", () => {});
    return server;
  };
  const client = story.other.issueLeaf({ service: "x", uri: "spiffe://other.test/db" });
  await story.writePair("client", client);
  await story.writePair("roots", { certPem: story.other.rootPem, keyPem: "" });
  await rm(story.path("roots.key"));
  const port = await freePort(host);
  await story.agent.put("/v1/agent/service/register", {
    Name: "legacy",
    ID: "legacy-1",
    Address: host,
    Port: port,
    Connect: { Native: true },
  });
  const upstream = { name: "legacy", port: await freePort(host) };
  const tls = (value: string) => ({
    source: "file",
    cert: story.path("client.pem"),
    key: story.path("client.key"),
    ca: story.path("roots.pem"),
    sanMatchers: [{ type: "uri", exact: value }],
  });
  const register = (value: string) =>
    story.register({}, [{ ...upstream, config: { postern_tls: tls(value) } }]);
  await register("spiffe://other.test/legacy");
  let legacy = serve(good);
  await new Promise<void>((resolve) => legacy.listen(port, host, resolve));
  try {
    const db = story.run();
    await db.waitReady();
    const local = { host, port: upstream.port };
    await waitForEcho(local);
    assert.deepEqual([...new Set(shown)], ["URI:spiffe://other.test/db"]);
    const open = await EchoClient.open(local);
    await open.exchange(HELLO);

    // The expected identity of the upstream changes: open connections are judged again.
    await register("spiffe://other.test/nobody");
    await eventually("the open connection is ended", () => open.isOver);
    await expectRefused(local);
    await register("spiffe://other.test/legacy");
    await waitForEcho(local);
    // All TLS servers of a Deno process take each other's tickets, as if they were one: for the 30 s
    // that a ticket of ours lives, this is still the server that was proven.
    await new Promise((resolve) => legacy.close(resolve));
    legacy = serve(bad);
    await new Promise<void>((resolve) => legacy.listen(port, host, resolve));
    await waitForRefusal(local, { timeoutMs: 60_000 });
  } finally {
    await new Promise((resolve) => legacy.close(resolve));
  }
}

/** With the agent away, and the proxy started anew: its own credentials are those it had. */
async function stateDirectoryStory(agent: Mesh): Promise<void> {
  await using story = await CredentialsStory.start(agent);
  const serial = await story.writePair("db");
  const certificate = { source: "file", cert: story.path("db.pem"), key: story.path("db.key") };
  await story.register({ postern_tls: { certificate } });
  const args = ["-state-dir", story.path("state")];
  const first = story.run(...args);
  await first.waitReady();
  await story.shows(serial);
  const { CertPEM, PrivateKeyPEM } = await story.leaf("web");
  const client = { cert: CertPEM, key: PrivateKeyPEM };
  await eventually("its state is written", async () => {
    return (await first.metric("postern_snapshot_stored_seconds")) > 0;
  });
  await first.stop();
  await agent.kill();
  const second = story.runById(...args);
  await second.waitReady();
  const outcome = await probeTls(story.place, { cert: CertPEM, key: PrivateKeyPEM });
  assert.ok(outcome.accepted && outcome.serial === serial, JSON.stringify(outcome));

  await using traffic = new TlsTraffic(story.place, { client });
  await agent.start();
  await story.register({ postern_tls: { certificate } });
  const next = await story.writePair("db");
  await eventually("the rotated certificate is shown", async () => {
    const shown = await probeTls(story.place, { cert: CertPEM, key: PrivateKeyPEM });
    return shown.accepted && shown.serial === next;
  }, { timeoutMs: 30_000 });
  const { errors, handshakes } = await traffic.stop({ atLeast: 6 });
  assert.deepEqual(errors, []);
  assert.ok(handshakes > 5, `${handshakes} handshakes`);
}
