import { strict as assert } from "node:assert";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { createLog, ProxyError, systemClock } from "../../base/mod.ts";
import { parseCommand } from "../command_line/args.ts";
import { startAgent } from "./run_dev.ts";

const LOG = createLog({ clock: systemClock, write: () => {}, holder: { level: "error" } });

function options(...argv: readonly string[]) {
  const command = parseCommand(["dev", ...argv], {});
  assert.ok(command.kind === "dev");
  return command.options;
}

test("startAgent() takes a free port when the default is in use, and fails when a configured one is", async () => {
  const consul = createServer();
  await new Promise<void>((resolve) => consul.listen(0, "127.0.0.1", resolve));
  const { port } = consul.address() as AddressInfo;
  try {
    const byDefault = { ...options(), listen: { kind: "tcp", host: "127.0.0.1", port } } as const;
    const agent = await startAgent(byDefault, LOG);
    assert.match(agent.address, /^http:\/\/127\.0\.0\.1:\d+$/);
    assert.notEqual(agent.address, `http://127.0.0.1:${port}`);
    await agent.close();
    await assert.rejects(startAgent(options("-http-addr", `127.0.0.1:${port}`), LOG), (error) => {
      assert.ok(error instanceof ProxyError);
      return /the address is in use .*-http-addr/.test(error.message);
    });
  } finally {
    consul.close();
  }
});
