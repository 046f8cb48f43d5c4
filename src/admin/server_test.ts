import { strict as assert } from "node:assert";
import { request } from "node:http";
import { connect, createServer, type Server, type Socket } from "node:net";
import { test } from "node:test";
import { fakeAdminView } from "../../test/kit/admin_view.ts";
import { type Fields, ProxyError, silentLog } from "../base/mod.ts";
import { type AdminServer, startAdmin } from "./server.ts";

const LOCAL = { kind: "address", host: "127.0.0.1", port: 0 } as const;

function ask(server: AdminServer, path: string, headers: Record<string, string> = {}) {
  const { host, port } = server.address;
  return new Promise<{ status: number; body: string }>((resolve, reject) => {
    const sent = request({ host, port, path, headers, agent: false }, (reply) => {
      let body = "";
      reply.setEncoding("utf8").on("data", (chunk: string) => body += chunk);
      reply.on("end", () => resolve({ status: reply.statusCode ?? 0, body }));
    });
    sent.on("error", reject).end();
  });
}

function taken(port: number): Promise<Server | undefined> {
  return new Promise((resolve) => {
    const server = createServer();
    // Somebody else holds it: just as good.
    server.once("error", () => resolve(undefined));
    server.listen(port, "127.0.0.1", () => resolve(server));
  });
}

test("startAdmin() answers on its socket and logs where", async () => {
  const lines: [string, Fields | undefined][] = [];
  const log = {
    ...silentLog,
    info: (text: string, fields?: Fields) => void lines.push([text, fields]),
  };
  const server = await startAdmin(fakeAdminView(), LOCAL, log);
  try {
    assert.ok(server.address.port > 0);
    assert.deepEqual(lines, [
      ["admin server listening", { address: `127.0.0.1:${server.address.port}` }],
    ]);
    assert.deepEqual(await ask(server, "/ready"), { status: 200, body: "LIVE\n" });
    assert.equal((await ask(server, "/ready", { host: "evil.example" })).status, 403);
    assert.equal((await ask(server, "/ready", { "x-large": "x".repeat(20_000) })).status, 431);
  } finally {
    await server.close();
  }
});

test("startAdmin() takes the next free port where none was asked for", async () => {
  const holder = await taken(19_000);
  const server = await startAdmin(fakeAdminView(), { kind: "default" }, silentLog);
  const second = await startAdmin(fakeAdminView(), { kind: "default" }, silentLog);
  try {
    assert.equal(server.address.host, "127.0.0.1");
    assert.ok(server.address.port > 19_000 && server.address.port <= 19_100);
    assert.ok(second.address.port > server.address.port);
    assert.equal((await ask(second, "/live")).status, 200);
  } finally {
    await server.close();
    await second.close();
    holder?.close();
  }
});

test("startAdmin() fails for an address that was asked for and is taken", async () => {
  const first = await startAdmin(fakeAdminView(), LOCAL, silentLog);
  try {
    const bind = { ...LOCAL, port: first.address.port };
    await assert.rejects(startAdmin(fakeAdminView(), bind, silentLog), (error: unknown) => {
      assert.ok(error instanceof ProxyError);
      assert.equal(error.code, "listen_failed");
      assert.equal(
        error.message,
        `Cannot listen on -admin-bind 127.0.0.1:${bind.port}: the address is in use; give another ` +
          "address, or off",
      );
      return true;
    });
  } finally {
    await first.close();
  }
});

test("startAdmin() bounds the connections it holds, and answers again when they are gone", async () => {
  const server = await startAdmin(fakeAdminView(), LOCAL, silentLog);
  const sockets: Socket[] = [];
  try {
    const ended: Promise<void>[] = [];
    for (let count = 0; count < 70; count++) {
      const socket = connect(server.address.port, "127.0.0.1");
      // Being cut off is what some of them are here for.
      socket.on("error", () => {});
      ended.push(new Promise((resolve) => socket.once("close", () => resolve())));
      sockets.push(socket);
    }
    await Promise.any(ended);
    assert.ok(sockets.some((socket) => !socket.destroyed));
    for (const socket of sockets) socket.destroy();
    await Promise.all(ended);
    const endMs = performance.now() + 30_000;
    for (let status = 0; status !== 200;) {
      assert.ok(performance.now() < endMs, "it does not answer any more");
      status = (await ask(server, "/live").catch(() => undefined))?.status ?? 0;
    }
  } finally {
    for (const socket of sockets) socket.destroy();
    await server.close();
  }
});

test("startAdmin() closes at once, with connections open", async () => {
  const server = await startAdmin(fakeAdminView(), LOCAL, silentLog);
  const socket = connect(server.address.port, "127.0.0.1");
  const closed = new Promise<void>((resolve) =>
    socket.on("error", () => {}).once("close", resolve)
  );
  await new Promise<void>((resolve) => socket.once("connect", resolve));
  socket.write("GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n");
  await new Promise<void>((resolve) => socket.once("data", () => resolve()));
  await server.close();
  await closed;
});
