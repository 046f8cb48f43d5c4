/**
 * The configuration file and the stored snapshot, damaged: each is either refused with reasons or taken
 * whole, and places lie inside the text.
 *
 * @module
 */

import assert from "node:assert/strict";
import { prepareRegexes } from "../../src/base/mod.ts";
import { formatProblem, parseFileConfig, type StoredState } from "../../src/source/mod.ts";
import { formatStored, parseStored } from "../../src/source/state/store.ts";
import { withoutComments } from "../../src/wire/mod.ts";
import type { FuzzTarget } from "./fuzz.ts";

await prepareRegexes();

const SHORT = {
  service: "web",
  trustDomain: "mesh.example",
  credentials: { certFile: "web.pem", keyFile: "web.key", rootsFile: "roots.pem" },
  inbound: {
    bind: "0.0.0.0:20000",
    local: "unix:///run/web.sock",
    maxConnections: 5,
    protocol: "http",
  },
};
const LONG = {
  ...SHORT,
  upstreams: [{
    name: "db",
    bind: "127.0.0.1:9191",
    addresses: ["[::1]:20000", { host: "10.0.0.8", port: 20_000, weight: 2 }],
    identity: { service: "db", datacenter: "dc2" },
    balancing: { kind: "ring_hash", minimumSize: 64, maximumSize: 128 },
    outlier: { maxFailures: 3, interval: "10s" },
    connectTimeout: "1m30s",
  }],
  intentions: [{ source: "shop", action: "allow" }, {
    source: "*",
    permissions: [{
      action: "deny",
      http: {
        pathRegex: "/a[0-9]+(/.*)?",
        methods: ["GET"],
        header: [{ name: "x-a", prefix: "b", ignoreCase: true }],
      },
    }],
  }],
  tls: { incoming: { minVersion: "1.3" }, outgoing: {}, strictSpiffeChain: true },
};
const STORED = { snapshot: {} } as StoredState;
const bytesOf = (value: unknown) => new TextEncoder().encode(JSON.stringify(value, null, 1));
const COMMENTED = new TextEncoder().encode(`// a\n${JSON.stringify(SHORT)} /* b */`);

export const target: FuzzTarget = {
  name: "config",
  corpus: [
    bytesOf(SHORT),
    bytesOf(LONG),
    COMMENTED,
    new TextEncoder().encode(formatStored(STORED)),
  ],
  dictionary: [
    '"__proto__"',
    "//",
    "/*",
    "*/",
    '"constructor"',
    "null",
    "[[",
    "1e999",
    "\\u0000",
    "\\ud800",
    '"*"',
  ],
  run(input) {
    const text = new TextDecoder().decode(input);
    const parsed = parseFileConfig(text, { file: "/fuzz.json", env: {} });
    if (parsed.kind === "valid") {
      const again = parseFileConfig(text, { file: "/fuzz.json", env: {} });
      assert.deepEqual(again, parsed);
      assert.ok(parsed.config.upstreams.every(({ connectTimeout }) => connectTimeout > 0));
      JSON.parse(withoutComments(text.replace(/^\ufeff/, "")));
    } else {
      assert.ok(parsed.problems.length > 0);
      const lines = text.split("\n").length;
      for (const problem of parsed.problems) {
        assert.ok(problem.place.line >= 1 && problem.place.line <= lines, formatProblem(problem));
        assert.ok(problem.place.column >= 1, formatProblem(problem));
      }
    }
    const stored = parseStored(text);
    if (stored.kind === "valid") assert.equal(formatStored(stored.state), text);
  },
};
