/** The table of keys against Consul's own source: the keys that it decodes, by name. */

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import test from "node:test";
import { consulSource } from "../../scripts/consul.ts";
import { type KeyPlace } from "../../src/consul/replies/config_keys.ts";
import { configKey } from "../../src/consul/replies/named_keys.ts";

const FILES = [
  "agent/structs/config_entry.go",
  "agent/structs/config_entry_discoverychain.go",
  "agent/structs/config_entry_mesh.go",
  "agent/structs/connect_proxy_config.go",
  "agent/structs/structs.go",
  "agent/xds/config/config.go",
  "command/connect/envoy/bootstrap_config.go",
];

/** Where a walk begins, since structs of two files may have one name. */
const ROOTS: readonly (readonly [KeyPlace, file: string, struct: string])[] = [
  ["service-defaults", "agent/structs/config_entry.go", "ServiceConfigEntry"],
  ["proxy-defaults", "agent/structs/config_entry.go", "ProxyConfigEntry"],
  ["mesh", "agent/structs/config_entry_mesh.go", "MeshConfigEntry"],
  ["upstream", "agent/structs/config_entry.go", "UpstreamConfig"],
  ["registration", "agent/structs/structs.go", "NodeService"],
  ["proxy", "agent/xds/config/config.go", "ProxyConfig"],
  ["proxy", "agent/xds/config/config.go", "XDSCommonConfig"],
  ["proxy", "command/connect/envoy/bootstrap_config.go", "BootstrapConfig"],
  ["gateway", "agent/xds/config/config.go", "ProxyConfig"],
  ["gateway", "agent/xds/config/config.go", "GatewayConfig"],
  ["gateway", "agent/xds/config/config.go", "XDSCommonConfig"],
  ["gateway", "command/connect/envoy/bootstrap_config.go", "BootstrapConfig"],
];

interface Field {
  /** All names that it is decoded by. */
  readonly names: readonly string[];
  readonly type: string;
}

function structsOf(source: string): ReadonlyMap<string, readonly Field[]> {
  const structs = new Map<string, readonly Field[]>();
  for (const [, name = "", body = ""] of source.matchAll(/^type (\w+) struct \{\n(.*?)^\}/gms)) {
    const fields: Field[] = [];
    for (const line of body.split("\n")) {
      const [, own = "", type = "", tags = ""] =
        /^\t([A-Z]\w*)\s+([^\s`]+)(?:\s+`(.*)`)?/.exec(line) ??
          [];
      if (own === "" || /(json|mapstructure):"-/.test(tags)) continue;
      const named = /mapstructure:"([^",]+)/.exec(tags)?.[1] ?? own;
      const alias = /alias:"([^"]+)"/.exec(tags)?.[1];
      fields.push({ names: alias === undefined ? [named] : [named, alias], type });
    }
    structs.set(name, fields);
  }
  return structs;
}

test("every key that Consul decodes is in the table", async () => {
  const root = await consulSource();
  const files = new Map(
    await Promise.all(FILES.map(async (file) => {
      return [file, structsOf(await readFile(join(root, file), "utf8"))] as const;
    })),
  );
  const anywhere = new Map([...files.values()].flatMap((structs) => [...structs]));
  const missing: string[] = [];
  let seen = 0;
  const walk = (place: KeyPlace, fields: readonly Field[], prefix: string): void => {
    for (const { names, type } of fields) {
      for (const name of names) {
        const row = configKey(place, prefix + name);
        seen++;
        if (row === undefined) missing.push(`${place}: ${prefix}${name}`);
        if (row !== "block") continue;
        const inner = anywhere.get(type.replace(/^[*[\]]*/, ""));
        if (inner === undefined) missing.push(`${place}: ${prefix}${name} of type ${type}`);
        else walk(place, inner, `${prefix}${name}.`);
      }
    }
  };
  for (const [place, file, name] of ROOTS) {
    const fields = files.get(file)?.get(name);
    assert.ok(fields && fields.length > 0, `${file} has no ${name}`);
    walk(place, fields, "");
  }
  assert.deepEqual(missing, []);
  assert.ok(seen > 150, `only ${seen} keys were found`);
});
