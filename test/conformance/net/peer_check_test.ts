/**
 * The contract of {@link PeerCheck}: what each side must show, whose verdict counts, and that showing a
 * certificate takes its key whichever side judges it.
 *
 * @module
 */

import assert from "node:assert/strict";
import { connect } from "node:net";
import { test } from "node:test";
import type { PeerCheck, PresentedPeer, Ticket, TlsMaterial } from "../../../src/net/mod.ts";
import { createAuthority } from "../../kit/certs/certificates.ts";
import { clientHello } from "./client_hello.ts";
import {
  CERTIFICATE_REQUEST,
  HandshakeReader,
  impostorWire,
  SERVER_HELLO_DONE,
} from "./handshake_wire.ts";
import { ca, dial, materialOf, resumes, SecureServer, SERVER_NAME } from "./kit.ts";

const HOUR_MS = 3_600_000;
const other = createAuthority({ name: "other" });
const strange = other.intermediate().issueLeaf({ service: "web" });
const known = ca.intermediate().issueLeaf({ service: "web" });
const expired = ca.issueLeaf({
  service: "web",
  overrides: { notBeforeMs: Date.now() - 9 * HOUR_MS, notAfterMs: Date.now() - HOUR_MS },
});
const dbLeaf = ca.issueLeaf({ service: "db" });
const NO_CERTIFICATE = { certPem: "", keyPem: "" };

const VERSIONS = ["TLSv1.2", "TLSv1.3"] as const;
const only = (version: (typeof VERSIONS)[number]) => ({
  minVersion: version,
  maxVersion: version,
});

function hex(bytes: readonly Uint8Array[]): string[] {
  return bytes.map((der) => Buffer.from(der).toString("hex"));
}

/** Accepted, with that leaf and everything else that was presented. */
function assertShown(peer: PresentedPeer | undefined, leaf: typeof known): void {
  assert.ok(peer?.leaf);
  assert.equal(peer.accepted, true, peer.reason);
  assert.equal(peer.reason, "");
  assert.deepEqual(hex([peer.leaf]), hex([leaf.certDer]));
  assert.deepEqual(hex(peer.chain().slice(0, leaf.chainDer.length)), hex(leaf.chainDer));
}

for (const version of VERSIONS) {
  const server = (peerCheck: PeerCheck, options: Partial<TlsMaterial> = {}) =>
    materialOf(dbLeaf, { ...only(version), peerCheck, ...options });

  for (
    const [name, leaf] of [
      ["a known authority", known],
      ["an unknown authority", strange],
      ["an expired leaf", expired],
    ] as const
  ) {
    for (const rootPems of [[ca.rootPem], []]) {
      test(`${version} shown: a client of ${name} is accepted by ${rootPems.length} roots`, async () => {
        await using listening = await SecureServer.start(server("shown", { rootPems }));
        const material = materialOf(leaf, only(version));
        let ticket: Ticket | undefined;
        for (let index = 0; index < 2; index++) {
          const dialled = dial(listening.port, { material, ticket });
          const client = await dialled.side();
          const side = await listening.side(index);
          client.write("hello");
          await side.received("hello");
          side.write("hello");
          await client.received("hello");
          assertShown(side.peer, leaf);
          assert.equal(side.peer?.resumed, resumes && index > 0);
          if (resumes && index === 0) {
            await dialled.waiting.until(() => dialled.tickets.length > 0, () => "no ticket came");
          }
          ticket = dialled.tickets.at(-1);
        }
      });
    }

    test(`${version} shown: a server of ${name} is accepted`, async () => {
      await using listening = await SecureServer.start(materialOf(leaf, only(version)));
      const material = materialOf(known, { ...only(version), peerCheck: "shown" });
      const client = await dial(listening.port, { material }).side();
      assertShown(client.peer, leaf);
      client.write("hello");
      await (await listening.side()).received("hello");
    });
  }

  for (const peerCheck of ["shown", "ignored"] as const) {
    test(`${version} ${peerCheck}: a client without a certificate connects and has no leaf`, async () => {
      await using listening = await SecureServer.start(server(peerCheck));
      const client = await dial(listening.port, {
        material: materialOf(dbLeaf, { ...only(version), ...NO_CERTIFICATE }),
      }).side();
      client.write("hello");
      const side = await listening.side();
      await side.received("hello");
      assert.equal(side.peer?.leaf, undefined);
      assert.deepEqual(side.peer?.chain(), []);
      assert.equal(side.peer?.accepted, peerCheck === "ignored");
      assert.equal(
        side.peer?.reason,
        peerCheck === "ignored" ? "" : "no certificate was presented",
      );
    });
  }

  test(`${version} ignored: a client is not asked for its certificate`, async () => {
    await using listening = await SecureServer.start(server("ignored"));
    const material = materialOf(known, only(version));
    (await dial(listening.port, { material }).side()).write("hello");
    const side = await listening.side();
    await side.received("hello");
    assert.equal(side.peer?.leaf, undefined);
    assert.equal(side.peer?.accepted, true);
  });
}

for (const peerCheck of ["checked", "shown"] as const) {
  const material = materialOf(known, { ...only("TLSv1.2"), peerCheck });

  test(`${peerCheck}: a server that shows another's certificate is refused`, async () => {
    const impostor = ca.issueLeaf({ service: "web" });
    await using listening = await SecureServer.start(
      materialOf(impostor, { ...only("TLSv1.2"), peerCheck: "ignored" }),
    );
    await using wire = await impostorWire(listening.port, {
      whose: "server",
      certDer: dbLeaf.certDer,
    });
    const result = await dial(wire.port, { material }).result();
    assert.equal(wire.replaced(), 1);
    assert.equal(result.kind, "failed");
    assert.equal(result.kind === "failed" && result.stage, "handshake");
  });

  test(`${peerCheck}: a client that shows another's certificate is refused`, async () => {
    await using listening = await SecureServer.start(
      materialOf(dbLeaf, { ...only("TLSv1.2"), peerCheck }),
    );
    await using wire = await impostorWire(listening.port, {
      whose: "client",
      certDer: known.certDer,
    });
    const impostor = materialOf(ca.issueLeaf({ service: "web" }), only("TLSv1.2"));
    const client = dial(wire.port, { material: impostor });
    assert.equal((await listening.outcome()).kind, "failed");
    assert.equal(wire.replaced(), 1);
    assert.equal((await client.result()).kind, "failed");
  });
}

// A name that fits must not hide that no trusted CA signed the certificate.
for (const name of [SERVER_NAME, "other.test"]) {
  test(`checked: a stranger of the name ${name} is not accepted`, async () => {
    const overrides = { dnsNames: [name] };
    const stranger = other.issueLeaf({ service: "db", overrides });
    await using listening = await SecureServer.start(
      materialOf(stranger, { peerCheck: "ignored" }),
    );
    const result = await dial(listening.port, { material: materialOf(known) }).result();
    assert.notEqual(result.kind === "connected" && result.peer?.accepted, true);
  });
}

// TLS libraries refuse these by themselves; that must not hide that the peer did not prove that it has
// their key.
for (const [name, victim] of [["strange", strange], ["expired", expired]] as const) {
  for (const whose of ["server", "client"] as const) {
    test(`shown: a ${whose} that shows another's ${name} certificate is refused`, async () => {
      await using listening = await SecureServer.start(
        materialOf(dbLeaf, { ...only("TLSv1.2"), peerCheck: "shown" }),
      );
      await using wire = await impostorWire(listening.port, { whose, certDer: victim.certDer });
      const material = materialOf(known, { ...only("TLSv1.2"), peerCheck: "shown" });
      const client = dial(wire.port, { material });
      assert.equal((await client.result()).kind, "failed");
      assert.equal((await listening.outcome()).kind, "failed");
      assert.equal(wire.replaced(), 1);
    });
  }
}

/**
 * The authorities named by the server's CertificateRequest in plain text; undefined: it sent none.
 */
async function authoritiesNamed(port: number): Promise<number | undefined> {
  const reader = new HandshakeReader();
  const socket = connect({ port, host: "127.0.0.1" });
  socket.on("error", () => {});
  socket.write(clientHello({ names: ["db"] }));
  const messages = await new Promise<Buffer[]>((resolve) => {
    const seen: Buffer[] = [];
    socket.on("data", (chunk: Buffer) => {
      seen.push(...reader.read(chunk).messages);
      if (seen.at(-1)?.[0] === SERVER_HELLO_DONE) resolve(seen);
    });
    socket.on("close", () => resolve(seen));
  });
  socket.destroy();
  assert.equal(messages.at(-1)?.[0], SERVER_HELLO_DONE, "the server's flight was cut short");
  const request = messages.find((message) => message[0] === CERTIFICATE_REQUEST);
  if (!request) return undefined;
  // certificate_types<1>, supported_signature_algorithms<2>, certificate_authorities<2>
  let at = 4 + 1 + request.readUInt8(4);
  at += 2 + request.readUInt16BE(at);
  let count = 0;
  for (at += 2; at < request.length; count++) at += 2 + request.readUInt16BE(at);
  return count;
}

const many = Array.from({ length: 21 }, (_, at) => createAuthority({ name: `root ${at}` }));
for (
  const [peerCheck, count, want] of [
    ["checked", 2, 2],
    ["shown", 2, 2],
    ["shown", 21, 0],
    ["shown", 0, 0],
    ["ignored", 2, undefined],
  ] as const
) {
  test(`${peerCheck}: of ${count} authorities ${want === undefined ? "nothing is asked" : `${want} are named`}`, async () => {
    await using listening = await SecureServer.start(materialOf(dbLeaf, {
      ...only("TLSv1.2"),
      peerCheck,
      rootPems: many.slice(0, count).map((root) => root.rootPem),
    }));
    assert.equal(await authoritiesNamed(listening.port), want);
  });
}
