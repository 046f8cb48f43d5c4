import assert from "node:assert/strict";
import test from "node:test";
import { createAuthority } from "../kit/certs/certificates.ts";
import { startEcho } from "../kit/wire/echo.ts";
import { sdsSecret } from "../kit/peers/envoy_tls.ts";
import { eventually } from "../kit/process/process.ts";
import { certificateSecret, startSdsPeer } from "../kit/secrets/sds_peer.ts";
import { probeTls, serialOf } from "../kit/wire/tls_probe.ts";
import { TlsSession } from "../kit/wire/tls_session.ts";
import { SUBJECTS } from "../kit/peers/tls_subjects.ts";

const ca = createAuthority();
const issue = (name: string) => ca.issueLeaf({ service: "edge", overrides: { dnsNames: [name] } });
const EXTENSIONS = "type.googleapis.com/envoy.extensions.transport_sockets.tls";

for (const [subject, startProxy] of SUBJECTS) {
  test(`${subject}: Envoy's selector fetches certificates when clients ask for them`, async () => {
    const [early, fallback, asked] = ["early.example", "default.example", "asked.example"]
      .map(issue);
    assert.ok(early && fallback && asked);
    await using echo = await startEcho({ host: "127.0.0.1" });
    await using sds = await startSdsPeer();
    await sds.set({
      "early.example": certificateSecret(early),
      "default.example": certificateSecret(fallback),
    });
    const { sds_config: config_source } = sdsSecret("any", { api: "delta" });
    await using proxy = await startProxy({
      sds: sds.address,
      inbound: {
        tls: {
          disable_stateless_session_resumption: true,
          disable_stateful_session_resumption: true,
          common_tls_context: {
            custom_tls_certificate_selector: {
              name: "on_demand",
              typed_config: {
                "@type": `${EXTENSIONS}.cert_selectors.on_demand_secret.v3.Config`,
                config_source,
                certificate_mapper: {
                  name: "sni",
                  typed_config: {
                    "@type": `${EXTENSIONS}.cert_mappers.sni.v3.SNI`,
                    default_value: "default.example",
                  },
                },
                prefetch_secret_names: ["early.example"],
              },
            },
          },
        },
        target: echo,
      },
    });
    const place = await eventually("the listener is open", () => proxy.place("tls_in"));
    await sds.acknowledged("early.example");
    const shown = async (servername?: string) => {
      const outcome = await probeTls(place, servername ? { servername } : {});
      return outcome.accepted ? outcome.serial : outcome.alert;
    };
    const open = (servername: string) => TlsSession.open(place, { servername, timeoutMs: 60_000 });
    const names = async () => {
      const { entries } = await sds.log();
      return new Set(
        entries.filter(({ event }) => event === "request")
          .flatMap(({ names = [] }) => names),
      );
    };
    // Postern fetches the one for clients without a server name beforehand, too.
    if (subject === "Envoy") assert.equal((await names()).has("default.example"), false);
    else {
      await eventually("it is asked for", async () => (await names()).has("default.example"));
    }
    assert.equal(await shown("early.example"), serialOf(early.certPem));
    assert.equal(await shown(), serialOf(fallback.certPem), "no name");

    // The first handshakes wait for what comes later.
    const waiting = Promise.all(
      Array.from({ length: 10 }, () => open("asked.example")),
    );
    await eventually("it was asked for", async () => (await names()).has("asked.example"));
    await sds.set({ "asked.example": certificateSecret(asked) });
    for (const session of await waiting) {
      assert.equal(session.serial, serialOf(asked.certPem));
      session[Symbol.dispose]();
    }
    const next = issue("asked.example");
    await sds.set({ "asked.example": certificateSecret(next) });
    await eventually("it is rotated", async () => {
      return await shown("asked.example") === serialOf(next.certPem);
    });
    await sds.remove("asked.example");
    await eventually("it is gone", async () => {
      const outcome = await probeTls(place, { servername: "asked.example", timeoutMs: 1_000 })
        .catch(() => ({ accepted: false }));
      return !outcome.accepted;
    });
    assert.equal(await shown("early.example"), serialOf(early.certPem));
  });
}
