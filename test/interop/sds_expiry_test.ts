import assert from "node:assert/strict";
import test from "node:test";
import { createServer } from "node:tls";
import { createAuthority } from "../kit/certs/certificates.ts";
import {
  EchoClient,
  type Place,
  startEcho,
  waitForEcho,
  waitForRefusal,
} from "../kit/wire/echo.ts";
import { sdsSecret } from "../kit/peers/envoy_tls.ts";
import { deadline, eventually, pause } from "../kit/process/process.ts";
import { certificateSecret, startSdsPeer, validationSecret } from "../kit/secrets/sds_peer.ts";
import { probeTls } from "../kit/wire/tls_probe.ts";
import { clientPair, TlsSession } from "../kit/wire/tls_session.ts";
import { mutualTls, SUBJECTS, waitForLeaf } from "../kit/peers/tls_subjects.ts";

/** Long enough to connect on a busy machine, short enough to wait for. */
const LIFETIME_MS = 10_000;
const [ca, other] = [createAuthority(), createAuthority()];
const caller = clientPair(ca.issueLeaf({ service: "api" }));
const brief = (service: string) =>
  ca.issueLeaf({ service, overrides: { notAfterMs: Date.now() + LIFETIME_MS } });

for (const [subject, startProxy] of SUBJECTS) {
  test(`${subject}: certificates expire, the client's and its own`, async () => {
    await using echo = await startEcho({ host: "127.0.0.1" });
    await using sds = await startSdsPeer();
    const lasting = ca.issueLeaf({ service: "web" });
    await sds.set({ web: certificateSecret(lasting), roots: validationSecret(ca.rootPem) });
    await using proxy = await startProxy({
      sds: sds.address,
      inbound: { tls: mutualTls("delta"), target: echo },
    });
    const place = await waitForLeaf(proxy, lasting, caller);
    const [own, client] = [brief("web"), brief("api")];
    await sds.set({ web: certificateSecret(own) });
    await waitForLeaf(proxy, own, caller);
    using stays = await TlsSession.open(place, { client: caller });
    using expires = await TlsSession.open(place, { client: clientPair(client) });
    await eventually("the expired client is refused", async () => {
      return !(await probeTls(place, clientPair(client))).accepted;
    });
    // Envoy shows what it has, whatever its dates say.
    if (subject === "Envoy") await waitForLeaf(proxy, own, caller);
    else {
      await eventually("its own expired certificate is not shown", async () => {
        return !(await probeTls(place, caller)).accepted;
      });
    }
    // That time passes ends no connection, nor does another bundle that still has its CA.
    await sds.set({ roots: validationSecret(ca.rootPem + other.rootPem) });
    await sds.acknowledged("roots");
    await pause(500);
    for (const session of [expires, stays]) await session.exchange();
    const next = ca.issueLeaf({ service: "web" });
    await sds.set({ web: certificateSecret(next) });
    await waitForLeaf(proxy, next, caller);
  });

  test(`${subject}: the CA of an upstream is removed under open connections`, async () => {
    const leaf = ca.issueLeaf({ service: "db", overrides: { dnsNames: ["db.example"] } });
    const server = createServer({ cert: leaf.certPem, key: leaf.keyPem }, (socket) => {
      socket.on("error", () => socket.destroy());
      socket.pipe(socket);
    });
    server.on("tlsClientError", () => {});
    const target = await new Promise<Place>((resolve) => {
      server.listen(0, "127.0.0.1", () => {
        const address = server.address();
        const port = typeof address === "object" && address ? address.port : 0;
        resolve({ host: "127.0.0.1", port });
      });
    });
    try {
      await using sds = await startSdsPeer();
      await sds.set({ roots: validationSecret(ca.rootPem + other.rootPem) });
      await using proxy = await startProxy({
        sds: sds.address,
        outbound: {
          tls: {
            sni: "db.example",
            common_tls_context: {
              tls_params: { tls_maximum_protocol_version: "TLSv1_3" },
              combined_validation_context: {
                default_validation_context: {
                  match_typed_subject_alt_names: [
                    { san_type: "DNS", matcher: { exact: "db.example" } },
                  ],
                },
                validation_context_sds_secret_config: sdsSecret("roots", { api: "delta" }),
              },
            },
          },
          target,
        },
      });
      const place = await eventually("the listener is open", () => proxy.place("tls_out"));
      await waitForEcho(place);
      const open = await EchoClient.open(place);
      await open.exchange(new Uint8Array([1]));
      await sds.set({ roots: validationSecret(other.rootPem) });
      await sds.acknowledged("roots");
      await waitForRefusal(place);
      if (subject === "Envoy") await open.exchange(new Uint8Array([2]));
      else assert.ok(await deadline(open.over, 30_000), "open to a server that is not trusted");
      open.destroy();
      await sds.set({ roots: validationSecret(ca.rootPem) });
      await waitForEcho(place);
    } finally {
      server.close();
    }
  });
}
