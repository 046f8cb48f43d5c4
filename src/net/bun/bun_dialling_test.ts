import assert from "node:assert/strict";
import { test } from "node:test";
import { Dialling } from "./bun_dialling.ts";
import type { BunSocket } from "./bun_types.ts";

test("Dialling tells once of a socket that breaks, and keeps it no longer", () => {
  const told: string[] = [];
  const handler = {
    onConnected: () => told.push("connected"),
    onFailed: (stage: string, reason: string) => told.push(`${stage}: ${reason}`),
  };
  const address = { kind: "tcp", host: "192.0.2.1", port: 1 } as const;
  const dialling = new Dialling({ address, peerCheck: "checked" }, handler);
  dialling.opened({
    setKeepAlive() {},
    terminate: () => told.push("terminated"),
  } as unknown as BunSocket);
  dialling.broke(new Error("broken"));
  dialling.closed(undefined);
  assert.deepEqual(told, ["terminated", "handshake: broken"]);
});
