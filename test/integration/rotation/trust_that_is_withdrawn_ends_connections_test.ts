/** Open connections are judged again when the roots or the revocation list in a file change. */
import assert from "node:assert/strict";
import { X509Certificate } from "node:crypto";
import test from "node:test";
import { mintCrlPem } from "../../kit/certs/mint_crl.ts";
import { createAuthority } from "../../kit/certs/certificates.ts";
import { inTime } from "../../kit/clock/long.ts";
import { eventually } from "../../kit/process/process.ts";
import { probeTls } from "../../kit/wire/tls_probe.ts";
import { type ClientPair, clientPair, TlsSession } from "../../kit/wire/tls_session.ts";
import { FileListener } from "./file_listener.ts";

/** From the write to the end of the connection. */
const LIMIT_MS = 1_000;

const [own, old, added] = [
  createAuthority({ name: "own" }),
  createAuthority({ name: "old" }),
  createAuthority({ name: "added" }),
];
const leaf = own.issueLeaf({ service: "web" });
const ownClient = clientPair(own.issueLeaf({ service: "shop" }));
const oldClient = clientPair(old.issueLeaf({ service: "shop" }));
const addedClient = clientPair(added.issueLeaf({ service: "shop" }));
const files = { "web.crt": leaf.certPem, "web.key": leaf.keyPem };
const tls = { cert: "web.crt", key: "web.key", ca: "ca.pem" };

test("a removed CA ends its clients' connections, an added CA ends none", async () => {
  await using listener = await FileListener.start(
    { ...files, "ca.pem": own.rootPem + old.rootPem },
    tls,
  );
  const place = await listener.shows(leaf, ownClient);
  using stays = await TlsSession.open(place, { client: ownClient });
  using goes = await TlsSession.open(place, { client: oldClient });
  assert.equal(await isTaken(listener, addedClient), false);

  const tookMs = await endsWithin(listener, goes, { "ca.pem": own.rootPem });
  console.log(`a removed CA ended its client's connection after ${tookMs.toFixed(0)} ms`);
  assert.equal(await isTaken(listener, oldClient), false);
  await stays.exchange();

  await listener.write({ "ca.pem": own.rootPem + added.rootPem });
  await eventually("clients of the added CA are taken", () => isTaken(listener, addedClient));
  await stays.exchange();
  assert.equal(await isTaken(listener, oldClient), false);
  assert.equal(await isTaken(listener, ownClient), true);
});

test("a client that is revoked while it is connected is cut off, and the others stay", async () => {
  const revoked = clientPair(own.issueLeaf({ service: "shop" }));
  const crl = (serials: readonly string[]) =>
    mintCrlPem({
      signer: own.key.privateKey,
      issuer: "own",
      thisUpdateMs: Date.now() - 60_000,
      nextUpdateMs: Date.now() + 3_600_000,
      revoked: serials,
    });
  await using listener = await FileListener.start(
    { ...files, "ca.pem": own.rootPem, "crl.pem": crl([]) },
    { ...tls, crl: "crl.pem" },
  );
  const place = await listener.shows(leaf, ownClient);
  using stays = await TlsSession.open(place, { client: ownClient });
  using goes = await TlsSession.open(place, { client: revoked });
  const { serialNumber } = new X509Certificate(revoked.cert);
  const tookMs = await endsWithin(listener, goes, { "crl.pem": crl([serialNumber]) });
  console.log(`a revocation ended its client's connection after ${tookMs.toFixed(0)} ms`);
  assert.equal(await isTaken(listener, revoked), false);
  await stays.exchange();
  assert.equal(await isTaken(listener, ownClient), true);

  // A list that cannot be read takes nothing back and gives nothing back.
  await listener.write({ "crl.pem": "-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n" });
  await eventually("the list is refused", () => listener.lines("secret rejected").length > 0);
  assert.match(listener.lines("secret rejected")[0] ?? "", /crl\.pem/);
  assert.equal(await isTaken(listener, revoked), false);
  assert.equal(await isTaken(listener, ownClient), true);
  await stays.exchange();
});

/** Writes `files`; the milliseconds until the session ended. */
async function endsWithin(
  listener: FileListener,
  session: TlsSession,
  files: Readonly<Record<string, string>>,
): Promise<number> {
  await listener.write(files);
  const written = performance.now();
  assert.ok(await session.ends({ timeoutMs: 20_000 }), "still open after 20 s");
  const tookMs = performance.now() - written;
  inTime("a connection whose trust was withdrawn ends", tookMs, LIMIT_MS);
  return tookMs;
}

async function isTaken(listener: FileListener, client: ClientPair): Promise<boolean> {
  return (await probeTls(await listener.open(), client)).accepted;
}
