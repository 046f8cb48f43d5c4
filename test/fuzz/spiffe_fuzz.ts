/**
 * SPIFFE ids: nothing is thrown, and an id that is read means the same when written again. @module
 */

import assert from "node:assert/strict";
import { formatServiceId, parseServiceId } from "../../src/identity/mod.ts";
import type { FuzzTarget } from "./fuzz.ts";

const TD = "9da65145-0152-e6b1-e4f0-41aa15caa324.consul";

export const target: FuzzTarget = {
  name: "spiffe",
  corpus: [
    `spiffe://${TD}/ns/default/dc/dc1/svc/web`,
    `spiffe://${TD}/ap/east/ns/team%20a/dc/dc-2/svc/a.b_c~d`,
    `spiffe://${TD}/gateway/mesh/dc/dc1`,
    `spiffe://${TD}/agent/client/dc/dc1/id/node`,
  ].map((text) => new TextEncoder().encode(text)),
  dictionary: [
    "spiffe://",
    "/",
    "//",
    "%2f",
    "%00",
    "%2e",
    "..",
    "?",
    "#",
    "@",
    ":",
    "/ap/",
    "/svc/",
  ],
  run(input) {
    const text = new TextDecoder().decode(input);
    const parsed = parseServiceId(text);
    if (parsed.kind === "refused") return assert.ok(parsed.reason.length > 0);
    const { id } = parsed;
    assert.deepEqual(parseServiceId(formatServiceId(id)), parsed);
    assert.match(id.trustDomain, /^[a-z0-9._-]+$/);
    for (const name of [id.partition, id.namespace, id.datacenter, id.service]) {
      assert.ok(!["", ".", ".."].includes(name));
      // deno-lint-ignore no-control-regex -- exactly what a name must not hold
      assert.doesNotMatch(name, /[/\x00-\x1f\x7f]/);
    }
  },
};
