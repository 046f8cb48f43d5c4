import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { NativeListener } from "./bun_listener.ts";
import type { BunRuntime } from "./bun_types.ts";

test("NativeListener leaves nothing beside a unix socket that cannot be bound", () => {
  const directory = mkdtempSync(join(tmpdir(), "postern-listen-"));
  const bun = {
    listen() {
      throw Object.assign(new Error("no descriptor"), { code: "EMFILE" });
    },
  } as unknown as BunRuntime;
  try {
    const address = { kind: "unix", path: join(directory, "a.sock"), mode: 0o660 } as const;
    const options = { longestRow: 1, socket: {} };
    assert.throws(() => new NativeListener(bun, { address, reusePort: false }, options), {
      code: "listen_failed",
    });
    assert.deepEqual(readdirSync(directory), []);
  } finally {
    rmSync(directory, { recursive: true });
  }
});
