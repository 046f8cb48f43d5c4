import { strict as assert } from "node:assert";
import { request as requestPlain } from "node:http";
import { request as requestSecure, type RequestOptions } from "node:https";
import { connect } from "node:net";
import { test } from "node:test";
import { createAuthority } from "../../../test/kit/certs/certificates.ts";
import { silentLog, systemClock } from "../../base/mod.ts";
import { machineNames } from "./guard.ts";
import { type SmallAnswer, type SmallServerOptions, startSmallServer } from "./http_server.ts";

const CA = createAuthority();
const OWN = CA.issueLeaf({ service: "web" });
const TLS = { caPem: CA.rootPem, certPem: OWN.certPem, keyPem: OWN.keyPem };

function start(
  answer: (method: string, target: string) => Promise<SmallAnswer | undefined>,
  options: Partial<SmallServerOptions> = {},
) {
  return startSmallServer({
    host: "127.0.0.1",
    port: 0,
    name: "some server",
    flag: "-some-port",
    clock: systemClock,
    answer,
    ...options,
  }, silentLog);
}

function ask(request: typeof requestPlain, options: RequestOptions) {
  return new Promise<{ status: number; body: string }>((resolve, reject) => {
    const sent = request({ host: "127.0.0.1", agent: false, ...options }, (reply) => {
      let body = "";
      reply.setEncoding("utf8").on("data", (chunk: string) => body += chunk);
      reply.on("end", () => resolve({ status: reply.statusCode ?? 0, body }));
    });
    sent.on("error", reject).end();
  });
}

test("startSmallServer() answers 200 and HEAD, 404 for an unknown path, 500 with the error, 431 for large headers", async () => {
  const server = await start((method, target) => {
    if (target === "/broken") return Promise.reject(new Error("no disk"));
    return Promise.resolve(
      target === "/a?b" ? { status: 200, body: `${method} \u00e4` } : undefined,
    );
  });
  const { port } = server.address;
  try {
    assert.deepEqual(await ask(requestPlain, { port, path: "/a?b" }), {
      status: 200,
      body: "GET \u00e4",
    });
    const head = await ask(requestPlain, { port, path: "/a?b", method: "HEAD" });
    assert.deepEqual(head, { status: 200, body: "" });
    assert.equal((await ask(requestPlain, { port, path: "/b" })).status, 404);
    assert.deepEqual(await ask(requestPlain, { port, path: "/broken" }), {
      status: 500,
      body: "Cannot answer: no disk\n",
    });
    const large = { port, path: "/a?b", headers: { "x-large": "x".repeat(20_000) } };
    assert.equal((await ask(requestPlain, large)).status, 431);
  } finally {
    await server.close();
  }
});

for (
  const [bound, isPublic, host, status] of [
    ["127.0.0.1", false, "127.0.0.1:20300", 200],
    ["127.0.0.1", false, "LOCALHOST", 200],
    ["127.0.0.1", false, machineNames()[0] ?? "localhost", 200],
    ["127.0.0.1", false, "page.example", 403],
    ["127.0.0.1", false, "10.1.2.3", 403],
    ["127.0.0.1", true, "page.example", 403],
    ["0.0.0.0", false, "10.1.2.3:20300", 200],
    ["0.0.0.0", false, "page.example", 403],
    ["0.0.0.0", true, "collected.example", 200],
  ] as const
) {
  const kind = isPublic ? "a public server" : "a server";
  test(`startSmallServer() answers ${status} to the name ${host} as ${kind} on ${bound}`, async () => {
    let asked = 0;
    const answer = () => Promise.resolve({ status: 200, body: `${++asked}` });
    const server = await start(answer, { host: bound, isPublic });
    try {
      const reply = await ask(requestPlain, { port: server.address.port, headers: { host } });
      assert.deepEqual([reply.status, asked], [status, status === 200 ? 1 : 0]);
    } finally {
      await server.close();
    }
  });
}

test("startSmallServer() does not call answer() for a client without a certificate of its CA", async () => {
  let asked = 0;
  const answer = () => Promise.resolve({ status: 200, body: `${++asked}` });
  const server = await start(answer, { tls: TLS });
  const { port } = server.address;
  const others = createAuthority().issueLeaf({ service: "prometheus" });
  const own = CA.issueLeaf({ service: "prometheus" });
  const status = async (client?: { readonly certPem: string; readonly keyPem: string }) =>
    (await ask(requestSecure, {
      port,
      ca: CA.rootPem,
      checkServerIdentity: () => undefined,
      ...(client && { cert: client.certPem, key: client.keyPem }),
    })).status;
  try {
    assert.deepEqual([await status(), await status(others), asked], [403, 403, 0]);
    assert.deepEqual([await status(own), asked], [200, 1]);
    await assert.rejects(ask(requestPlain, { port }));
  } finally {
    await server.close();
  }
});

test("startSmallServer() closes idle connections for new ones", async () => {
  const answer = () => Promise.resolve({ status: 200, body: "" });
  const server = await start(answer);
  const { port } = server.address;
  const idle = Array.from({ length: 100 }, () => connect(port, "127.0.0.1").on("error", () => {}));
  try {
    const ended = idle.map((socket) => new Promise((resolve) => socket.once("close", resolve)));
    await Promise.race(ended);
    assert.equal((await ask(requestPlain, { port })).status, 200);
  } finally {
    for (const socket of idle) socket.destroy();
    await server.close();
  }
});
