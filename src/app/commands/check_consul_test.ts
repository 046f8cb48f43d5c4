import assert from "node:assert/strict";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { createAuthority } from "../../../test/kit/certs/certificates.ts";
import { httpRules, snapshotOf, withInbound } from "../../../test/kit/engine/snapshots.ts";
import { BUILT_IN_NAMES } from "../../built_in/mod.ts";
import type { PluginUse } from "../../snapshot/mod.ts";
import { inboundHttp } from "../../source/parts/http_rules.ts";
import { cannotAsk, listed, pluginFaults, summary, unusedPlugins } from "./check_consul.ts";

const PLUGINS = fileURLToPath(new URL("../../../plugins", import.meta.url));

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
    ...withInbound(MESH, {
      plugins: [limit("taem", "postern_plugins[0]")],
      http: inboundHttp("http", {}),
    }),
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

test("pluginFaults() names a plugin for requests where bytes are carried", async () => {
  const at = "postern_plugins[0]";
  const file = (code: string) => ({ code, digest: "d", allow: [] });
  const code = (text: string) => ({ version: 1, text, path: "/x.ts", map: "", libraries: [] });
  const pluginCode = {
    requests: code("module.exports = { default: { onRequest } }"),
    both: code("module.exports = { default: { onRequest, onConnection } }"),
  };
  const use = { plugin: "./x.ts", config: {}, onFailure: "refuse", at } as const;
  const withUse = (use: PluginUse) => ({ ...withInbound(MESH, { plugins: [use] }), pluginCode });
  const said = `${at}: in_flight_limit looks at requests, and listener inbound carries bytes`;
  assert.deepEqual(await pluginFaults(withUse(limit("limit", at))), [said]);
  for (const [code, want] of [["requests", true], ["both", false]] as const) {
    const faults = await pluginFaults(withUse({ ...use, file: file(code) }));
    assert.equal(faults.some((fault) => fault.includes("looks at requests")), want, code);
  }
  const forAll = withUse({ ...limit("limit", at), isForAll: true });
  assert.deepEqual(await pluginFaults(forAll), []);
  assert.deepEqual(unusedPlugins(forAll), [
    `${at}: in_flight_limit looks at requests, which listener inbound does not carry`,
  ]);
  assert.deepEqual(unusedPlugins(MESH), []);
});

test("isForRequests() is true of all plugins of the executable", async () => {
  for (const entry of await readdir(PLUGINS, { recursive: true })) {
    if (!entry.endsWith(".ts") || entry.endsWith("_test.ts")) continue;
    const isOurs = BUILT_IN_NAMES.some((name) => entry.startsWith(`${name}/`));
    if (isOurs) assert.doesNotMatch(await readFile(join(PLUGINS, entry), "utf8"), /onConnection/);
  }
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

test("cannotAsk() says once what could not be done", () => {
  const once = cannotAsk("the agent, since noon: it has not answered yet");
  assert.equal(
    once,
    "Cannot ask Consul about this proxy: the agent, since noon: it has not answered yet",
  );
  assert.equal(cannotAsk(`the agent, since noon: ${once}`), once);
});

test("summary() counts one upstream", () => {
  assert.match(summary(MESH, []), /^service db, 1 upstream, 0 intentions/);
});
