/**
 * A session with three real servers, TLS and ACLs on: it moves on when the server in use is killed,
 * hangs or shuts down, and when a token is deleted it reports that and goes on with the next.
 *
 * @module
 */

import assert from "node:assert/strict";
import test from "node:test";
import { createLog, type ProxyError, Stats, systemClock } from "../../src/base/mod.ts";
import {
  GET_BOOTSTRAP_PARAMS,
  GET_FEATURES,
  WATCH_ROOTS,
} from "../../src/consul/servers/methods.ts";
import type { Roots } from "../../src/consul/mod.ts";
import { ServersSession } from "../../src/consul/servers/session.ts";
import { runtimeEngine } from "../../src/net/mod.ts";
import { createAuthority } from "../kit/certs/certificates.ts";
import { type Cluster, SERVER_NAME, startCluster } from "../kit/mesh/cluster.ts";
import { OPTIONS, ScriptedToken } from "../kit/consul/session_rig.ts";
import { eventually } from "../kit/process/process.ts";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

interface Running extends Disposable {
  readonly session: ServersSession;
  readonly token: ScriptedToken;
  readonly roots: Roots[];
  readonly errors: ProxyError[];
}

function start(
  cluster: Cluster,
  tls: { readonly caFile: string; readonly serverName: string },
  secret: string,
): Running {
  const token = new ScriptedToken();
  token.value = secret;
  const session = new ServersSession({
    ...OPTIONS,
    places: { kind: "names", names: cluster.members.map(({ host }) => host) },
    grpcPort: cluster.grpcPort,
    tls: { caPath: "", certFile: "", keyFile: "", verify: true, ...tls },
  }, {
    engine: runtimeEngine(),
    clock: systemClock,
    random: Math.random,
    stats: new Stats(),
    log: createLog({ clock: systemClock, holder: { level: "error" }, write: () => {} }),
    token,
  });
  const roots: Roots[] = [];
  const errors: ProxyError[] = [];
  session.follow(WATCH_ROOTS, null, {
    onMessage: (message) => void roots.push(message),
    onError: (error) => void errors.push(error),
  });
  return { session, token, roots, errors, [Symbol.dispose]: () => session.close() };
}

async function newToken(
  cluster: Cluster,
): Promise<{ readonly id: string; readonly secret: string }> {
  const token = { ServiceIdentities: [{ ServiceName: "web" }] };
  const { AccessorID, SecretID } = JSON.parse(await cluster.put("/v1/acl/token", token));
  return { id: `${AccessorID}`, secret: `${SecretID}` };
}

/** The roots came again, and from another server, after what `lose` did to the one in use. */
async function moves(
  { session, roots }: Running,
  { cluster, lose }: { readonly cluster: Cluster; readonly lose: (index: number) => unknown },
): Promise<void> {
  const server = session.current;
  const { length } = roots;
  const index = cluster.members.findIndex(({ host }) => host === server?.host);
  await lose(index);
  await eventually("the session has moved", () => {
    return session.current && session.current !== server && roots.length > length;
  }, { timeoutMs: 20_000 });
  assert.notEqual(session.current?.host, server?.host);
  assert.deepEqual(roots.at(-1)?.roots, roots[0]?.roots);
}

test("a session survives failures of real servers", async () => {
  await using cluster = await startCluster({ servers: 3, acl: true, tls: true });
  const { caFile } = cluster.tls;
  const first = await newToken(cluster);
  using running = start(cluster, { caFile, serverName: SERVER_NAME }, first.secret);
  const { session, token, roots, errors } = running;
  await eventually("the servers are known", () => session.status.known.length === 3);
  await eventually("the roots are there", () => roots.length === 1);
  assert.match(roots[0]?.trustDomain ?? "", /^[0-9a-f-]{36}\.consul$/);
  const { signs, watchServers } = await session.call(GET_FEATURES, null, { timeoutMs: 5_000 });
  assert.ok(signs && watchServers);

  await refusesStrangers(cluster, first.secret);

  // A deleted token ends the streams that it opened; the next one opens them again.
  const next = await newToken(cluster);
  await cluster.call("DELETE", `/v1/acl/token/${first.id}`);
  // The session's own stream of servers may end before the stream of roots, which alone reports here.
  await eventually("the deleted token is rejected", () => {
    return token.rejections.includes(first.secret) && errors.at(-1)?.code === "agent_forbidden";
  }, { timeoutMs: 20_000 });
  token.change(next.secret);
  await eventually("the roots come with the next token", () => roots.length === 2);

  await moves(running, { cluster, lose: (index) => cluster.killServer(index) });
  await cluster.startServer(cluster.members.findIndex(({ process }) => !process));
  await cluster.waitForHealth();
  await moves(running, {
    cluster,
    async lose(index) {
      cluster.hang(index);
      const request = { nodeName: "n", proxyId: "p", namespace: "", partition: "" };
      const ask = () => session.call(GET_BOOTSTRAP_PARAMS, request, { timeoutMs: 500 });
      // A call that it had begun when it was stopped may still be answered.
      await eventually("it does not answer", async () => {
        const code = await ask().catch((error) => error.code);
        return code === "agent_unreachable";
      });
    },
  });
  cluster.resume(cluster.members.findIndex(({ hung }) => hung));
  await cluster.waitForHealth();
  await moves(running, { cluster, lose: (index) => cluster.stopServer(index) });
});

/** A server that shows the wrong certificate gets no token. */
async function refusesStrangers(cluster: Cluster, secret: string): Promise<void> {
  const directory = await mkdtemp(join(tmpdir(), "postern-session-"));
  try {
    const stranger = join(directory, "ca.pem");
    await writeFile(stranger, createAuthority().rootPem);
    for (
      const [caFile, serverName, wanted] of [
        [cluster.tls.caFile, "server.dc2.consul", /none of its alternative names/],
        [stranger, SERVER_NAME, /not trusted|unable to|unknown|certificate/i],
      ] as const
    ) {
      using running = start(cluster, { caFile, serverName }, secret);
      const call = running.session.call(GET_FEATURES, null, { timeoutMs: 1_000 });
      await assert.rejects(call, { code: "agent_unreachable", message: wanted });
      assert.equal(running.session.current, undefined);
    }
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}
