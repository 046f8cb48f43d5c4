/** Callers without any allowed request, and the counter of rules that cannot be judged. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { createAuthority } from "../../../test/kit/certs/certificates.ts";
import { settle } from "../../../test/kit/clock/clock.ts";
import { presented } from "../../../test/kit/engine/fake_tls_engine.ts";
import type { End } from "../../../test/kit/engine/memory_engine.ts";
import { type MemoryPath, startMemoryPath } from "../../../test/kit/engine/memory_path.ts";
import {
  httpRules,
  intention,
  policyOf,
  snapshotOf,
  withInbound,
} from "../../../test/kit/engine/snapshots.ts";
import type { Intention } from "../../policy/mod.ts";

const CA = createAuthority();
const WEB = CA.issueLeaf({ service: "web" });
const local = { kind: "tcp", host: "127.0.0.1", port: 9090 } as const;
const DB = withInbound(snapshotOf({ ca: CA, service: "db", local }), { http: httpRules("http") });
const judgedBy = (...intentions: readonly Intention[]) => ({
  ...DB,
  policy: policyOf(intentions),
});
const ONE_PATH: Intention = {
  ...intention("web", "permissions"),
  permissions: [{ action: "deny", path: { kind: "prefix", value: "/" }, methods: [], headers: [] }],
};

const call = (path: MemoryPath) => path.engine.callSecurely(path.port("")).prove(presented(WEB));

async function ask(client: End): Promise<string> {
  client.received = "";
  client.send("GET / HTTP/1.1\r\nHost: db\r\n\r\n");
  await settle();
  return client.received;
}

test("a caller without any allowed request gets 403 for ten seconds, then is disconnected", async () => {
  await using path = await startMemoryPath(judgedBy());
  const [busy, silent] = [call(path), call(path)];
  await settle();
  for (let second = 0; second < 10; second++) {
    const answer = await ask(busy);
    assert.match(answer, /^HTTP\/1\.1 403 /);
    assert.doesNotMatch(answer, /connection: close/i);
    await path.clock.advance(1_000);
  }
  assert.deepEqual([path.taken, busy.over, silent.over], [2, "no", "no"]);
  await path.clock.advance(1_000);
  assert.match(await ask(busy), /^HTTP\/1\.1 403 [^]*connection: close/i);
  await path.clock.advance(1_000);
  assert.deepEqual([busy.over, silent.over], ["end", "end"]);
  busy.connection.end();
  silent.connection.end();
  await settle();
  assert.equal(path.taken, 0);
});

test("a denied caller that does not close its connection is closed", async () => {
  await using path = await startMemoryPath(judgedBy());
  const client = call(path);
  client.send("GET /begun HTTP/1.1\r\n");
  await path.clock.advance(20_000);
  assert.equal(path.taken, 1);
  await path.clock.advance(2_000);
  assert.deepEqual(path.endings, ["intention_denied"]);
});

test("a caller with some allowed request stays connected, even if each request so far was denied", async () => {
  await using path = await startMemoryPath(judgedBy(ONE_PATH));
  const client = call(path);
  await settle();
  for (let second = 0; second < 15; second++) {
    assert.match(await ask(client), /^HTTP\/1\.1 403 /);
    await path.clock.advance(1_000);
  }
  assert.equal(client.over, "no");
  // Denied for some seconds, and then allowed again.
  await path.set(judgedBy());
  await path.clock.advance(8_000);
  await path.set(judgedBy(intention("web", "allow")));
  await path.clock.advance(8_000);
  await path.set(judgedBy());
  await path.clock.advance(8_000);
  assert.equal(client.over, "no");
});

test("requests denied by a rule that requires a JWT are counted by the rule's name", async () => {
  const refused = "it asks for a JWT, which is not checked here";
  const asksForOne: Intention = {
    ...intention("web", "permissions"),
    permissions: [
      { action: "allow", path: { kind: "exact", value: "/open" }, methods: [], headers: [] },
      { action: "allow", methods: [], headers: [], refused },
    ],
  };
  await using path = await startMemoryPath(judgedBy(asksForOne));
  const client = call(path);
  await settle();
  for (let i = 0; i < 3; i++) assert.match(await ask(client), /^HTTP\/1\.1 403 /);
  const counted = () =>
    path.path.stats.samples().flatMap(({ name, labels, value }) =>
      name === "http_requests_unjudged_total" ? [[labels["rule"], value]] : []
    );
  const [[rule, count] = []] = counted();
  assert.match(String(rule), /web.*permission 2: allow; denies, since it asks for a JWT/);
  assert.equal(count, 3);
  const failed = path.lines.filter(({ message }) => message === "request failed");
  assert.deepEqual(
    failed.map(({ level, fields }) => [level, fields.rule]),
    Array(3).fill(["info", rule]),
  );
  // An intention as a whole.
  await path.set(judgedBy({ ...intention("web", "allow"), refused }));
  assert.match(await ask(client), /^HTTP\/1\.1 403 /);
  assert.deepEqual(counted().map(([, value]) => value), [3, 1]);
  // A request that a rule denies is not counted there.
  await path.set(judgedBy(ONE_PATH));
  assert.match(await ask(client), /^HTTP\/1\.1 403 /);
  assert.deepEqual(counted().map(([, value]) => value), [3, 1]);
});
