/**
 * The contract of prefaces: a reader uses bytes before TLS, asks for more, or refuses; the handshake gets
 * the bytes that it left.
 *
 * @module
 */

import assert from "node:assert/strict";
import { connect } from "node:net";
import { test } from "node:test";
import { connect as connectTls } from "node:tls";
import {
  PREFACE_LIMIT_BYTES,
  type PrefaceReader,
  type PrefaceReading,
  type ServerTls,
  type ServerTlsChooser,
} from "../../../src/net/mod.ts";
import { byName, failureOf, hello, rawClient, settings, stillServes } from "./chooser_kit.ts";
import { quiet, SecureServer, webMaterial } from "./kit.ts";

const CHOOSER: ServerTlsChooser = { kind: "chooser", choose: byName };
const HEADER = "PROXY TCP4 192.0.2.1 192.0.2.2 5 6\r\n";

/** A line that ends in LF; `!` in it is a fault, and no line (a TLS record) is an empty preface. */
const readLine: PrefaceReader = (bytes): PrefaceReading => {
  if (bytes[0] === 0x16) return { used: 0 };
  const end = bytes.indexOf(0x0a);
  if (bytes.subarray(0, end < 0 ? bytes.length : end).includes(0x21)) {
    return { fault: "a ! in the line" };
  }
  return end < 0 ? "more" : { used: end + 1 };
};

/** `reads`: sizes that the readers got. */
async function serve(
  options: {
    readonly read?: PrefaceReader;
    readonly tls?: ServerTls | ServerTlsChooser | undefined;
    /** `later`: `preface` and `secure` are called in later turns. */
    readonly when?: "at once" | "later";
    readonly rounds?: number;
  } = {},
) {
  const { read = readLine, tls = settings.get("a.example"), when = "at once", rounds = 1 } =
    options;
  const reads: number[] = [];
  const counted: PrefaceReader = (bytes) => {
    reads.push(bytes.length);
    return read(bytes);
  };
  const step = (then: () => void) => when === "at once" ? then() : void setTimeout(then, 2);
  const server: SecureServer = await SecureServer.start(undefined, (accepted) => {
    const next = (left: number) =>
      step(() => {
        if (left === 0) {
          assert.ok(tls);
          return accepted.secure(tls, (outcome) => server.settled(outcome));
        }
        accepted.preface(counted, (outcome) => {
          if (outcome.kind === "failed") server.settled(outcome);
          else next(left - 1);
        });
      });
    next(rounds);
  });
  return { server, reads };
}

/** A TLS client that sends `before` in plain text first, in one write with its hello or byte by byte. */
function clientOf(port: number, before: string, pace: "joined" | "bytes" = "joined") {
  const socket = connect({ port, host: "127.0.0.1", noDelay: true });
  socket.on("error", () => {});
  const client = new Promise<ReturnType<typeof connectTls>>((resolve) => {
    socket.once("connect", async () => {
      if (pace === "joined") socket.write(before);
      for (const byte of pace === "bytes" ? before : "") {
        socket.write(byte);
        await quiet(1);
      }
      const secured = connectTls({
        socket,
        cert: webMaterial.certPem,
        key: webMaterial.keyPem,
        servername: "a.example",
        rejectUnauthorized: false,
      });
      secured.on("error", () => {});
      resolve(secured);
    });
  });
  return client;
}

for (const tls of ["server", "chooser"] as const) {
  for (const when of ["at once", "later"] as const) {
    for (const pace of ["joined", "bytes"] as const) {
      test(`preface() uses a line (${pace}) before a handshake with a ${tls}, ${when}`, async () => {
        const { server, reads } = await serve({
          tls: tls === "server" ? settings.get("a.example") : CHOOSER,
          when,
        });
        await using _server = server;
        const client = await clientOf(server.port, HEADER, pace);
        client.write("hello");
        const side = await server.side();
        await side.received("hello");
        assert.equal(side.peer?.serverName, "a.example");
        assert.ok(reads.length > 0 && (reads.at(-1) ?? 0) >= HEADER.length, `${reads}`);
        client.destroy();
      });
    }
  }
}

test("preface() may use no bytes", async () => {
  const { server } = await serve({ tls: CHOOSER });
  await using _server = server;
  await stillServes(server, 0);
});

test("preface() may be called again for the bytes after the first", async () => {
  const { server } = await serve({ rounds: 3, tls: CHOOSER });
  await using _server = server;
  const client = await clientOf(server.port, `${HEADER}two\nthree\n`);
  client.write("hello");
  await (await server.side()).received("hello");
  client.destroy();
});

for (
  const [name, bytes, reason] of [
    ["a line with a fault", "PROXY !", "a ! in the line"],
    [
      "a line without an end",
      "p".repeat(PREFACE_LIMIT_BYTES + 5),
      `the client's first ${PREFACE_LIMIT_BYTES} bytes do not end its preface`,
    ],
  ] as const
) {
  test(`preface() refuses ${name}, once, and resets the client`, async () => {
    const { server, reads } = await serve();
    await using _server = server;
    const client = rawClient(server.port, Buffer.from(bytes));
    const outcome = await server.outcome();
    assert.equal(failureOf(outcome), reason);
    assert.equal(outcome.kind === "failed" && outcome.gone, false);
    assert.equal((await client.received).length, 0);
    assert.ok(reads.every((size) => size <= PREFACE_LIMIT_BYTES), `${reads}`);
    await stillServes(server, 1);
  });
}

for (const how of ["end", "destroy", "resetAndDestroy"] as const) {
  for (const said of [0, 9]) {
    test(`preface() reports a client that leaves by ${how}() after ${said} bytes as gone`, async () => {
      const { server } = await serve();
      await using _server = server;
      const { socket } = rawClient(server.port, Buffer.from(HEADER.slice(0, said)));
      await server.until(() => server.accepted.length === 1, () => "nothing was accepted");
      await quiet(3);
      assert.deepEqual(server.outcomes, []);
      socket[how]();
      const outcome = await server.outcome();
      assert.equal(outcome.kind === "failed" && outcome.gone, true, failureOf(outcome));
      await stillServes(server, 1);
    });
  }
}

test("reset() within a preface calls no handler", async () => {
  const { server } = await serve();
  await using _server = server;
  const client = rawClient(server.port, Buffer.from("PROXY"));
  await server.until(() => server.accepted.length === 1, () => "nothing was accepted");
  await quiet(3);
  server.accepted[0]?.reset();
  await client.received;
  await stillServes(server, 0);
});

test("a hello that follows a preface is refused as one without", async () => {
  const { server } = await serve({ tls: CHOOSER });
  await using _server = server;
  const client = rawClient(
    server.port,
    Buffer.concat([Buffer.from(HEADER), hello("z.example")]),
  );
  assert.equal(failureOf(await server.outcome()), 'no certificate for "z.example"');
  assert.equal((await client.received).toString("hex"), "15030300020270");
});
