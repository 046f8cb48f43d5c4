import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import process from "node:process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { OWN_ENGINE, posternCommand } from "../../kit/process/postern.ts";
import { Process } from "../../kit/process/process.ts";

const IN_TIME = { timeoutMs: 60_000 };

const ON_AGENT = ["dev", "-demo", "-http-addr", "127.0.0.1:0", "-log-level", "error"];
const SCRIPT = fileURLToPath(new URL("../../../scripts/demo.ts", import.meta.url));

/** `scripts/demo.ts` in place of the program, on the same engine. */
function demoScript(): string[] {
  return OWN_ENGINE === "deno"
    ? [process.execPath, "run", "-A", "--no-check", SCRIPT]
    : [process.execPath, SCRIPT];
}

for (
  const [where, words, end] of [
    // A terminal that closes hangs up.
    ["an agent", () => [...posternCommand(OWN_ENGINE), ...ON_AGENT], "SIGHUP"],
    ["servers", () => [...demoScript(), "-servers", "3"], "SIGTERM"],
  ] as const
) {
  test(`the demo on ${where} calls over HTTP, shows its intention's effect, and ends its processes`, async () => {
    const [command = "", ...args] = words();
    await using demo = new Process(command, args, { name: "demo" });
    await demo.waitFor(/GET 200, POST 200 \| intention allow \| web-1 \w+ \| api-1 \w+/, IN_TIME);
    const [, url = ""] = await demo.waitFor(/curl -X POST (\S+)/, IN_TIME);
    const sidecars = [...demo.output.matchAll(/sidecar \(pid (\d+)\)/g)].map(([, pid]) => pid);
    assert.equal(sidecars.length, 2);
    // The commands are tried as they are printed.
    const flips = [...demo.output.matchAll(/curl -X PUT '(\S+)' -d '(\S+)'/g)];
    const seen = [
      /GET 200, POST 403 \| intention permissions/,
      /GET 403, POST 403 \| intention deny/,
    ];
    assert.equal(flips.length, seen.length);
    const ask = async (method: string) => {
      const reply = await fetch(url, { method });
      return { status: reply.status, text: await reply.text() };
    };
    assert.match((await ask("POST")).text, /^hello web from api: POST \/orders, /);
    for (const [index, [, exact = "", body = ""]] of flips.entries()) {
      const flipped = await fetch(exact, { method: "PUT", body });
      assert.equal(await flipped.text(), "true");
      await demo.waitFor(seen[index] ?? /^$/, IN_TIME);
      assert.equal((await ask("POST")).status, 403);
    }
    demo.kill(end);
    assert.deepEqual(await demo.waitExit(IN_TIME), { code: 0, signal: null });
    for (const pid of sidecars) assert.ok(!existsSync(`/proc/${pid}`), `sidecar ${pid} is left`);
  });
}
