/**
 * The limit on connections of one client: the refusal comes before anything was asked.
 *
 * @module
 */

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
    try {
      while (open.length < 200) open.push(await opened(agent));
      assert.equal(await everything(await opened(agent)), refusal);
      await new Promise<void>((resolve) => {
        open.pop()?.once("close", () => resolve()).destroy();
      });
      // The agent notices the end a moment later than we do.
      for (let attempt = 0;; attempt++) {
        const socket = await opened(agent);
        socket.write("GET /v1/agent/version HTTP/1.0\r\n\r\n");
        const reply = await everything(socket);
        if (reply.startsWith("HTTP/1.0 200") || reply.startsWith("HTTP/1.1 200")) break;
        assert.ok(attempt < 100, "no slot became free");
      }
    } finally {
      for (const socket of open) socket.destroy();
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

function everything(socket: Socket): Promise<string> {
  return new Promise((resolve) => {
    let text = "";
    socket.setEncoding("utf8");
    socket.on("data", (chunk) => text += chunk);
    socket.on("close", () => resolve(text));
  });
}
