import assert from "node:assert/strict";
import { test } from "node:test";
import { createAuthority } from "../../../test/kit/certs/certificates.ts";
import { httpRules, snapshotOf, withInbound } from "../../../test/kit/engine/snapshots.ts";
import { listed, pluginFaults, summary } from "./check_consul.ts";

const MESH = snapshotOf({
  ca: createAuthority(),
  service: "db",
  local: { kind: "tcp", host: "127.0.0.1", port: 8080 },
  inboundPort: 20_000,
  upstreams: [{ name: "pay", http: httpRules("http"), bind: null }],
});

function limit(key: string, at: string) {
  return { plugin: "in_flight_limit", config: { [key]: 1 }, onFailure: "refuse" as const, at };
}

test("pluginFaults() judges the plugins of listeners and upstreams, each place once", async () => {
  const { upstreams } = MESH;
  const place = 'proxy-defaults global: postern_upstream_plugins["*"][0]';
  const plugins = [limit("taem", place), limit("taem", place)];
  const faulty = {
    ...withInbound(MESH, { plugins: [limit("taem", "postern_plugins[0]")] }),
    upstreams: Object.fromEntries(
      Object.entries(upstreams).map(([id, part]) => [id, { ...part, plugins }]),
    ),
  };
  const [inbound, upstream, ...more] = await pluginFaults(faulty);
  assert.match(inbound ?? "", /^postern_plugins\[0\]\.config.*taem/);
  assert.ok(upstream?.startsWith(`${place}.config`), upstream ?? "");
  assert.deepEqual(more, []);
  assert.deepEqual(await pluginFaults(MESH), []);
});

test("listed() begins every warning with ignored:", () => {
  const warnings = [
    `The proxy's config has balance_inbound_connections "exact_balance", which is ignored: the kernel`,
    "The proxy's config has a key that is no text; it is ignored",
  ];
  assert.deepEqual(listed(warnings, []), [
    "this service's configuration asks for 2 things that Postern does not do:",
    `  ignored: The proxy's config has balance_inbound_connections "exact_balance": the kernel`,
    "  ignored: The proxy's config has a key that is no text; it is ignored",
  ]);
});

test("summary() counts one upstream", () => {
  assert.match(summary(MESH, []), /^service db, 1 upstream, 0 intentions/);
});
