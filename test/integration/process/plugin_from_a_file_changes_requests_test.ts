import assert from "node:assert/strict";
import { mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import test from "node:test";
import { createFileSidecar, type FileSidecar } from "../../kit/mesh/file_sidecar.ts";
import { answerOf, RawClient, startRawOrigin } from "../../kit/wire/http_raw.ts";
import { type Postern, runPostern } from "../../kit/process/postern.ts";
import { eventually } from "../../kit/process/process.ts";
import { LOADED_MS, promptly } from "../../kit/clock/promptly.ts";

const PLUGIN = `import * as v from "valibot";
import { mark } from "./rules/mark.ts";

export default {
  name: "shop_rules",
  api: 1,
  phase: "filter",
  config: v.strictObject({ shop: v.string() }),
  create(_host: unknown, { shop }: { shop: string }) {
    return {
      onRequest({ request }: any, next: any) {
        return next({ request: request.with({ headers: { set: { "x-shop": mark(shop) } } }) });
      },
    };
  },
};
`;
const markOf = (word: string) => `export const mark = (shop: string) => \`\${shop} ${word}\`;\n`;

async function configure(
  mesh: FileSidecar,
  inbound: Readonly<Record<string, unknown>>,
): Promise<void> {
  const file = join(mesh.directory, "web.json");
  const config = JSON.parse(await readFile(file, "utf8"));
  Object.assign(config.inbound, { protocol: "http" }, inbound);
  Object.assign(config.upstreams[0], { protocol: "http" });
  await writeFile(file, JSON.stringify(config, null, 2));
}

async function write(mesh: FileSidecar, mark: string): Promise<void> {
  await mkdir(join(mesh.directory, "rules"), { recursive: true });
  await writeFile(join(mesh.directory, "shop_rules.ts"), PLUGIN);
  await writeFile(join(mesh.directory, "rules", "mark.ts"), mark);
}

/** The output of a start that ends at once with wrong usage. */
async function refusal(postern: Postern): Promise<string> {
  await using it = postern;
  it.expectEnd();
  assert.equal((await it.process.waitExit({ timeoutMs: 30_000 })).code, 2, it.output);
  return it.output;
}

test("a plugin of two files changes a header, is loaded anew, and a bad one leaves the good one", async () => {
  await using mesh = await createFileSidecar();
  await using origin = await startRawOrigin(({ head }) =>
    answerOf(/^x-shop: (.*)$/mi.exec(head)?.[1]?.trim() ?? "unmarked")
  );
  const plugins = [{ use: "./shop_rules.ts", config: { shop: "tea" } }];
  await write(mesh, markOf("fresh"));
  await configure(mesh, { local: `${origin.host}:${origin.port}`, plugins });
  await using web = runPostern(mesh.args);
  await web.waitReady();
  await using client = await RawClient.open(mesh.upstream);
  const ask = async () => {
    client.send("GET / HTTP/1.1\r\nHost: web\r\n\r\n");
    return (await client.response()).body;
  };
  assert.equal(await ask(), "tea fresh");

  // Whatever lies there now: what runs was taken into memory, and is changed by a reload alone.
  await write(mesh, markOf("new"));
  assert.equal(await ask(), "tea fresh");
  web.kill("SIGHUP");
  await web.process.waitFor(/files reloaded\n/, { timeoutMs: 20_000 });
  assert.equal(await ask(), "tea new");

  await write(mesh, "export const mark = {\n  a: 1,,\n};\n");
  web.kill("SIGHUP");
  const [line] = await web.process.waitFor(/(?:configuration|plugins) refused[^\n]*/, {
    timeoutMs: 20_000,
  });
  assert.match(line, /mark\.ts:2:\d+/);
  assert.match(line, /a: 1,,/);
  assert.equal(await ask(), "tea new");

  await rm(join(mesh.directory, "shop_rules.ts"));
  web.kill("SIGHUP");
  await web.process.waitFor(/shop_rules\.ts: there is no such file/, { timeoutMs: 20_000 });
  assert.equal(await ask(), "tea new");
});

test("-watch-plugins loads a saved file promptly, and an error names its line", async () => {
  await using mesh = await createFileSidecar();
  await using origin = await startRawOrigin(({ head }) =>
    answerOf(/^x-shop: (.*)$/mi.exec(head)?.[1]?.trim() ?? "unmarked")
  );
  await write(mesh, markOf("fresh"));
  await configure(mesh, {
    local: `${origin.host}:${origin.port}`,
    plugins: [{ use: "./shop_rules.ts", config: { shop: "tea" } }],
  });
  await using web = runPostern([...mesh.args, "-watch-plugins"]);
  await web.waitReady();
  await using client = await RawClient.open(mesh.upstream);
  const ask = async () => {
    client.send("GET / HTTP/1.1\r\nHost: web\r\n\r\n");
    return (await client.response()).body;
  };
  const mark = join(mesh.directory, "rules", "mark.ts");
  let word = "";
  await promptly("a saved file is at work", LOADED_MS, async () => {
    word += "x";
    const savedMs = performance.now();
    await writeFile(mark, markOf(word));
    await eventually(`${word} is at work`, async () => await ask() === `tea ${word}`);
    return performance.now() - savedMs;
  });

  await writeFile(mark, "export const mark = {\n  a: 1,,\n};\n");
  await web.process.waitFor(/mark\.ts:2:\d+.*a: 1,,/, { timeoutMs: 20_000 });
  assert.equal(await ask(), `tea ${word}`);

  await writeFile(mark, "export const mark = (shop: string) => (null as any)[shop];\n");
  await eventually("it fails", async () => await ask() !== `tea ${word}`);
  const [line] = await web.process.waitFor(/plugin failed"?[^\n]*/, { timeoutMs: 20_000 });
  for (
    const said of [
      "plugin=shop_rules",
      "hook=onRequest",
      "route=",
      "at=inbound.plugins[0]",
      "listener=",
      "/rules/mark.ts:1:",
      "(null as any)[shop]",
    ]
  ) assert.ok(line.includes(said), `${said}: ${line}`);
});

test("a wrong pin and a module that may not be imported start nothing", async () => {
  await using mesh = await createFileSidecar();
  await write(mesh, 'import "node:fs";\nexport const mark = String;\n');
  const check = ["check", join(mesh.directory, "web.json")];
  const use = { use: "./shop_rules.ts", config: { shop: "tea" } };

  await configure(mesh, { plugins: [use] });
  for (const args of [mesh.args, check]) {
    const output = await refusal(runPostern(args));
    assert.match(
      output,
      /line \d+, column \d+: inbound\.plugins\[0\]\.use names a plugin that cannot/,
    );
    assert.match(output, /rules\/mark\.ts imports node:fs, which it may not/);
  }

  await write(mesh, markOf("fresh"));
  await configure(mesh, { plugins: [{ ...use, sha256: "0".repeat(64) }] });
  for (const args of [mesh.args, check]) {
    const output = await refusal(runPostern(args));
    const digest = /plugins\[0\]\.sha256 is not the digest of .*, which is (\w{64})/.exec(output)
      ?.[1];
    assert.ok(digest, output);
    await configure(mesh, { plugins: [{ ...use, sha256: digest }] });
    await using good = runPostern(check);
    good.expectEnd();
    assert.equal((await good.process.waitExit({ timeoutMs: 30_000 })).code, 0, good.output);
    await configure(mesh, { plugins: [{ ...use, sha256: "0".repeat(64) }] });
  }

  await configure(mesh, { plugins: [{ ...use, config: { shop: 1 } }, { use: "nobody" }] });
  const output = await refusal(runPostern(check));
  assert.match(output, /inbound\.plugins\[0\]\.config\.shop: /);
  assert.match(output, /inbound\.plugins\[1\]\.use: there is no plugin "nobody"/);
});

const LATE = `import * as v from "valibot";
import { readFileSync } from "node:fs";

export default {
  name: "late",
  api: 1,
  phase: "filter",
  config: v.strictObject({ path: v.string() }),
  create(_host: unknown, { path }: { path: string }) {
    const text = readFileSync(path, "utf8");
    return {
      onRequest({ request }: any, next: any) {
        if (request.path === "/loose") {
          void (async () => {
            await 0;
            throw new Error("loose promise");
          })();
          setTimeout(() => { throw new Error("loose timer"); }, 0);
        }
        return next({ request: request.with({ headers: { set: { "x-late": text } } }) });
      },
    };
  },
};
`;

test("a create that fails is tried again, and only its listener waits for it", async () => {
  await using mesh = await createFileSidecar();
  await using origin = await startRawOrigin(({ head }) =>
    answerOf(
      ["x-shop", "x-late"].map((name) =>
        new RegExp(`^${name}: (.*)$`, "mi").exec(head)?.[1]?.trim() ?? "none"
      ).join(),
    )
  );
  const path = (name: string) => join(mesh.directory, name);
  const set = async (shop: string, needed: string) => {
    const config = JSON.parse(await readFile(path("web.json"), "utf8"));
    Object.assign(config.inbound, {
      protocol: "http",
      local: `${origin.host}:${origin.port}`,
      plugins: [{ use: "./shop_rules.ts", config: { shop } }],
    });
    Object.assign(config.upstreams[0], {
      protocol: "http",
      plugins: [{ use: "./late.ts", allow: ["node:fs"], config: { path: path(needed) } }],
    });
    await writeFile(path("web.json"), JSON.stringify(config));
  };
  await write(mesh, markOf("fresh"));
  await writeFile(path("late.ts"), LATE);
  await set("tea", "one");
  await using web = runPostern(mesh.args);
  await web.waitReady();
  const ready = async () => (await web.admin("/ready")).body;
  assert.match(await ready(), /warning: plugins of \S*web: .*create\(\): ENOENT.*late\.ts:10:/);
  assert.equal(await web.metric("postern_snapshot_refused"), 1);
  await assert.rejects(RawClient.open(mesh.upstream), "a guard may be missing: it stays closed");

  const ask = () =>
    RawClient.ask(mesh.upstream, "GET / HTTP/1.1\r\nHost: web\r\n\r\n").then(
      ({ body }) => body,
      () => "closed",
    );
  // At once: a try must not find an empty file.
  await writeFile(path("new"), "first");
  await rename(path("new"), path("one"));
  await web.process.waitFor(/plugins not refused any more/, { timeoutMs: 20_000 });
  await eventually("the upstream is open", async () => await ask() !== "closed");
  assert.equal(await ask(), "tea fresh,first");
  assert.doesNotMatch(await ready(), /ENOENT/);

  await set("coffee", "two");
  const refused = await web.admin("/plugins/reload", "POST");
  assert.deepEqual([refused.status, /ENOENT/.test(refused.body)], [409, true], refused.body);
  assert.equal(await ask(), "coffee fresh,first", "the public listener has its new plugins");
  assert.match((await web.admin("/plugins")).body, /ENOENT/);
  await writeFile(path("two"), "second");
  const reloaded = await web.admin("/plugins/reload", "POST");
  assert.equal(reloaded.status, 200, reloaded.body);
  assert.equal(await ask(), "coffee fresh,second");
  assert.doesNotMatch((await web.admin("/plugins")).body, /ENOENT/);
  assert.equal(await web.metric("postern_snapshot_refused"), 0);
  assert.match((await web.admin("/events")).body, /plugins not refused any more/);
  assert.equal(web.output.match(/files reloaded/g)?.length, 1);

  await RawClient.ask(mesh.upstream, "GET /loose HTTP/1.1\r\nHost: web\r\n\r\n");
  const [loose] = await web.process.waitFor(/a promise or timer of a plugin failed[^\n]*/, {
    timeoutMs: 20_000,
  });
  assert.match(
    loose,
    /plugin=late reason="loose \w+ \(\S+late\.ts:1(?:6|8):\d+: .*throw new Error/,
  );
  await eventually(
    "both are counted",
    async () => await web.metric("postern_plugin_loose_failures_total") === 2,
  );
  assert.match((await web.admin("/plugins")).body, /nothing waited for: loose \w+ \(\S+late\.ts:1/);
});
