import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { pluginsInForce, RegisteredPlugins } from "./registered_plugins.ts";

const GOOD = "export default {};\n";

interface Rig extends AsyncDisposable {
  readonly file: string;
  readonly plugins: RegisteredPlugins;
  /** What the registration says next; resolves when that was read. */
  says(value: unknown): Promise<void>;
  used(): readonly string[] | undefined;
}

async function rig(): Promise<Rig> {
  const directory = await mkdtemp(join(tmpdir(), "postern-registered-"));
  const file = join(directory, "shop.js");
  await writeFile(file, GOOD);
  let changed = Promise.withResolvers<void>();
  const plugins = new RegisteredPlugins(() => changed.resolve());
  return {
    file,
    plugins,
    async says(value) {
      changed = Promise.withResolvers();
      plugins.follow(value);
      await changed.promise;
    },
    used: () =>
      plugins.held.used?.uses.map(({ plugin, at, config }) => {
        return `${at} ${plugin.replace(directory, "DIR")} ${JSON.stringify(config)}`;
      }),
    [Symbol.asyncDispose]: () => rm(directory, { recursive: true }),
  };
}

test("a registration's plugins are read, and none are none at once", async () => {
  await using it = await rig();
  assert.equal(it.used(), undefined);
  it.plugins.follow(undefined);
  assert.deepEqual(it.used(), []);
  await it.says([{ use: it.file, config: { a: 1 } }, { use: "header_rules" }]);
  assert.deepEqual(it.used(), [
    'postern_plugins[0] DIR/shop.js {"a":1}',
    "postern_plugins[1] header_rules {}",
  ]);
  const { uses: [use], code } = it.plugins.held.used ?? { uses: [], code: {} };
  assert.deepEqual(Object.keys(code), [use?.file?.code]);
});

test("what HCL made of a list of one is the list", async () => {
  await using it = await rig();
  await it.says({ use: it.file, config: [{ a: 1 }], allow: "node:crypto" });
  assert.deepEqual(it.used(), ['postern_plugins[0] DIR/shop.js {"a":1}']);
  assert.deepEqual(it.plugins.held.used?.uses[0]?.file?.allow, ["node:crypto"]);
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
    const before = it.plugins.held.used;
    await it.says(value);
    assert.equal(it.plugins.held.used, before);
    const [refused] = it.plugins.held.refused;
    assert.equal(refused?.what, "plugins");
    assert.match(refused?.reason ?? "", reason);
  });
}

test("refresh() reads the file again, and resolves to whether it can be used", async () => {
  await using it = await rig();
  await it.says([{ use: it.file }]);
  const before = it.plugins.held.used?.uses[0]?.file?.code;
  await writeFile(it.file, "export default { a: 1 };\n");
  assert.equal(await it.plugins.refresh(), true);
  const after = it.plugins.held.used?.uses[0]?.file?.code;
  assert.notEqual(after, before);
  await rm(it.file);
  assert.equal(await it.plugins.refresh(), false);
  assert.equal(it.plugins.held.used?.uses[0]?.file?.code, after);
});

test("pluginsInForce() has nothing to serve where none could be used and none were", () => {
  assert.equal(pluginsInForce({ used: undefined, refused: [] }, undefined), undefined);
});
