import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { FakeClock, settle } from "../../../test/kit/clock/clock.ts";
import { sha256 } from "../plugins/bundle.ts";
import { formatBundle } from "../plugins/plugin_bundle.ts";
import {
  type PluginsHeld,
  pluginsInForce,
  RegisteredPlugins,
  unusedLists,
} from "./registered_plugins.ts";

const HEADERS_OF_FLEET = "proxy-defaults global: postern_plugins[1] header_rules fleet";
const UPSTREAM_OF_FLEET =
  'proxy-defaults global: postern_upstream_plugins["*"][0] header_rules fleet';
const GOOD = "export default {};\n";

function registered(
  onChange = () => {},
  { clock = new FakeClock(), readKey = (_: string): Promise<Uint8Array> => assert.fail() } = {},
): RegisteredPlugins {
  return new RegisteredPlugins({ clock, readKey, onChange });
}

interface Rig extends AsyncDisposable {
  readonly file: string;
  readonly plugins: RegisteredPlugins;
  /** What the registration says next; resolves when that was read. */
  says(value: unknown): Promise<void>;
  used(): readonly string[] | undefined;
  /** The plugins of the public listener. */
  readonly held: PluginsHeld;
}

async function rig(): Promise<Rig> {
  const directory = await mkdtemp(join(tmpdir(), "postern-registered-"));
  const file = join(directory, "shop.js");
  await writeFile(file, GOOD);
  let changed = Promise.withResolvers<void>();
  const plugins = registered(() => changed.resolve());
  const inbound = () =>
    plugins.held.get("inbound") ?? assert.fail("no list of the public listener");
  return {
    file,
    plugins,
    get held() {
      return inbound();
    },
    async says(value) {
      changed = Promise.withResolvers();
      plugins.follow({ plugins: value, upstreams: [] }, null);
      await changed.promise;
    },
    used: () =>
      inbound().used?.uses.map(({ plugin, at, config }) => {
        return `${at} ${plugin.replace(directory, "DIR")} ${JSON.stringify(config)}`;
      }),
    [Symbol.asyncDispose]: () => rm(directory, { recursive: true }),
  };
}

test("a registration's plugins are read, and none are none at once", async () => {
  await using it = await rig();
  assert.equal(it.used(), undefined);
  it.plugins.follow({ upstreams: [] }, null);
  assert.deepEqual(it.used(), []);
  await it.says([{ use: it.file, config: { a: 1 } }, { use: "header_rules" }]);
  assert.deepEqual(it.used(), [
    'postern_plugins[0] DIR/shop.js {"a":1}',
    "postern_plugins[1] header_rules {}",
  ]);
  const { uses: [use], code } = it.held.used ?? { uses: [], code: {} };
  assert.deepEqual(Object.keys(code), [use?.file?.code]);
});

test("what HCL made of a list of one is the list", async () => {
  await using it = await rig();
  await it.says({ use: it.file, config: [{ a: 1 }], allow: "node:crypto" });
  assert.deepEqual(it.used(), ['postern_plugins[0] DIR/shop.js {"a":1}']);
  assert.deepEqual(it.held.used?.uses[0]?.file?.allow, ["node:crypto"]);
});

for (
  const [name, value, reason] of [
    ["a relative path", [{ use: "./shop.js" }], /^postern_plugins\[0\]\.use must be an absolute/],
    ["what is not known", [{ use: "a", pin: 1 }], /^postern_plugins\[0\]\.pin is not known/],
    ["a file that is not there", [{ use: "/nowhere/a.js" }], /there is no such file/],
    ["no list", 1, /^postern_plugins\[0\] must be an object/],
  ] as const
) {
  test(`${name} is refused, and what was used stays`, async () => {
    await using it = await rig();
    await it.says(value);
    assert.equal(it.used(), undefined);
    await it.says([{ use: it.file }]);
    const before = it.held.used;
    await it.says(value);
    assert.equal(it.held.used, before);
    const [refused] = it.held.refused;
    assert.equal(refused?.what, "plugins");
    assert.match(refused?.reason ?? "", reason);
  });
}

test("refresh() reads the file again, and resolves to whether it can be used", async () => {
  await using it = await rig();
  await it.says([{ use: it.file }]);
  const before = it.held.used?.uses[0]?.file?.code;
  await writeFile(it.file, "export default { a: 1 };\n");
  assert.equal(await it.plugins.refresh(), true);
  const after = it.held.used?.uses[0]?.file?.code;
  assert.notEqual(after, before);
  await rm(it.file);
  assert.equal(await it.plugins.refresh(), false);
  assert.equal(it.held.used?.uses[0]?.file?.code, after);
});

test("pluginsInForce() has nothing to serve where none could be used and none were", () => {
  assert.equal(
    pluginsInForce({ used: undefined, refused: [] }, { plugins: undefined, pluginCode: {} }),
    undefined,
  );
});

const FLEET_LISTS = {
  plugins: [{ use: "cors" }, { use: "header_rules", config: { of: "fleet" } }],
  upstreamPlugins: {
    "*": [{ use: "header_rules", config: { of: "fleet" } }],
    db: [{ use: "fault", config: { of: "fleet" } }],
  },
};

for (
  const [name, registration, defaults, inbound, db] of [
    [
      "has the lists of proxy-defaults, which Consul has merged into it",
      FLEET_LISTS,
      FLEET_LISTS,
      ["proxy-defaults global: postern_plugins[0] cors", HEADERS_OF_FLEET],
      [UPSTREAM_OF_FLEET, "proxy-defaults global: postern_upstream_plugins.db[0] fault fleet"],
    ],
    [
      "adds its own lists to those of proxy-defaults",
      { plugins: [{ use: "fault" }], upstreamPlugins: { "*": [{ use: "cors" }] } },
      FLEET_LISTS,
      [
        "proxy-defaults global: postern_plugins[0] cors",
        HEADERS_OF_FLEET,
        "postern_plugins[0] fault",
      ],
      [
        UPSTREAM_OF_FLEET,
        "proxy-defaults global: postern_upstream_plugins.db[0] fault fleet",
        'postern_upstream_plugins["*"][0] cors',
      ],
    ],
    [
      "replaces a plugin of proxy-defaults by one of the same name",
      {
        plugins: [{ use: "header_rules", config: { of: "own" } }],
        upstreamPlugins: [{ db: { use: "fault", config: [{ of: "own" }] } }],
      },
      FLEET_LISTS,
      [
        "proxy-defaults global: postern_plugins[0] cors",
        "postern_plugins[0] header_rules own",
      ],
      [UPSTREAM_OF_FLEET, "postern_upstream_plugins.db[0] fault own"],
    ],
    [
      "has lists of its own where there is no proxy-defaults entry",
      { upstreamPlugins: { cache: [{ use: "cors" }] } },
      null,
      [],
      [],
    ],
  ] as const
) {
  test(`a registration ${name}`, async () => {
    const changed = Promise.withResolvers<void>();
    const plugins = registered(changed.resolve);
    const upstreams = [{ id: "service:db", name: "db" }];
    plugins.follow({ ...registration, upstreams }, defaults);
    await plugins.refresh();
    const usesOf = (listener: string) =>
      plugins.held.get(listener)?.used?.uses.map(({ at, plugin, config }) => {
        const of = (config as { of?: string }).of ?? "";
        return `${at} ${plugin} ${of}`.trim();
      });
    assert.deepEqual(usesOf("inbound"), inbound);
    assert.deepEqual(usesOf("service:db"), db);
  });
}

test("an upstream's own list comes after those for it in the proxy's config", async () => {
  const plugins = registered();
  const own = [{ use: "cors" }];
  const db = { id: "service:db", name: "db", plugins: own };
  const upstreamPlugins = { db: [{ use: "cors", config: { a: 1 } }, { use: "fault" }] };
  plugins.follow({ upstreams: [db], upstreamPlugins }, null);
  await plugins.refresh();
  assert.deepEqual(plugins.held.get("service:db")?.used?.uses.map(({ at }) => at), [
    "postern_upstream_plugins.db[1]",
    "upstream db: postern_plugins[0]",
  ]);
});

test("lists wait for proxy-defaults, and a listener without a list does not", () => {
  const plugins = registered();
  const upstreams = [{ id: "service:db", name: "db", plugins: [{ use: "cors" }] }];
  plugins.follow({ upstreams }, undefined);
  assert.equal(plugins.held.get("service:db")?.used, undefined);
  assert.deepEqual(plugins.held.get("inbound")?.used?.uses, []);
});

test("a bad list of one upstream leaves the others their plugins", async () => {
  const plugins = registered();
  const upstreams = [
    { id: "service:db", name: "db", plugins: [{ use: "./a.ts" }] },
    { id: "service:cache", name: "cache", plugins: [{ use: "cors" }] },
  ];
  plugins.follow({ upstreams }, null);
  assert.equal(await plugins.refresh(), false);
  assert.deepEqual(plugins.held.get("service:db"), {
    used: undefined,
    refused: [{
      what: "plugins of db",
      reason: "upstream db: postern_plugins[0].use must be an absolute path",
    }],
  });
  assert.equal(plugins.held.get("service:cache")?.used?.uses.length, 1);
});

test("unusedLists() names a list for an upstream that the registration does not have", () => {
  const upstreams = [{ id: "service:db", name: "db" }];
  assert.deepEqual(unusedLists({ upstreams, upstreamPlugins: { "*": [], db: [], dbb: [] } }), [
    "postern_upstream_plugins.dbb is not used: the registration has no such upstream",
  ]);
});

const BUNDLE = formatBundle({
  name: "shop",
  api: 1,
  phase: "filter",
  sources: "0".repeat(64),
  needs: [],
  libraries: [],
  sbom: {},
  text: "module.exports = {};",
  map: "",
});
const PIN = sha256(BUNDLE);

test("a bundle of the key/value store runs by its digest, is fetched again until it is there, and then once", async () => {
  const clock = new FakeClock();
  const read: string[] = [];
  let value = "an older one";
  const plugins = registered(() => {}, {
    clock,
    readKey(key) {
      read.push(key);
      return Promise.resolve(new TextEncoder().encode(value));
    },
  });
  const reason = () => plugins.held.get("inbound")?.refused[0]?.reason ?? "";
  const use = "consul-kv:plugins/shop";
  plugins.follow({ plugins: [{ use, sha256: PIN }], upstreams: [] }, null);
  await settle();
  assert.match(reason(), /content of consul-kv:plugins\/shop has the digest [0-9a-f]{64}, which/);
  await clock.advance(1_000);
  await settle();
  assert.deepEqual(read, ["plugins/shop", "plugins/shop"]);
  value = BUNDLE;
  await clock.advance(2_000);
  await settle();
  assert.equal(reason(), "");
  const [used] = plugins.held.get("inbound")?.used?.uses ?? [];
  assert.equal(used?.file && plugins.held.get("inbound")?.used?.code[used.file.code]?.path, use);
  value = "another one";
  assert.equal(await plugins.refresh(), true);
  await clock.advance(120_000);
  assert.equal(read.length, 3);
  plugins.close();
});

for (
  const [name, entry, reason] of [
    [
      "without a digest",
      { use: "consul-kv:plugins/shop" },
      /^postern_plugins\[0\]\.sha256 is missing: consul-kv:plugins\/shop runs only with the digest/,
    ],
    [
      "that cannot be fetched",
      { use: "consul-kv:gone", sha256: PIN },
      /^postern_plugins\[0\]\.use cannot be used: Cannot fetch consul-kv:gone: no such key/,
    ],
    [
      "from a server without TLS",
      { use: "http://127.0.0.1/shop.bundle", sha256: PIN },
      /^postern_plugins\[0\]\.use must begin with https:/,
    ],
    [
      "that is no bundle",
      { use: "consul-kv:source", sha256: sha256("export default {}") },
      /consul-kv:source is no bundle: write it with "postern plugin bundle"/,
    ],
  ] as const
) {
  test(`a bundle ${name} is refused by name`, async () => {
    const plugins = registered(() => {}, {
      readKey: (key) =>
        key === "source"
          ? Promise.resolve(new TextEncoder().encode("export default {}"))
          : Promise.reject(new Error("no such key")),
    });
    plugins.follow({ plugins: [entry], upstreams: [] }, null);
    await settle();
    assert.match(plugins.held.get("inbound")?.refused[0]?.reason ?? "", reason);
    plugins.close();
  });
}
