/**
 * The executable, made as for a release: the settings that it obeys, and those that it does not. @module
 */

import assert from "node:assert/strict";
import { chmod, copyFile, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test, { after, before } from "node:test";
import { fileURLToPath } from "node:url";
import { peer } from "../../scripts/peers.ts";
import { firstHeeded } from "../../scripts/runtime_variables.ts";
import { createFileSidecar } from "../kit/mesh/file_sidecar.ts";
import { waitForEcho } from "../kit/wire/echo.ts";
import { eventually, Process, runToEnd } from "../kit/process/process.ts";

const COMPILE = fileURLToPath(new URL("../../scripts/compile.ts", import.meta.url));
const DENO = "Deno" in globalThis ? process.execPath : "deno";

let directory = "";
let postern = "";

before(async () => {
  directory = await mkdtemp(join(tmpdir(), "postern-executable-"));
  postern = process.env.POSTERN_BIN ?? join(directory, "postern");
  if (process.env.POSTERN_BIN) return;
  await runToEnd(DENO, ["run", "-A", COMPILE, "--into", directory], { timeoutMs: 300_000 });
});

after(async () => {
  await rm(directory, { recursive: true, force: true });
});

async function run(words: readonly string[], env: Record<string, string | undefined> = {}) {
  const child = new Process(postern, words, { cwd: directory, env });
  const { code } = await child.waitExit({ timeoutMs: 60_000 });
  return { code, output: child.output };
}

test("the executable prints its version", async () => {
  const { code, output } = await run(["version"]);
  assert.equal(code, 0);
  assert.match(output, /^postern \d+\.\d+\.\d+ \(commit [0-9a-f]{7}\+?, bun \d\S+, \S+ \S+\)\n$/);
});

for (
  const [name, value] of [
    ["BUN_OPTIONS", "--smol"],
    ["BUN_INSPECT", "127.0.0.1:0"],
    ["BUN_CONFIG_MAX_HTTP_REQUESTS", "1"],
    ["NODE_TLS_REJECT_UNAUTHORIZED", "0"],
    ["SSLKEYLOGFILE", "/tmp/keys"],
  ] as const
) {
  test(`the executable refuses ${name}, and starts nothing`, async () => {
    const { code, output } = await run(["proxy", "-sidecar-for", "web"], { [name]: value });
    assert.equal(code, 2, output);
    assert.match(output, new RegExp(`Cannot start with ${name}`));
  });
}

test("the runtime in the executable obeys no variables or flags of its own", () => {
  assert.equal(firstHeeded(postern), undefined);
});

test("the executable takes ambient capabilities, and none of its file", async () => {
  const started = async (executable: string, ...under: readonly string[]) => {
    const [command = "", ...words] = [...under, executable, "version"];
    const child = new Process(command, words, { cwd: "/" });
    const { code } = await child.waitExit({ timeoutMs: 60_000 });
    return { code, output: child.output };
  };
  const root = process.getuid?.() === 0 ? [] : ["sudo", "-n"];
  const stranger = [...root, "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
  const copy = join(directory, "capable");
  await copyFile(postern, copy);
  await chmod(directory, 0o755);
  const ambient = ["--inh-caps=+net_bind_service", "--ambient-caps=+net_bind_service"];
  assert.match((await started(copy, ...stranger, ...ambient)).output, /^postern \d/);

  const [command = "", ...words] = [...root, peer("setcap"), "cap_net_bind_service+ep", copy];
  await runToEnd(command, words, { timeoutMs: 60_000 });
  const { code, output } = await started(copy, ...stranger);
  assert.equal(code, 2, output);
  assert.match(output, /Cannot start with the rights of a file capability.*AmbientCapabilities/);
  // An environment that asks for its interpreter gets the same answer.
  const interpreter = ["env", "BUN_BE_BUN=1", "BUN_OPTIONS=--preload=/nonexistent.js"];
  assert.equal((await started(copy, ...stranger, ...interpreter)).output, output);
});

test("the executable reads no file of the directory it is started in", async () => {
  await writeFile(join(directory, ".env"), "CONNECT_SIDECAR_FOR=web\nSSLKEYLOGFILE=/tmp/keys\n");
  await writeFile(join(directory, "bunfig.toml"), 'preload = ["./preload.ts"]\n');
  await writeFile(join(directory, "preload.ts"), 'console.log("preloaded");\n');
  const { code, output } = await run(["proxy"], {
    CONNECT_SIDECAR_FOR: undefined,
    CONNECT_PROXY_ID: undefined,
  });
  assert.equal(code, 2);
  assert.match(output, /nothing says what to stand for/);
  assert.doesNotMatch(output, /preloaded/);
});

test("the executable carries traffic in its workers", async () => {
  await using mesh = await createFileSidecar();
  await using proxy = new Process(postern, [...mesh.args, "-workers", "2"]);
  try {
    await eventually("it is ready", async () => await mesh.readyStatus() === 200);
    const [host, port] = [mesh.admin.host, mesh.admin.port];
    const waited = await run(["wait-ready", "-admin", `${host}:${port}`, "-timeout", "30s"]);
    assert.equal(waited.code, 0, waited.output);
    await waitForEcho(mesh.upstream);
  } catch (error) {
    throw new Error(proxy.tail(), { cause: error });
  }
});

test("the executable takes the place of consul-dataplane where it has its name", async () => {
  const name = join(directory, "consul-dataplane");
  await symlink(postern, name);
  const started = async (...words: readonly string[]) => {
    const child = new Process(name, words, { cwd: directory });
    const { code } = await child.waitExit({ timeoutMs: 60_000 });
    return { code, output: child.output };
  };
  assert.match((await started("-version")).output, /^postern \d/);
  for (
    const [words, said] of [
      [["-adresses", "a"], /flag -adresses: there is none; did you mean -addresses\?/],
      [[], /consul addresses not specified/],
      [["-addresses", "a"], /proxy ID not specified/],
      [["-check-proxy-health", "-envoy-admin-bind-port", "1"], /Cannot ask the proxy whether/],
    ] as const
  ) {
    const { code, output } = await started(...words);
    assert.equal(code, 1, output);
    assert.match(output, said);
  }
});

test("the executable's wait-ready gives up with 1", async () => {
  const { code, output } = await run(["wait-ready", "-admin", "127.0.0.1:1", "-timeout", "0.1s"]);
  assert.equal(code, 1);
  assert.match(output, /Cannot wait longer for the proxy at 127\.0\.0\.1:1/);
});
