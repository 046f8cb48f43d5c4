import assert from "node:assert/strict";
import test from "node:test";
import { createAuthority } from "../kit/certs/certificates.ts";
import { startEcho } from "../kit/wire/echo.ts";
import { freePort } from "../kit/process/ports.ts";
import { eventually, pause } from "../kit/process/process.ts";
import { certificateSecret, startSdsPeer, validationSecret } from "../kit/secrets/sds_peer.ts";
import { probeTls } from "../kit/wire/tls_probe.ts";
import { APIS, mutualTls, SUBJECTS, waitForLeaf } from "../kit/peers/tls_subjects.ts";

/** Longer than it takes, on any machine, to look at a proxy that has just been started. */
const FETCH_TIMEOUT_MS = 6_000;

for (const [subject, startProxy] of SUBJECTS) {
  for (const api of APIS) {
    test(`${subject}, ${api}: leaf and roots from SDS, rotated, refused where they are bad`, async () => {
      const ca = createAuthority();
      const [first, second] = [ca.issueLeaf({ service: "web" }), ca.issueLeaf({ service: "web" })];
      const caller = ca.issueLeaf({ service: "api" });
      const client = { cert: caller.certPem, key: caller.keyPem };
      await using echo = await startEcho({ host: "127.0.0.1" });
      await using sds = await startSdsPeer();
      await sds.set({ web: certificateSecret(first), roots: validationSecret(ca.rootPem) });
      await using proxy = await startProxy({
        sds: sds.address,
        inbound: { tls: mutualTls(api), target: echo },
      });

      const place = await waitForLeaf(proxy, first, client);
      const answer = await sds.acknowledged("web");
      assert.equal(answer.method, api === "sotw" ? "StreamSecrets" : "DeltaSecrets");
      const anonymous = await probeTls(place);
      assert.equal(anonymous.accepted, false, "a client without a certificate");

      await sds.set({ web: certificateSecret(second) });
      await waitForLeaf(proxy, second, client);
      const accepted = await sds.acknowledged("web");

      const bad = { certPem: "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n" };
      for (
        const [what, broken] of [
          ["bad PEM", { ...second, ...bad }],
          ["another leaf's key", { ...second, keyPem: first.keyPem }],
        ] as const
      ) {
        await sds.set({ web: certificateSecret(broken) });
        const refusal = await sds.refused("web");
        assert.ok(refusal.error?.message, `${what}: says why`);
        assert.ok(!refusal.error.message.includes("PRIVATE KEY"));
        if (api === "sotw") assert.equal(refusal.version, accepted.version, what);
        await waitForLeaf(proxy, second, client);
      }

      await sds.set({ web: certificateSecret(first) });
      await waitForLeaf(proxy, first, client);
      await sds.acknowledged("web");
    });

    test(`${subject}, ${api}: a client is refused after its CA is removed`, async () => {
      const [older, newer] = [createAuthority(), createAuthority()];
      const [before, after] = [older, newer].map((ca) => {
        const leaf = ca.issueLeaf({ service: "api" });
        return { cert: leaf.certPem, key: leaf.keyPem };
      });
      const leaf = newer.issueLeaf({ service: "web" });
      await using echo = await startEcho({ host: "127.0.0.1" });
      await using sds = await startSdsPeer();
      await sds.set({
        web: certificateSecret(leaf),
        roots: validationSecret(older.rootPem + newer.rootPem),
      });
      await using proxy = await startProxy({
        sds: sds.address,
        inbound: { tls: mutualTls(api), target: echo },
      });
      const place = await eventually("the listener is open", () => proxy.place("tls_in"));
      await eventually("both are taken", async () => {
        const outcomes = await Promise.all([before, after].map((c) => probeTls(place, c)));
        return outcomes.every(({ accepted }) => accepted);
      });

      await sds.set({ roots: validationSecret(newer.rootPem) });
      await sds.acknowledged("roots");
      await eventually("the older CA's client is refused", async () => {
        return !(await probeTls(place, before)).accepted;
      });
      assert.equal((await probeTls(place, after)).accepted, true);
    });

    test(`${subject}, ${api}: opens after initial_fetch_timeout, accepts no client, and recovers`, async () => {
      const ca = createAuthority();
      const leaf = ca.issueLeaf({ service: "web" });
      const caller = ca.issueLeaf({ service: "api" });
      const client = { cert: caller.certPem, key: caller.keyPem };
      await using echo = await startEcho({ host: "127.0.0.1" });
      await using sds = await startSdsPeer();
      await sds.set({ web: certificateSecret(leaf) });
      await sds.stall();
      const started = performance.now();
      await using proxy = await startProxy({
        sds: sds.address,
        inbound: {
          tls: mutualTls(api, FETCH_TIMEOUT_MS),
          target: echo,
          port: await freePort("127.0.0.1"),
        },
      });
      assert.equal(await proxy.place("tls_in"), undefined, "open before its secrets are there");
      const place = await eventually("the listener is open", () => proxy.place("tls_in"));
      const took = performance.now() - started;
      assert.ok(took > FETCH_TIMEOUT_MS - 500, `opened after ${took} ms`);
      const { entries } = await sds.log();
      assert.ok(!entries.some(({ event }) => event === "response"), "the server is stalled");
      assert.equal((await probeTls(place, client)).accepted, false, "no secret at all");

      await sds.unstall();
      await sds.acknowledged("web");
      assert.equal((await probeTls(place, client)).accepted, false, "no roots yet");
      await sds.set({ roots: validationSecret(ca.rootPem) });
      await waitForLeaf(proxy, leaf, client);
    });

    test(`${subject}, ${api}: an answer without the secret is no answer`, async () => {
      const ca = createAuthority();
      const leaf = ca.issueLeaf({ service: "web" });
      const caller = ca.issueLeaf({ service: "api" });
      await using echo = await startEcho({ host: "127.0.0.1" });
      await using sds = await startSdsPeer({ answerUnknown: true });
      await using proxy = await startProxy({
        sds: sds.address,
        inbound: { tls: mutualTls(api, 0), target: echo },
      });
      await eventually("both names were asked for", async () => {
        const { entries } = await sds.log();
        const acknowledged = entries.filter(({ event, nonce, error }) =>
          event === "request" && !error && (api === "delta" || nonce)
        );
        return new Set(acknowledged.flatMap(({ names = [] }) => names)).size === 2;
      });
      assert.equal(await proxy.place("tls_in"), undefined, "it still waits");
      await sds.set({ web: certificateSecret(leaf), roots: validationSecret(ca.rootPem) });
      await waitForLeaf(proxy, leaf, { cert: caller.certPem, key: caller.keyPem });
    });

    test(`${subject}, ${api}: losing the server loses no secret, and secrets changed meanwhile arrive`, async () => {
      const ca = createAuthority();
      const [first, second] = [ca.issueLeaf({ service: "web" }), ca.issueLeaf({ service: "web" })];
      const caller = ca.issueLeaf({ service: "api" });
      const client = { cert: caller.certPem, key: caller.keyPem };
      await using echo = await startEcho({ host: "127.0.0.1" });
      await using sds = await startSdsPeer();
      await sds.set({ web: certificateSecret(first), roots: validationSecret(ca.rootPem) });
      await using proxy = await startProxy({
        sds: sds.address,
        inbound: { tls: mutualTls(api), target: echo },
      });
      await waitForLeaf(proxy, first, client);
      await sds.acknowledged("web");
      await sds.acknowledged("roots");
      const seen = (await sds.log()).entries.length;

      await sds.stop();
      await pause(500);
      await waitForLeaf(proxy, first, client);
      await sds.set({ web: certificateSecret(second) });
      await sds.start();
      await waitForLeaf(proxy, second, client, { timeoutMs: 60_000 });
      // The opening of a new stream: the secrets held, and no nonce of the stream before.
      const { entries } = await sds.log(seen);
      const opening = entries.find((e) => e.event === "request" && e.names?.includes("web"));
      assert.equal(opening?.nonce, undefined);
      if (api === "sotw") assert.ok(opening?.version);
      else assert.ok(opening?.versions?.web);
    });
  }
}
