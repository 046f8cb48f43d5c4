/** What becomes of callers that may ask for nothing, and what is counted of rules that nobody can judge. */
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

test("a caller that may ask for nothing is told so for ten seconds, and then has to leave", async () => {
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

test("who does not leave then is left", async () => {
  await using path = await startMemoryPath(judgedBy());
  const client = call(path);
  client.send("GET /begun HTTP/1.1\r\n");
  await path.clock.advance(20_000);
  assert.equal(path.taken, 1);
  await path.clock.advance(2_000);
  assert.deepEqual(path.endings, ["intention_denied"]);
});

test("who may ask for something stays, be it that each request so far was denied", async () => {
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

test("what a rule denies because it asks for a JWT is counted by the rule's name", async () => {
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
  const told = path.lines.filter(({ message }) => message === "request failed");
  assert.deepEqual(
    told.map(({ level, fields }) => [level, fields.rule]),
    Array(3).fill(["info", rule]),
  );
  // The whole of an intention.
  await path.set(judgedBy({ ...intention("web", "allow"), refused }));
  assert.match(await ask(client), /^HTTP\/1\.1 403 /);
  assert.deepEqual(counted().map(([, value]) => value), [3, 1]);
  // What is denied by a rule that says so is none of it.
  await path.set(judgedBy(ONE_PATH));
  assert.match(await ask(client), /^HTTP\/1\.1 403 /);
  assert.deepEqual(counted().map(([, value]) => value), [3, 1]);
});
