/**
 * The contract of choosers towards clients that get nothing, send nonsense or nothing at all, or leave
 * while they wait: each failure is reported once, and other clients are served.
 *
 * @module
 */

import assert from "node:assert/strict";
import { readdirSync, readlinkSync } from "node:fs";
import { test } from "node:test";
import { fdHeadroom, type ServerTls } from "../../../src/net/mod.ts";
import {
  byName,
  failureOf,
  hello,
  rawClient,
  serve,
  serveAtOnce,
  settings,
  stillServes,
} from "./chooser_kit.ts";
import { clientHello } from "./client_hello.ts";
import { quiet, SecureServer } from "./kit.ts";
import { Waiting } from "./side.ts";

/** Descriptors that wait for others. */
function epollCount(): number {
  const links = readdirSync("/proc/self/fd").map((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`);
    } catch {
      return ""; // The one that the directory was read with.
    }
  });
  return links.filter((link) => link === "anon_inode:[eventpoll]").length;
}

test("waiting for a slow client leaves no epoll descriptor open", async () => {
  await using server = await serveAtOnce(byName);
  // Whatever the runtime opens for itself at the first connection is open then.
  await stillServes(server, 0);
  const before = epollCount();
  for (let count = 2; count < 5; count++) {
    const client = rawClient(server.port, hello("a.example").subarray(0, 20));
    await quiet(5);
    client.socket.destroy();
    await server.until(() => server.outcomes.length === count, () => `${server.outcomes.length}`);
  }
  assert.equal(epollCount(), before);
});

for (const how of ["leaves", "is reset"] as const) {
  test(`waiting for a client that ${how} after its listener closed leaves no epoll descriptor open`, async () => {
    await using server = await SecureServer.start(undefined, () => {});
    const client = rawClient(server.port, hello("a.example").subarray(0, 20));
    await server.until(() => server.accepted.length === 1, () => "nothing was accepted");
    server.listener.close();
    const before = epollCount();
    server.accepted[0]?.secure(
      { kind: "chooser", choose: byName },
      (outcome) => server.settled(outcome),
    );
    await quiet(3);
    if (how === "leaves") {
      client.socket.destroy();
      const outcome = await server.outcome();
      assert.equal(outcome.kind === "failed" && outcome.gone, true, failureOf(outcome));
    } else {
      server.accepted[0]?.reset();
      await client.received;
      assert.equal(server.outcomes.length, 0);
    }
    assert.equal(epollCount(), before);
  });
}

const ALERT = { unrecognizedName: "15030300020270", internalError: "15030300020250" };

for (
  const [name, choose, reason, alert] of [
    ["has nothing", () => undefined, 'no certificate for "a.example"', ALERT.unrecognizedName],
    [
      "has nothing in the end",
      () => Promise.resolve(undefined),
      'no certificate for "a.example"',
      ALERT.unrecognizedName,
    ],
    [
      "throws",
      () => {
        throw new Error("torn");
      },
      "cannot choose a certificate: torn",
      ALERT.internalError,
    ],
    [
      "rejects",
      () => Promise.reject(new Error("torn")),
      "cannot choose a certificate: torn",
      ALERT.internalError,
    ],
  ] as const
) {
  test(`a client gets an alert when choose() ${name}`, async () => {
    let first = true;
    await using server = await serve((hello) => {
      if (!first) return byName(hello);
      first = false;
      return choose();
    });
    const client = rawClient(server.port, hello("a.example"));
    const outcome = await server.outcome();
    assert.equal(failureOf(outcome), reason);
    assert.equal(outcome.kind === "failed" && outcome.gone, false);
    assert.equal((await client.received).toString("hex"), alert);
    assert.ok(!client.broken(), "it was reset behind its alert");
    await stillServes(server, 1);
  });
}

test("a client without a server name may be refused for it", async () => {
  await using server = await serve(byName);
  const client = rawClient(server.port, clientHello());
  assert.equal(
    failureOf(await server.outcome()),
    "no certificate for a client that names no host",
  );
  assert.equal((await client.received).toString("hex"), ALERT.unrecognizedName);
});

for (
  const [name, bytes, reason] of [
    ["an HTTP request", Buffer.from("GET / HTTP/1.1\r\nHost: db\r\n\r\n"), /plain HTTP/],
    ["100 KB of garbage", new Uint8Array(100_000).fill(0x41), /not speak TLS/],
    ["a hello of 20 KB", clientHello({ extensions: [[21, new Uint8Array(20_000)]] }), /16 KiB/],
    [
      "a hello in a thousand records",
      clientHello({ extensions: [[21, new Uint8Array(16_000)]], recordBytes: 1 }),
      /too many TLS records/,
    ],
    ["a hello cut short by another record", clientHello({ cut: 20 }), /interrupted/],
    ["a name that is none", hello("*/.."), /not a DNS name/],
  ] as const
) {
  test(`choose() is not called for ${name}`, async () => {
    let asked = 0;
    await using server = await serve((hello) => {
      asked++;
      return byName(hello);
    });
    const client = rawClient(server.port, bytes);
    const outcome = await server.outcome();
    assert.match(failureOf(outcome), reason);
    assert.equal(outcome.kind === "failed" && outcome.gone, false);
    // The failed client's connection is closed.
    await client.received;
    assert.equal(asked, 0);
    await stillServes(server, 1);
  });
}

for (const how of ["end", "destroy", "resetAndDestroy"] as const) {
  for (const said of [0, 50]) {
    test(`a client that leaves by ${how}() after ${said} bytes is reported as gone`, async () => {
      await using server = await serve(byName);
      // The first connection is handed out before its client has spoken everywhere.
      const { socket } = rawClient(server.port, hello("a.example").subarray(0, said));
      await server.until(() => server.accepted.length === 1, () => "nothing was accepted");
      await quiet(3);
      assert.deepEqual(server.outcomes, []);
      socket[how]();
      const outcome = await server.outcome();
      assert.equal(outcome.kind === "failed" && outcome.gone, true, failureOf(outcome));
      await stillServes(server, 1);
    });
  }

  test(`a client that leaves by ${how}() while choose() takes its time is reported as gone`, async () => {
    const late = Promise.withResolvers<ServerTls | undefined>();
    const asked = new Waiting();
    let count = 0;
    await using server = await serve((hello) => {
      count++;
      asked.woken();
      return hello.serverName === "b.example" ? late.promise : byName(hello);
    });
    const { socket } = rawClient(server.port, hello("b.example"));
    await asked.until(() => count === 1, () => "choose() was not called");
    await quiet(3);
    socket[how]();
    const outcome = await server.outcome();
    assert.equal(outcome.kind === "failed" && outcome.gone, true, failureOf(outcome));
    late.resolve(settings.get("b.example"));
    await stillServes(server, 1);
  });
}

test("an accepted connection that is reset while choose() takes its time reports no outcome", async () => {
  const late = Promise.withResolvers<ServerTls | undefined>();
  await using server = await serve((hello) =>
    hello.serverName === "b.example" ? late.promise : byName(hello)
  );
  const client = rawClient(server.port, hello("b.example"));
  await server.until(() => server.accepted.length === 1, () => "nothing was accepted");
  await quiet(3);
  server.accepted[0]?.reset();
  assert.equal((await client.received).length, 0);
  late.resolve(settings.get("b.example"));
  await stillServes(server, 0);
});

test("a chooser keeps 200 silent clients apart from one that speaks", async () => {
  await using server = await serveAtOnce(byName);
  const headroom = fdHeadroom();
  const silent = Array.from({ length: 200 }, () => rawClient(server.port));
  await stillServes(server, 0);
  for (const { socket } of silent) socket.write(hello("b.example").subarray(0, 9));
  await server.until(() => server.accepted.length === 201, () => `${server.accepted.length}`);
  await quiet(5);
  assert.equal(server.outcomes.length, 1);
  for (const { socket } of silent) socket.destroy();
  await server.until(() => server.outcomes.length === 201, () => `${server.outcomes.length}`);
  for (const outcome of server.outcomes) {
    assert.ok(outcome.kind === "secured" || outcome.gone, failureOf(outcome));
  }
  // The descriptors of waiting connections are given back, too.
  for (const { connection } of server.sides) connection.reset();
  for (let turn = 0; turn < 5_000 && fdHeadroom() < headroom; turn++) await quiet(1);
  assert.ok(fdHeadroom() >= headroom, `${headroom - fdHeadroom()} descriptors are still open`);
});
