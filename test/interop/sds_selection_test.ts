import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { connect } from "node:net";
import test from "node:test";
import { clientHello, type HelloOptions } from "../conformance/net/client_hello.ts";
import { createAuthority } from "../kit/certs/certificates.ts";
import { type Place, startEcho } from "../kit/wire/echo.ts";
import { sdsSecret } from "../kit/peers/envoy_tls.ts";
import { eventually } from "../kit/process/process.ts";
import { certificateSecret, startSdsPeer } from "../kit/secrets/sds_peer.ts";
import { serialOf } from "../kit/wire/tls_probe.ts";
import { APIS, SUBJECTS } from "../kit/peers/tls_subjects.ts";
import { formatPem } from "../../src/wire/mod.ts";

/** Any key at all, and RSA alone: signature schemes and suites of TLS 1.2. */
const ANY = { schemes: [0x0403, 0x0804, 0x0401], suites: [0xc02b, 0xc02f] };
const RSA_ONLY = { schemes: [0x0804, 0x0401], suites: [0xc02f] };

/**
 * The leaf that answers a hello which no engine's own client sends. TLS 1.2 shows it in plain text, and
 * the handshake goes no further.
 */
function shownTo(place: Place, hello: HelloOptions): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(place, () => socket.write(clientHello(hello)));
    const timer = setTimeout(() => fail("nothing within 15 s"), 15_000);
    const settle = (end: () => void) => {
      clearTimeout(timer);
      socket.destroy();
      end();
    };
    const fail = (reason: string) => settle(() => reject(new Error(`No leaf: ${reason}`)));
    let received: Uint8Array = new Uint8Array();
    socket.on("data", (chunk: Uint8Array) => {
      received = Buffer.concat([received, chunk]);
      const leaf = leafIn(received);
      if (leaf) settle(() => resolve(serialOf(formatPem("CERTIFICATE", leaf))));
      else if (received[0] !== 0x16) fail("an alert");
    });
    socket.on("error", (error) => fail(error.message));
    socket.on("close", () => fail("closed"));
  });
}

/** DER of the first certificate in the handshake records, once it is whole. */
function leafIn(bytes: Uint8Array): Uint8Array | undefined {
  const records: Uint8Array[] = [];
  const view = Buffer.from(bytes);
  for (let at = 0; at + 5 <= view.length && view[at] === 0x16;) {
    const end = at + 5 + view.readUInt16BE(at + 3);
    records.push(view.subarray(at + 5, end));
    at = end;
  }
  const handshake = Buffer.concat(records);
  for (let at = 0; at + 4 <= handshake.length;) {
    const end = at + 4 + handshake.readUIntBE(at + 1, 3);
    if (end > handshake.length) return undefined;
    // Certificate: three bytes of length for the list, three for the leaf.
    if (handshake[at] === 11) {
      return handshake.subarray(at + 10, at + 10 + handshake.readUIntBE(at + 7, 3));
    }
    at = end;
  }
  return undefined;
}

const ca = createAuthority();
const issue = (dnsName: string, keyKind: "ec-p256" | "rsa-2048" = "ec-p256") =>
  ca.issueLeaf({ service: "web", keyKind, overrides: { dnsNames: [dnsName] } });

const leaves = {
  first: issue("first.example", "rsa-2048"),
  both_ec: issue("both.example"),
  both_rsa: issue("both.example", "rsa-2048"),
  star: issue("*.wild.example"),
  exact: issue("exact.wild.example"),
};
type Name = keyof typeof leaves;

for (const [subject, startProxy] of SUBJECTS) {
  for (const api of APIS) {
    test(`${subject}, ${api}: shows the certificate of the requested name`, async () => {
      await using echo = await startEcho({ host: "127.0.0.1" });
      await using sds = await startSdsPeer();
      const names = Object.keys(leaves) as Name[];
      await sds.set(
        Object.fromEntries(names.map((name) => [name, certificateSecret(leaves[name])])),
      );
      await using proxy = await startProxy({
        sds: sds.address,
        inbound: {
          tls: {
            common_tls_context: {
              tls_certificate_sds_secret_configs: names.map((name) => sdsSecret(name, { api })),
            },
          },
          target: echo,
        },
      });
      const place = await eventually("the listener is open", () => proxy.place("tls_in"));
      // Envoy serves as soon as one of them is there; a name without its leaf gets the first.
      await eventually("all leaves are there", async () => {
        return await shownTo(place, { ...ANY, names: ["exact.wild.example"] }) ===
          serialOf(leaves.exact.certPem);
      });
      for (const name of names) await sds.acknowledged(name);
      const rows: readonly (readonly [HelloOptions, Name])[] = [
        [{ ...ANY, names: ["first.example"] }, "first"],
        [{ ...ANY, names: ["both.example"] }, "both_ec"],
        [{ ...RSA_ONLY, names: ["both.example"] }, "both_rsa"],
        // Names have no case (RFC 6066 3); to Envoy this is another one.
        [{ ...ANY, names: ["BOTH.Example"] }, subject === "Envoy" ? "first" : "both_ec"],
        [{ ...ANY, names: ["exact.wild.example"] }, "exact"],
        [{ ...ANY, names: ["any.wild.example"] }, "star"],
        [{ ...ANY, names: ["two.any.wild.example"] }, "first"],
        [{ ...ANY, names: ["wild.example"] }, "first"],
        [{ ...ANY, names: ["unknown.example"] }, "first"],
        [ANY, "both_ec"],
        [RSA_ONLY, "first"],
      ];
      const expectShown = async (current: Readonly<Record<Name, { certPem: string }>>) => {
        for (const [hello, want] of rows) {
          const what = `${hello.names ?? "no name"}${hello.schemes === ANY.schemes ? "" : ", RSA"}`;
          assert.equal(await shownTo(place, hello), serialOf(current[want].certPem), what);
        }
      };
      // An acknowledged secret is shown a moment later.
      await eventually("each name has its leaf", () => expectShown(leaves).then(() => true));

      const star = issue("*.wild.example");
      await sds.set({ star: certificateSecret(star) });
      await eventually("the wildcard's leaf is the new one", async () => {
        return await shownTo(place, { ...ANY, names: ["any.wild.example"] }) ===
          serialOf(star.certPem);
      });
      await expectShown({ ...leaves, star });

      // One stream for all names, or one each.
      const { entries } = await sds.log();
      const streams = new Set(entries.filter((e) => e.event === "open").map((e) => e.stream));
      assert.equal(streams.size, subject === "Envoy" ? names.length : 1);
    });
  }
}
