/**
 * The contract of application protocols (ALPN, RFC 7301): the server's order decides, both sides know
 * which one was agreed on, resumed or not, and a peer that offers none is not affected.
 *
 * @module
 */

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Ticket } from "../../../src/net/mod.ts";
import { readClientHello } from "../../../src/wire/mod.ts";
import { startServer } from "../../kit/wire/echo.ts";
import { failureOf, serve } from "./chooser_kit.ts";
import { dbMaterial, dial, engine, resumes, SecureServer, webMaterial } from "./kit.ts";

/** The protocol that both sides report after a whole exchange, and a ticket where one came. */
async function visit(
  server: SecureServer,
  protocols: readonly string[] | undefined,
  options: { readonly ticket?: Ticket | undefined; readonly serverName?: string } = {},
): Promise<{ readonly agreed: string; readonly resumed: boolean; readonly ticket?: Ticket }> {
  const index = server.sides.length;
  const material = { ...webMaterial, ...(protocols && { protocols }) };
  const dialled = dial(server.port, { ...options, material });
  const client = await dialled.side();
  const side = await server.side(index);
  client.write("ping");
  await side.received("ping");
  side.write("pong");
  await client.received("pong");
  assert.equal(side.peer?.protocol, client.peer?.protocol);
  if (resumes) {
    await dialled.waiting.until(() => dialled.tickets.length > 0, () => "no ticket came");
  }
  const ticket = dialled.tickets.at(-1);
  return {
    agreed: client.peer?.protocol ?? "(nobody)",
    resumed: client.peer?.resumed ?? false,
    ...(ticket && { ticket }),
  };
}

for (const maxVersion of ["TLSv1.2", "TLSv1.3"] as const) {
  for (
    const [name, ours, theirs, want] of [
      ["the server's order decides", ["h2", "http/1.1"], ["http/1.1", "h2"], "h2"],
      ["the one in common is taken", ["h2", "http/1.1"], ["spdy/3", "http/1.1"], "http/1.1"],
      ["a client that offers none is let in", ["h2"], undefined, ""],
      ["a server that knows none lets everybody in", undefined, ["h2"], ""],
      ["an empty list is none", [], [], ""],
      ["neither side offers any", undefined, undefined, ""],
    ] as const
  ) {
    test(`application protocols over ${maxVersion}: ${name}`, async () => {
      const material = { ...dbMaterial, maxVersion, ...(ours && { protocols: ours }) };
      await using server = await SecureServer.start(material);
      assert.equal((await visit(server, theirs)).agreed, want);
    });
  }

  test(`application protocols over ${maxVersion}: nothing in common ends the handshake on both sides`, async () => {
    await using server = await SecureServer.start({ ...dbMaterial, maxVersion, protocols: ["h2"] });
    const client = dial(server.port, { material: { ...webMaterial, protocols: ["http/1.1"] } });
    const outcome = await server.outcome();
    assert.equal(failureOf(outcome), "no application protocol in common with the peer");
    assert.equal(outcome.kind === "failed" && outcome.gone, false);
    assert.deepEqual(await client.result(), {
      kind: "failed",
      stage: "handshake",
      reason: "the peer takes no application protocol that we offer",
    });
    assert.equal((await visit(server, ["h2"])).agreed, "h2");
  });
}

test("a chooser's choices differ in their application protocols alone", async () => {
  const choices = new Map(
    [["a.example", ["h2"]], ["b.example", ["http/1.1"]], ["c.example", []]].map((
      [name, protocols],
    ) => [name, engine.serverTls({ ...dbMaterial, protocols: protocols as string[] })]),
  );
  await using server = await serve((hello) => choices.get(hello.serverName ?? ""));
  for (const [serverName, want] of [["a", "h2"], ["b", "http/1.1"], ["c", ""], ["a", "h2"]]) {
    const { agreed } = await visit(server, ["http/1.1", "h2"], {
      serverName: `${serverName}.example`,
    });
    assert.equal(agreed, want);
  }
});

test("a resumed session agrees on an application protocol of its own", async () => {
  await using server = await SecureServer.start({
    ...dbMaterial,
    protocols: ["h2", "http/1.1"],
  });
  const { ticket } = await visit(server, ["h2"]);
  for (const [offered, want] of [[["h2"], "h2"], [["http/1.1"], "http/1.1"], [[], ""]] as const) {
    const { agreed, resumed } = await visit(server, offered, { ticket });
    assert.equal(agreed, want);
    // The other engine resumes nothing: each of its handshakes is whole.
    assert.equal(resumed, resumes);
  }
});

for (const protocols of [undefined, ["h2", "http/1.1"]]) {
  test(`a client hello speaks of ${protocols ?? "no application protocols"}`, async () => {
    const received: Buffer[] = [];
    await using server = await startServer((socket) => {
      socket.on("data", (chunk: Buffer) => {
        received.push(chunk);
        socket.destroy();
      });
    });
    await dial(server.port, { material: { ...webMaterial, ...(protocols && { protocols }) } })
      .result();
    const reading = readClientHello(Buffer.concat(received));
    assert.equal(reading.kind, "complete");
    assert.deepEqual(reading.kind === "complete" && reading.hello.alpn, protocols ?? []);
  });
}
