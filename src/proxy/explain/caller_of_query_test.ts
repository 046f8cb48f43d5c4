/** `explain()` for a caller that is given only by its name. */
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
