import assert from "node:assert/strict";
import { mkdtemp, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";
import { createAuthority } from "../kit/certs/certificates.ts";
import { startEcho } from "../kit/wire/echo.ts";
import { sdsSecret } from "../kit/peers/envoy_tls.ts";
import { eventually, pause } from "../kit/process/process.ts";
import { certificateSecret, startSdsPeer, validationSecret } from "../kit/secrets/sds_peer.ts";
import { clientPair, TlsTraffic } from "../kit/wire/tls_session.ts";
import { mutualTls, SUBJECTS, waitForLeaf } from "../kit/peers/tls_subjects.ts";

/** The next try of a proxy that backs off may be half a minute away. */
const RECOVERY = { timeoutMs: 60_000 };
const ca = createAuthority();
const caller = clientPair(ca.issueLeaf({ service: "api" }));
const issue = () => ca.issueLeaf({ service: "web" });

async function inDirectory(use: (path: (name: string) => string) => Promise<void>) {
  const directory = await mkdtemp(join(tmpdir(), "postern-sds-"));
  try {
    await use((name) => join(directory, name));
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

for (const [subject, startProxy] of SUBJECTS) {
  test(`${subject}: faults of the server under traffic drop nothing, and its secrets are kept`, async () => {
    await inDirectory(async (path) => {
      const leaf = issue();
      await using echo = await startEcho({ host: "127.0.0.1" });
      await using sds = await startSdsPeer({ listen: `unix:${path("sds.sock")}` });
      await sds.set({ web: certificateSecret(leaf), roots: validationSecret(ca.rootPem) });
      await using proxy = await startProxy({
        sds: sds.address,
        inbound: { tls: mutualTls("delta"), target: echo },
      });
      const place = await waitForLeaf(proxy, leaf, caller);
      await sds.acknowledged("roots");
      await using traffic = new TlsTraffic(place, { client: caller });
      for (const fault of ["garbage", "silent", "slow"] as const) {
        await sds.setFault(fault);
        await pause(700);
        await sds.setFault(undefined);
      }
      await sds.killStreams();
      await sds.stall();
      await pause(300);
      await sds.stop();
      await pause(300);
      const { entries: { length: seen } } = await sds.log();
      const next = issue();
      await sds.set({ web: certificateSecret(next) });
      await sds.unstall();
      await sds.start();
      await waitForLeaf(proxy, next, caller, RECOVERY);
      const { errors, handshakes } = await traffic.stop({ atLeast: 21 });
      assert.deepEqual(errors, []);
      assert.ok(handshakes > 20, `${handshakes}`);
      // A new stream first names the secrets held: only those that have changed are sent again.
      const entries = await eventually("both are asked for with what is held", async () => {
        const { entries } = await sds.log(seen);
        const held = entries.flatMap(({ versions = {}, event }) =>
          event === "request" ? Object.keys(versions) : []
        );
        return new Set(held).size === 2 && entries;
      }, RECOVERY);
      const sent = entries.filter(({ event }) => event === "response")
        .flatMap(({ names = [] }) => names);
      assert.deepEqual(sent, ["web"]);
    });
  });

  test(`${subject}: a server that appears after the proxy`, async () => {
    await inDirectory(async (path) => {
      const leaf = issue();
      await using echo = await startEcho({ host: "127.0.0.1" });
      const listen = `unix:${path("sds.sock")}`;
      await using sds = await startSdsPeer({ listen, started: false });
      await sds.set({ web: certificateSecret(leaf) });
      await using proxy = await startProxy({
        sds: listen,
        inbound: {
          tls: { common_tls_context: { tls_certificate_sds_secret_configs: [sdsSecret("web")] } },
          target: echo,
        },
      });
      await pause(500);
      assert.equal(await proxy.place("tls_in"), undefined);
      await sds.start({ listen });
      await waitForLeaf(proxy, leaf, undefined, RECOVERY);
    });
  });
}

const [, [, startPostern]] = SUBJECTS as readonly [unknown, (typeof SUBJECTS)[number]];

test("Postern: the files of its own certificate for the SDS server rotate", async () => {
  await inDirectory(async (path) => {
    const [older, newer] = [createAuthority(), createAuthority()];
    const serverLeaf = older.issueLeaf({
      service: "sds",
      overrides: { dnsNames: ["sds.example"] },
    });
    const tls = (clientCa: string) => ({
      certPem: serverLeaf.certPem,
      keyPem: serverLeaf.keyPem,
      clientCa,
    });
    const write = async (name: string, text: string) => {
      await writeFile(path(`${name}.new`), text, { mode: 0o600 });
      await rename(path(`${name}.new`), path(name));
    };
    const writePair = async (pair: { readonly certPem: string; readonly keyPem: string }) => {
      await write("proxy.pem", pair.certPem);
      await write("proxy.key", pair.keyPem);
    };
    await writePair(older.issueLeaf({ service: "proxy" }));
    await write("roots.pem", older.rootPem);
    const [first, second, third] = [issue(), issue(), issue()];
    await using echo = await startEcho({ host: "127.0.0.1" });
    await using sds = await startSdsPeer({ tls: tls(older.rootPem) });
    await sds.set({ web: certificateSecret(first) });
    await using proxy = await startPostern({
      sds: sds.address,
      sdsTls: {
        sni: "sds.example",
        common_tls_context: {
          tls_certificates: [{
            certificate_chain: { filename: path("proxy.pem") },
            private_key: { filename: path("proxy.key") },
          }],
          validation_context: {
            trusted_ca: { filename: path("roots.pem") },
            match_typed_subject_alt_names: [{ san_type: "DNS", matcher: { exact: "sds.example" } }],
          },
        },
      },
      inbound: {
        tls: {
          common_tls_context: {
            tls_certificate_sds_secret_configs: [sdsSecret("web", { api: "delta" })],
          },
        },
        target: echo,
      },
    });
    const place = await waitForLeaf(proxy, first);
    await using traffic = new TlsTraffic(place);

    // The server takes the newer CA's clients only: refused until the files are those.
    await sds.stop();
    await sds.set({ web: certificateSecret(second) });
    await sds.start({ tls: tls(newer.rootPem) });
    await pause(1_500);
    await waitForLeaf(proxy, first);
    await writePair(newer.issueLeaf({ service: "proxy" }));
    await waitForLeaf(proxy, second, undefined, RECOVERY);

    // A server of another CA is refused until its CA is in the file.
    const imposter = newer.issueLeaf({ service: "sds", overrides: { dnsNames: ["sds.example"] } });
    await sds.stop();
    await sds.set({ web: certificateSecret(third) });
    await sds.start({
      tls: { certPem: imposter.certPem, keyPem: imposter.keyPem, clientCa: newer.rootPem },
    });
    await pause(1_500);
    await waitForLeaf(proxy, second);
    await write("roots.pem", newer.rootPem);
    await waitForLeaf(proxy, third, undefined, RECOVERY);
    const { errors } = await traffic.stop();
    assert.deepEqual(errors, []);
  });
});

test("Postern: an SDS server of another name is not believed", async () => {
  const wrong = ca.issueLeaf({ service: "sds", overrides: { dnsNames: ["other.example"] } });
  await using echo = await startEcho({ host: "127.0.0.1" });
  await using sds = await startSdsPeer({ tls: { certPem: wrong.certPem, keyPem: wrong.keyPem } });
  await sds.set({ web: certificateSecret(issue()) });
  await using proxy = await startPostern({
    sds: sds.address,
    sdsTls: {
      sni: "sds.example",
      common_tls_context: {
        validation_context: {
          trusted_ca: { inline_string: ca.rootPem },
          match_typed_subject_alt_names: [{ san_type: "DNS", matcher: { exact: "sds.example" } }],
        },
      },
    },
    inbound: {
      tls: {
        common_tls_context: {
          tls_certificate_sds_secret_configs: [sdsSecret("web", { initialFetchTimeoutMs: 0 })],
        },
      },
      target: echo,
    },
  });
  await eventually("it says why", () => /sds_cluster[^]*(name|altname)/i.test(proxy.output));
  assert.equal(await proxy.place("tls_in"), undefined);
  assert.equal((await sds.log()).entries.length, 0, "the server got a request");
});
