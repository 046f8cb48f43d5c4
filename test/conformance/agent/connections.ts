/** The limit on connections of one client: the refusal comes before any request. @module */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { test } from "node:test";
import type { AgentClient } from "./client.ts";

export function connectionContract(agent: AgentClient): void {
  test("connection 201 of one address is refused unasked, until one closes", async () => {
    const refusal = readFileSync(
      new URL("../../fixtures/consul/conn_limit_429.http", import.meta.url),
      "utf8",
    );
    const open: Socket[] = [];
    const deadlineMs = performance.now() + 30_000;
    try {
      // The agent notices ends a moment later than we do: of the calls before, and of one of ours.
      const hold = async () => {
        for (;;) {
          const socket = await held(agent);
          if (socket) return void open.push(socket);
          assert.ok(performance.now() < deadlineMs, `no place after ${open.length}`);
        }
      };
      while (open.length < 200) await hold();
      assert.equal(await everything(await opened(agent)), refusal);
      await closeAll(open.splice(-1));
      await hold();
      // All connections are free again for the next client.
      await closeAll(open.splice(0));
      while (open.length < 20) await hold();
    } finally {
      await closeAll(open);
    }
  });
}

function opened(agent: AgentClient): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect(agent.place);
    socket.on("error", reject);
    socket.once("connect", () => resolve(socket));
  });
}

/** A connection that was answered and is kept; undefined: it was refused. */
async function held(agent: AgentClient): Promise<Socket | undefined> {
  const socket = await opened(agent);
  socket.write("GET /v1/agent/version HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const status = await new Promise<string>((resolve) => {
    socket.setEncoding("utf8").once("data", (chunk: string) => resolve(chunk.split(" ")[1] ?? ""));
    // The write may fail first because the server has already closed.
    socket.on("error", () => resolve("reset"));
    socket.once("close", () => resolve("closed"));
  });
  if (status === "200") return socket.resume();
  socket.destroy();
  assert.match(status, /^(429|reset|closed)$/);
  return undefined;
}

async function closeAll(sockets: readonly Socket[]): Promise<void> {
  const closes = sockets.filter((socket) => !socket.closed).map((socket) =>
    new Promise((resolve) => socket.once("close", resolve))
  );
  for (const socket of sockets) socket.destroy();
  await Promise.all(closes);
}

function everything(socket: Socket): Promise<string> {
  return new Promise((resolve) => {
    let text = "";
    socket.setEncoding("utf8");
    socket.on("data", (chunk) => text += chunk);
    socket.on("close", () => resolve(text));
  });
}
