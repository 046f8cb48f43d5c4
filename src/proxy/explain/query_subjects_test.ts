import assert from "node:assert/strict";
import { test } from "node:test";
import { createAuthority } from "../../../test/kit/certs/certificates.ts";
import { startMemoryPath } from "../../../test/kit/engine/memory_path.ts";
import {
  httpRules,
  intention,
  policyOf,
  snapshotOf,
  withInbound,
} from "../../../test/kit/engine/snapshots.ts";
import type { Snapshot } from "../../snapshot/mod.ts";

const ID = "service:default/default/db";
const BASE = snapshotOf({
  ca: createAuthority(),
  service: "web",
  local: { kind: "tcp", host: "127.0.0.1", port: 8_080 },
  upstreams: [{ name: "db", bind: { kind: "tcp", host: "127.0.0.1", port: 9_191 } }],
});

/** The same service in three datacenters. */
function threeUpstreams(): Snapshot {
  const { [ID]: near } = BASE.upstreams;
  assert.ok(near);
  const far = ["dc2", "dc3"].map((dc) => ({ ...near, id: `${ID}?dc=${dc}`, bind: null }));
  const upstreams = Object.fromEntries([near, ...far].map((part) => [part.id, part]));
  return { ...BASE, upstreams };
}

for (
  const [name, want] of [
    ["db", ID],
    ["db?dc=dc2", `${ID}?dc=dc2`],
    [`${ID}?dc=dc3`, `${ID}?dc=dc3`],
    ["127.0.0.1:9191", ID],
    ["db:80", `several upstreams have the name "db:80": ${ID} ${ID}?dc=dc2`],
    ["cache", 'there is no upstream "cache"; there is: db db?dc=dc2 db?dc=dc3'],
  ] as const
) {
  test(`findListener() of ${name} among upstreams of one service`, async () => {
    await using started = await startMemoryPath(threeUpstreams());
    const explained = await started.path.explain({
      to: { kind: "upstream", name },
      source: "",
      method: "GET",
      host: undefined,
      path: "/",
      headers: [],
      connects: false,
    });
    assert.ok(explained);
    const got = explained.kind === "answer" ? explained.explanation.listener : explained.reason;
    assert.equal(got, want);
  });
}

const local = { kind: "tcp", host: "127.0.0.1", port: 8080 } as const;
const MESH = snapshotOf({ ca: createAuthority(), service: "db", local });
const asksFor = (value: string): Snapshot => ({
  ...withInbound(MESH, { http: httpRules("http") }),
  policy: policyOf([{
    ...intention("*", "permissions"),
    permissions: [{
      action: "allow",
      path: { kind: "prefix", value: "/" },
      methods: [],
      headers: [{
        name: "x-forwarded-client-cert",
        kind: "contains",
        value,
        ignoreCase: false,
        invert: false,
      }],
    }],
  }]),
});

for (
  const [name, value, source, status] of [
    ["URI", "/svc/web", "web", undefined],
    ["URI, given completely,", "/svc/web", "spiffe://else.consul/ns/default/dc/dc1/svc/web", 0],
    ["URI of another", "/svc/web", "api", 403],
    ["own URI", "By=spiffe://", "api", undefined],
    ["certificate", "Cert=", "web", 403],
  ] as const
) {
  test(`explain() judges x-forwarded-client-cert by its ${name}`, async () => {
    await using path = await startMemoryPath(asksFor(value));
    const explained = await path.path.explain({
      to: { kind: "inbound" },
      source,
      method: "GET",
      host: undefined,
      path: "/",
      headers: [],
      connects: false,
    });
    assert.ok(explained?.kind === "answer");
    const { answer, unknown } = explained.explanation;
    assert.equal(answer?.status, status);
    const says = unknown.some((sentence) =>
      sentence.startsWith("What x-forwarded-client-cert has")
    );
    assert.equal(says, status !== 0, "that the rest is not known is said");
  });
}
