import assert from "node:assert/strict";
import { test } from "node:test";
import { createAuthority } from "../../../test/kit/certs/certificates.ts";
import { settle } from "../../../test/kit/clock/clock.ts";
import { presented } from "../../../test/kit/engine/fake_tls_engine.ts";
import type { End } from "../../../test/kit/engine/memory_engine.ts";
import { type MemoryPath, startMemoryPath } from "../../../test/kit/engine/memory_path.ts";
import { caValidation, inboundBy, withOwn } from "../../../test/kit/secrets/own_credentials.ts";
import {
  intention,
  policyOf,
  snapshotOf,
  withInbound,
} from "../../../test/kit/engine/snapshots.ts";
import { type AuthorizationSubject, isAllowed } from "./authorize.ts";

const CA = createAuthority();
const WEB = CA.issueLeaf({ service: "web" });
const SNAPSHOT = snapshotOf({
  ca: CA,
  service: "db",
  local: { kind: "tcp", host: "127.0.0.1", port: 8080 },
  intentions: [intention("web", "allow")],
});
const BOTH = withInbound(SNAPSHOT, { authorize: "both" });

const DENIED = policyOf([intention("web", "deny")]);

const prove = ({ engine, port }: MemoryPath, leaf = WEB): End =>
  engine.callSecurely(port()).prove(presented(leaf));

/** An agent that answers when the test calls `answer`. */
function agent() {
  const requests: object[] = [];
  let settled = Promise.withResolvers<{ readonly allowed: boolean; readonly reason: string }>();
  return {
    requests,
    answer: (allowed: boolean) => settled.resolve({ allowed, reason: "because" }),
    fail: () => settled.reject(new Error("no answer")),
    remoteAuthorize(request: object) {
      requests.push(request);
      settled = Promise.withResolvers();
      return settled.promise;
    },
  };
}

test("a denied caller is closed in order, and nothing is dialled or counted", async () => {
  await using path = await startMemoryPath({ ...SNAPSHOT, policy: DENIED });
  const caller = prove(path);
  await settle();
  assert.equal(caller.over, "end");
  assert.equal(path.lastEnd.code, "intention_denied");
  assert.equal(path.lastEnd.rule, "default/web => test (deny)");
  assert.equal(path.lastEnd.reason, undefined, "the rule says it all");
  assert.deepEqual([path.engine.dials.length, path.taken], [0, 0]);
});

test("a changed intention ends only the open connections that it denies", async () => {
  await using path = await startMemoryPath(SNAPSHOT);
  const caller = prove(path);
  const app = path.engine.lastDial.connect();
  await path.set({
    ...SNAPSHOT,
    policy: policyOf([intention("other", "deny"), intention("web", "allow")]),
  });
  assert.deepEqual([caller.over, app.over], ["no", "no"]);
  await path.set({ ...SNAPSHOT, policy: DENIED });
  assert.deepEqual([caller.over, app.over], ["end", "end"]);
  assert.deepEqual(path.endings, ["intention_denied"]);
  assert.equal(path.lastEnd.ended_by, "proxy");
});

test("a caller without a verified certificate is not the service that it claims to be", async () => {
  const claims = inboundBy(
    withOwn(SNAPSHOT, "anybody", {
      validation: caValidation([], { acceptUntrusted: true }),
      own: { trustDomains: [CA.trustDomain] },
    }),
    "anybody",
  );
  const { source, ...rule } = intention("web", "allow");
  const byName = {
    ...claims,
    policy: policyOf([{ ...rule, source: { ...source, uri: WEB.uri } }]),
  };
  await using path = await startMemoryPath(byName);
  prove(path);
  await settle();
  assert.equal(path.lastEnd.code, "intention_denied");
  assert.match(String(path.lastEnd.source), /^unverified /);
});

test("the agent decides about a caller that the intentions allow, which is counted meanwhile", async () => {
  const { requests, remoteAuthorize, answer, fail } = agent();
  await using path = await startMemoryPath(BOTH, { remoteAuthorize });
  for (
    const [end, code] of [
      [() => answer(false), "intention_denied"],
      [fail, "authorize_failed"],
    ] as const
  ) {
    const caller = prove(path);
    await settle();
    assert.deepEqual([path.taken, path.engine.dials.length], [1, 0]);
    end();
    await settle();
    assert.equal(caller.over, "end");
    assert.equal(path.lastEnd.code, code);
    assert.equal(path.taken, 0);
  }
  prove(path);
  answer(true);
  await settle();
  assert.equal(path.engine.dials.length, 1);
  assert.equal((requests[0] as { readonly uri: string }).uri, WEB.uri);
  assert.equal((requests[0] as { readonly target: string }).target, "db");
  // The agent is not asked about a caller that the intentions deny.
  await path.set({ ...BOTH, policy: DENIED });
  prove(path);
  assert.equal(requests.length, 3);
});

for (
  const [name, leave] of [
    ["a caller that leaves", (caller: End) => caller.connection.reset()],
    [
      "a caller that is denied",
      (_caller: End, path: MemoryPath) => path.set({ ...BOTH, policy: DENIED }),
    ],
  ] as const
) {
  test(`${name} while the agent is asked stays ended, whatever the agent answers`, async () => {
    const { remoteAuthorize, answer } = agent();
    await using path = await startMemoryPath(BOTH, { remoteAuthorize });
    await leave(prove(path), path);
    await settle();
    assert.equal(path.endings.length, 1);
    assert.equal(path.taken, 0);
    answer(true);
    await settle();
    assert.equal(path.engine.dials.length, 0);
    assert.equal(path.endings.length, 1);
  });

  test(`${name} during the local dial ends the dial, too`, async () => {
    await using path = await startMemoryPath(BOTH);
    const caller = prove(path);
    await settle();
    assert.ok(!path.engine.lastDial.cancelled);
    await leave(caller, path);
    await settle();
    assert.ok(path.engine.lastDial.cancelled);
    assert.equal(path.taken, 0);
    await path.clock.advance(10_000);
    assert.equal(path.endings.length, 1);
  });
}

test("a caller ends if the local application refuses or does not answer, each with its own code", async () => {
  await using path = await startMemoryPath(SNAPSHOT);
  const refused = prove(path);
  path.engine.lastDial.fail("connection refused");
  await settle();
  assert.equal(refused.over, "end");
  assert.match(String(path.lastEnd.reason), /^Cannot dial the service at 127\.0\.0\.1:8080: conn/);
  const waiting = prove(path);
  await path.clock.advance(5_200);
  assert.equal(waiting.over, "end");
  assert.ok(path.engine.lastDial.cancelled);
  assert.deepEqual(path.endings, ["local_refused", "local_timed_out"]);
  // A completed dial does not time out.
  const served = prove(path);
  path.engine.lastDial.connect();
  await path.clock.advance(6_000);
  assert.equal(served.over, "no");
});

test("isAllowed() denies before there are intentions, except in mode nobody", () => {
  const ended: string[] = [];
  const applicant = {
    context: { facts: { policy: undefined } },
    end: (code: string, reason: string) => ended.push(`${code}: ${reason}`),
  } as unknown as AuthorizationSubject;
  assert.equal(isAllowed(applicant, "nobody"), true);
  assert.deepEqual(ended, []);
  assert.equal(isAllowed(applicant, "both"), false);
  assert.deepEqual(ended, ["not_ready: no intentions yet"]);
});
