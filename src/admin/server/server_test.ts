import { strict as assert } from "node:assert";
import { request } from "node:http";
import { connect, createServer, type Server, type Socket } from "node:net";
import { test } from "node:test";
import { fakeAdminView } from "../../../test/kit/admin/admin_view.ts";
import { type LogFields, ProxyError, silentLog } from "../../base/mod.ts";
import type { AdminAddress } from "../ask_admin.ts";
import type { Listening } from "./http_server.ts";
import { startAdmin } from "./server.ts";

const LOCAL = { kind: "address", host: "127.0.0.1", port: 0 } as const;

function ask(
  server: Listening,
  path: string,
  headers: Record<string, string> = {},
  method = "GET",
) {
  const { host, port } = server.address;
  return new Promise<{ status: number; body: string }>((resolve, reject) => {
    const sent = request({ host, port, path, headers, method, agent: false }, (reply) => {
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
    // Another process holds the port, which serves the test as well.
    server.once("error", () => resolve(undefined));
    server.listen(port, "127.0.0.1", () => resolve(server));
  });
}

test("startAdmin() answers on its socket and logs the address", async () => {
  const lines: [string, LogFields | undefined][] = [];
  const log = {
    ...silentLog,
    info: (text: string, fields?: LogFields) => void lines.push([text, fields]),
  };
  const server = await startAdmin(fakeAdminView(), { bind: LOCAL }, log);
  try {
    assert.ok(server.address.port > 0);
    assert.deepEqual(lines, [
      ["admin server listening", { address: `127.0.0.1:${server.address.port}` }],
    ]);
    const { status, body } = await ask(server, "/ready");
    assert.deepEqual([status, body.split("\n")[0]], [200, "LIVE"]);
    assert.equal((await ask(server, "/ready", { host: "evil.example" })).status, 403);
    assert.equal((await ask(server, "/ready", { "x-large": "x".repeat(20_000) })).status, 431);
  } finally {
    await server.close();
  }
});

test("startAdmin() takes the next free port when none is configured", async () => {
  const holder = await taken(19_000);
  const server = await startAdmin(fakeAdminView(), { bind: { kind: "default" } }, silentLog);
  const second = await startAdmin(fakeAdminView(), { bind: { kind: "default" } }, silentLog);
  try {
    assert.equal(server.address.host, "127.0.0.1");
    // Another process that holds a port of the range may release it meanwhile.
    const least = holder ? 19_001 : 19_000;
    for (const { address } of [server, second]) {
      assert.ok(address.port >= least && address.port <= 19_100, `${address.port}`);
    }
    assert.notEqual(second.address.port, server.address.port);
    assert.equal((await ask(second, "/live")).status, 200);
  } finally {
    await server.close();
    await second.close();
    holder?.close();
  }
});

test("startAdmin() fails when the configured address is in use, and names its holder", async () => {
  const first = await startAdmin(fakeAdminView(), { bind: LOCAL }, silentLog);
  try {
    const bind = { ...LOCAL, port: first.address.port };
    await assert.rejects(startAdmin(fakeAdminView(), { bind }, silentLog), (error: unknown) => {
      assert.ok(error instanceof ProxyError);
      assert.equal(error.code, "listen_failed");
      assert.equal(
        error.message,
        `Cannot listen on -admin-bind 127.0.0.1:${bind.port}: the address is in use; give another ` +
          "address, or off",
      );
      return true;
    });
    const holderOf = ({ port }: AdminAddress) =>
      Promise.resolve(`by ${port === bind.port ? "db" : ""}`);
    await assert.rejects(
      startAdmin(fakeAdminView(), { bind, holderOf }, silentLog),
      /the address is in use \(by db\); give/,
    );
  } finally {
    await first.close();
  }
});

test("startAdmin() limits its connections, and answers again when they are closed", async () => {
  const server = await startAdmin(fakeAdminView(), { bind: LOCAL }, silentLog);
  const sockets: Socket[] = [];
  try {
    const ended: Promise<void>[] = [];
    for (let count = 0; count < 70; count++) {
      const socket = connect(server.address.port, "127.0.0.1");
      // Some of them are closed by the server, as the test wants.
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
      assert.ok(performance.now() < endMs, "it does not answer again");
      status = (await ask(server, "/live").catch(() => undefined))?.status ?? 0;
    }
  } finally {
    for (const socket of sockets) socket.destroy();
    await server.close();
  }
});

/** Sends a request and resolves with the status once the answer has begun. */
function keep(server: Listening, path: string): { socket: Socket; status: Promise<number> } {
  const socket = connect(server.address.port, "127.0.0.1");
  socket.on("error", () => {});
  socket.write(`GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`);
  const status = new Promise<number>((resolve, reject) => {
    socket.once("data", (data) => resolve(Number(String(data).split(" ")[1])));
    socket.once("close", () => reject(new Error("closed unanswered")));
  });
  status.catch(() => {});
  return { socket, status };
}

test("startAdmin() closes the connection that has been idle longest for a new one", async () => {
  const server = await startAdmin(fakeAdminView(), { bind: LOCAL }, silentLog);
  const kept: Socket[] = [];
  try {
    for (let count = 0; count < 70; count++) {
      const { socket, status } = keep(server, "/live");
      kept.push(socket);
      assert.equal(await status, 200);
    }
    for (const path of ["/ready", "/live", "/stats"]) {
      assert.equal((await ask(server, path)).status, 200);
    }
    const first = kept[0];
    if (first && !first.destroyed) await new Promise((resolve) => first.once("close", resolve));
    assert.equal(kept.at(-1)?.destroyed, false);
  } finally {
    for (const socket of kept) socket.destroy();
    await server.close();
  }
});

test("startAdmin() answers probes while pending requests take every other place", async () => {
  const view = fakeAdminView();
  const data = Promise.withResolvers<never[]>();
  let asked = 0;
  const full = Promise.withResolvers<void>();
  view.data = () => {
    if (++asked === 62) full.resolve();
    return data.promise;
  };
  const server = await startAdmin(view, { bind: LOCAL }, silentLog);
  const kept = Array.from({ length: 62 }, () => keep(server, "/clusters"));
  try {
    await full.promise;
    assert.deepEqual(await ask(server, "/stats"), {
      status: 503,
      body: "Cannot answer now: too many requests are being answered\n",
    });
    assert.equal((await ask(server, "/live")).status, 200);
    assert.equal((await ask(server, "/ready")).status, 200);
    data.resolve([]);
    for (const { status } of kept) assert.equal(await status, 200);
    assert.equal((await ask(server, "/stats")).status, 200);
  } finally {
    for (const { socket } of kept) socket.destroy();
    await server.close();
  }
});

test("startAdmin() allows POST from this machine, and with a token file only with the token", async () => {
  const view = fakeAdminView();
  const server = await startAdmin(view, { bind: LOCAL }, silentLog);
  const guarded = await startAdmin(view, { bind: LOCAL, tokenFile: "/nowhere" }, silentLog);
  try {
    assert.equal((await ask(server, "/quitquitquit", {}, "POST")).status, 200);
    const { status, body } = await ask(guarded, "/quitquitquit", {}, "POST");
    assert.equal(status, 403);
    assert.match(body, /-admin-token-file "\/nowhere"/);
    assert.deepEqual(view.calls, ["quit"]);
  } finally {
    await server.close();
    await guarded.close();
  }
});

test("startAdmin() closes at once while connections are open", async () => {
  const server = await startAdmin(fakeAdminView(), { bind: LOCAL }, silentLog);
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
