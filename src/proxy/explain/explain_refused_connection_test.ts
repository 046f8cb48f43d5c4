/** `explain()` for requests whose connection is refused. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { createAuthority } from "../../../test/kit/certs/certificates.ts";
import { settle } from "../../../test/kit/clock/clock.ts";
import { presented } from "../../../test/kit/engine/fake_tls_engine.ts";
import { type MemoryPath, startMemoryPath } from "../../../test/kit/engine/memory_path.ts";
import {
  httpRules,
  intention,
  policyOf,
  snapshotOf,
  targetOf,
  upstreamOf,
  withInbound,
} from "../../../test/kit/engine/snapshots.ts";
import type { Snapshot } from "../../snapshot/mod.ts";
import type { ExplainQuery, Explanation } from "./explanation.ts";

const CA = createAuthority();
const WEB = CA.issueLeaf({ service: "web" });
const LOCAL = { kind: "tcp", host: "127.0.0.1", port: 8080 } as const;
const CACHE_PORT = 9_191;
const CACHE_ID = "service:default/default/cache";
const MESH = snapshotOf({
  ca: CA,
  service: "db",
  local: LOCAL,
  upstreams: [{ name: "cache", bind: { kind: "tcp", host: "127.0.0.1", port: CACHE_PORT } }],
  targets: [targetOf({ name: "cache", uris: [], ports: [1] })],
});
const SNAPSHOT: Snapshot = {
  ...withInbound(MESH, { http: httpRules("http") }),
  policy: policyOf([intention("web", "allow"), intention("batch", "allow")]),
};
const INBOUND: ExplainQuery = {
  to: { kind: "inbound" },
  source: "web",
  method: "GET",
  host: undefined,
  path: "/",
  headers: [],
  connects: false,
};
const CACHE: ExplainQuery = { ...INBOUND, to: { kind: "upstream", name: "cache" } };

async function explained(
  { path }: Pick<MemoryPath, "path">,
  question: ExplainQuery,
): Promise<Explanation> {
  const outcome = await path.explain(question);
  assert.ok(outcome?.kind === "answer", JSON.stringify(outcome));
  return outcome.explanation;
}

async function answerAt(path: Pick<MemoryPath, "path">, question: ExplainQuery): Promise<string> {
  const { answer, local, splits } = await explained(path, question);
  assert.equal(local ?? splits[0] ?? null, null, "and nothing of what would come behind it");
  return `${answer?.status} ${answer?.code}: ${answer?.reason}`;
}

for (const [listener, question] of [["callers", INBOUND], ["an upstream", CACHE]] as const) {
  test(`explain() says at a listener for ${listener} that the proxy drains`, async () => {
    await using path = await startMemoryPath(SNAPSHOT);
    await path.path.drain(1_000);
    assert.equal(
      await answerAt(path, question),
      "0 drained: the proxy is stopping, and accepts nothing",
    );
  });

  test(`explain() says why a listener for ${listener} is not bound`, async () => {
    await using path = await startMemoryPath(SNAPSHOT);
    const bind = (port: number) => ({ kind: "tcp", host: "127.0.0.1", port }) as const;
    const taken = withInbound(SNAPSHOT, { http: httpRules("http"), bind: bind(CACHE_PORT) });
    const upstreams = {
      [CACHE_ID]: upstreamOf({ name: "cache", bind: bind(path.port()) }),
    };
    await path.set(listener === "callers" ? taken : { ...SNAPSHOT, upstreams });
    assert.match(
      await answerAt(path, question),
      /^0 listen_failed: nobody listens there: .*the address is in use/,
    );
  });
}

for (
  const [name, question, options, inbound, want] of [
    [
      "the process",
      CACHE,
      { maxConnections: 1 },
      {},
      "0 overloaded: the process holds 1 connections",
    ],
    [
      "the service's callers",
      INBOUND,
      {},
      { maxConnections: 1 },
      "0 overloaded: max_inbound_connections is 1",
    ],
  ] as const
) {
  test(`explain() says that all places of ${name} are taken`, async () => {
    const snapshot = withInbound(SNAPSHOT, { http: httpRules("http"), ...inbound });
    await using path = await startMemoryPath(snapshot, options);
    assert.equal((await explained(path, question)).answer?.code, undefined);
    const caller = path.engine.callSecurely(path.port()).prove(presented(WEB));
    await settle();
    assert.equal(caller.over, "no");
    assert.equal(await answerAt(path, question), want);
  });
}

test("explain() says that one caller is at its limit of requests, and that another is not", async () => {
  await using path = await startMemoryPath(SNAPSHOT);
  for (let count = 0; count < 7 / 8 * 1_024; count++) {
    path.engine.callSecurely(path.port()).prove(presented(WEB)).send(
      "GET / HTTP/1.1\r\nHost: db\r\n\r\n",
    );
  }
  await settle();
  assert.equal(
    await answerAt(path, INBOUND),
    "503 limit_reached: the local application is given 1024 requests at once, and the last places " +
      "are kept for other callers",
  );
  assert.equal((await explained(path, { ...INBOUND, source: "batch" })).answer, null);
});

test("explain() says which addresses may call an exposed path", async () => {
  const exposed = {
    "exposed:21500": {
      version: 1,
      bind: { kind: "tcp", host: "0.0.0.0", port: 21_500 } as const,
      path: "/health",
      onlyFrom: ["10.0.0.1"],
      localConnectTimeoutMs: 1,
      local: LOCAL,
      http: httpRules("http"),
    },
  };
  await using path = await startMemoryPath({ ...SNAPSHOT, exposed });
  const to = { kind: "listener", name: "exposed:21500" } as const;
  const { unknown } = await explained(path, { ...INBOUND, to, path: "/health" });
  assert.ok(
    unknown.includes("Where the caller is: only loopback and 10.0.0.1 may call."),
    unknown.join(),
  );
});

for (const protocol of ["http", "tcp"] as const) {
  const both = {
    ...withInbound(SNAPSHOT, {
      http: protocol === "http" ? httpRules("http") : null,
      authorize: "both",
    }),
    policy: policyOf([intention("web", "allow"), intention("banned", "deny")]),
  };
  for (
    const [name, source, agent, want] of [
      ["allows", "web", () => Promise.resolve({ allowed: true, reason: "" }), "goes on"],
      [
        "refuses",
        "web",
        () => Promise.resolve({ allowed: false, reason: "Matched rule" }),
        "0 intention_denied: agent: Matched rule",
      ],
      [
        "does not answer about",
        "web",
        () => Promise.reject(new Error("no answer")),
        "0 authorize_failed: no answer",
      ],
      // The agent is only asked about a caller of bytes that the intentions allow.
      [
        "refuses, as the intentions do,",
        "banned",
        () => Promise.resolve({ allowed: false, reason: "Matched rule" }),
        protocol === "http"
          ? "0 intention_denied: agent: Matched rule"
          : "0 intention_denied: default/banned => test (deny)",
      ],
    ] as const
  ) {
    test(`explain() asks the agent, which ${name} a caller of ${protocol}`, async () => {
      const requests: object[] = [];
      await using path = await startMemoryPath(both, {
        remoteAuthorize: (request) => {
          requests.push(request);
          return agent();
        },
      });
      const explaining = path.path.explain({ ...INBOUND, source, connects: true });
      await settle();
      for (const dial of path.engine.dials) dial.connect();
      const outcome = await explaining;
      assert.ok(outcome?.kind === "answer");
      const { answer, rule, local } = outcome.explanation;
      assert.equal(answer ? `${answer.status} ${answer.code}: ${answer.reason}` : "goes on", want);
      assert.equal(local !== null, want === "goes on", "nothing behind a refusal is shown");
      if (!answer) assert.match(rule, /^default\/web => .*, and the agent agrees$/);
      const uri = `spiffe://${CA.trustDomain}/ns/default/dc/dc1/svc/${source}`;
      const isAsked = protocol === "http" || source === "web";
      assert.deepEqual(requests, isAsked ? [{ target: "db", uri, serial: "" }] : []);
    });
  }
}
