/**
 * A torn or wrong file is reported once and never used; the last good certificate stays until the file
 * is mended.
 */
import assert from "node:assert/strict";
import { chmod, writeFile } from "node:fs/promises";
import { join } from "node:path";
import test from "node:test";
import { createAuthority } from "../../kit/certs/certificates.ts";
import { keyPieces, piecesIn } from "../../kit/certs/key_pieces.ts";
import { eventually } from "../../kit/process/process.ts";
import { probeTls, serialOf } from "../../kit/wire/tls_probe.ts";
import { clientPair } from "../../kit/wire/tls_session.ts";
import { FileListener } from "./file_listener.ts";

const authority = createAuthority();
const client = clientPair(authority.issueLeaf({ service: "shop" }));
const newLeaf = () => authority.issueLeaf({ service: "web" });

const REJECTED = "secret rejected";
const FAILED = "postern_secret_rotation_failed_total";
const PAGES = ["/certs", "/config_dump", "/stats/prometheus", "/stats", "/events", "/ready", "/"];

test("torn and wrong files are logged once each, and the old certificate stays", async () => {
  const [good, other, next] = [newLeaf(), newLeaf(), newLeaf()];
  const expired = authority.issueLeaf({
    service: "web",
    overrides: { notBeforeMs: Date.now() - 7_200_000, notAfterMs: Date.now() - 3_600_000 },
  });
  await using listener = await FileListener.start(
    { "web.crt": good.certPem, "web.key": good.keyPem, "ca.pem": authority.rootPem },
    { cert: "web.crt", key: "web.key", ca: "ca.pem" },
  );
  const place = await listener.shows(good, client);
  const { postern } = listener;

  const faults: readonly (readonly [string, Readonly<Record<string, string>>, RegExp])[] = [
    ["a key of another certificate", { "web.key": other.keyPem }, /web\.key|web\.crt/],
    ["half a certificate", { "web.crt": good.certPem.slice(0, 300) }, /web\.crt/],
    ["an empty key", { "web.crt": good.certPem, "web.key": "" }, /web\.key/],
    [
      "an expired one",
      { "web.crt": expired.certPem, "web.key": expired.keyPem },
      /web\.crt.*expired/,
    ],
  ];
  for (const [index, [name, files, reason]] of faults.entries()) {
    await listener.write(files);
    await eventually(`${name} is logged`, () => listener.lines(REJECTED).length > index);
    assert.match(listener.lines(REJECTED)[index] ?? "", reason, name);
    await eventually(`${name} is counted`, async () => await postern.metric(FAILED) === index + 1);
    const outcome = await probeTls(place, client);
    assert.ok(outcome.accepted && outcome.serial === serialOf(good.certPem), name);
  }
  // Mended without a signal.
  await listener.write({ "web.crt": next.certPem, "web.key": next.keyPem });
  await listener.shows(next, client);
  assert.equal(listener.lines(REJECTED).length, faults.length, "a fault was logged again");
});

test("files that disappear change nothing until they are there again", async () => {
  const [good, next] = [newLeaf(), newLeaf()];
  await using listener = await FileListener.start(
    { "web.crt": good.certPem, "web.key": good.keyPem, "ca.pem": authority.rootPem },
    { cert: "web.crt", key: "web.key", ca: "ca.pem" },
  );
  await listener.shows(good, client);
  await listener.remove("web.crt");
  await listener.remove("ca.pem");
  await eventually("both are logged", () => listener.lines(REJECTED).length === 2);
  await listener.shows(good, client);
  await listener.write({
    "web.crt": next.certPem,
    "web.key": next.keyPem,
    "ca.pem": authority.rootPem,
  });
  await listener.shows(next, client);
});

test("no key is shown anywhere, and a key file that others can read is warned of once", async () => {
  const leaves = [newLeaf(), newLeaf(), newLeaf()];
  const [first] = leaves;
  assert.ok(first);
  await using listener = await FileListener.start(
    { "web.crt": first.certPem, "web.key": first.keyPem, "ca.pem": authority.rootPem },
    { cert: "web.crt", key: "web.key", ca: "ca.pem" },
  );
  await chmod(join(listener.directory, "web.key"), 0o644);
  for (const { certPem, keyPem } of leaves) {
    // Into the file that is there: its mode stays.
    await writeFile(join(listener.directory, "web.crt"), certPem);
    await writeFile(join(listener.directory, "web.key"), keyPem);
    await listener.shows({ certPem }, client);
  }
  // A key in the place of the certificate, and a torn one: their faults must not quote it.
  await listener.write({ "web.crt": first.keyPem });
  await eventually("the swap is logged", () => listener.lines(REJECTED).length > 0);
  await listener.write({ "web.crt": first.certPem, "web.key": first.keyPem.slice(0, 120) });
  await eventually("the torn key is logged", () => listener.lines(REJECTED).length > 1);

  const { postern } = listener;
  const pages = await Promise.all(PAGES.map(async (path) => (await postern.admin(path)).body));
  const everything = [postern.output, ...pages].join("\n");
  assert.ok(everything.includes(listener.directory), "nothing was looked at");
  const pieces = keyPieces(leaves.map(({ keyPem }) => keyPem), 16);
  assert.deepEqual(piecesIn(everything, pieces), [], "part of a key");
  assert.equal(listener.lines("key file is readable by others").length, 1);
});
