import assert from "node:assert/strict";
import test from "node:test";
import { createAuthority } from "../kit/certs/certificates.ts";
import { startEcho } from "../kit/wire/echo.ts";
import { sdsSecret } from "../kit/peers/envoy_tls.ts";
import { freePort } from "../kit/process/ports.ts";
import { eventually, pause } from "../kit/process/process.ts";
import { certificateSecret, startSdsPeer, validationSecret } from "../kit/secrets/sds_peer.ts";
import { probeTls, serialOf } from "../kit/wire/tls_probe.ts";
import { clientPair } from "../kit/wire/tls_session.ts";
import { APIS, mutualTls, SUBJECTS, waitForLeaf } from "../kit/peers/tls_subjects.ts";

const HOUR_MS = 3_600_000;
const [ca, other] = [createAuthority(), createAuthority()];
const caller = clientPair(ca.issueLeaf({ service: "api" }));
const stranger = clientPair(other.issueLeaf({ service: "api" }));

for (const [subject, startProxy] of SUBJECTS) {
  for (const api of APIS) {
    test(`${subject}, ${api}: a refused resource leaves the good ones at work`, async () => {
      const [first, second] = [ca.issueLeaf({ service: "web" }), ca.issueLeaf({ service: "web" })];
      await using echo = await startEcho({ host: "127.0.0.1" });
      await using sds = await startSdsPeer();
      await sds.set({ web: certificateSecret(first), roots: validationSecret(ca.rootPem) });
      await using proxy = await startProxy({
        sds: sds.address,
        inbound: { tls: mutualTls(api), target: echo },
      });
      const place = await waitForLeaf(proxy, first, caller);
      await sds.acknowledged("roots");
      const taken = async (client: typeof caller) => (await probeTls(place, client)).accepted;
      const refusals = async () =>
        (await sds.log()).entries.filter(({ event, error }) => event === "request" && error).length;
      let before = await refusals();
      const isRefused = (what: string) =>
        eventually(`${what} is refused`, async () => await refusals() > before);

      before = await refusals();
      await sds.set({ web: validationSecret(ca.rootPem) });
      await isRefused("a bundle for a certificate");
      await waitForLeaf(proxy, first, caller);

      // Over delta names that were not requested are not sent.
      if (api === "sotw") {
        before = await refusals();
        const { entries: { length: seen } } = await sds.log();
        await sds.set({ web: { ...certificateSecret(second), name: "other" } });
        // Envoy ignores a response that lacks the requested resource.
        if (subject === "Postern") await isRefused("another name");
        else {
          await eventually("the answer", async () => {
            const { entries } = await sds.log(seen);
            return entries.some(({ event, error }) => event === "request" && !error);
          });
        }
        await waitForLeaf(proxy, first, caller);
      }

      // A good bundle after a bad pair: Envoy holds the bad pair already, and fails again.
      before = await refusals();
      await sds.set({ web: certificateSecret({ ...second, keyPem: first.keyPem }) });
      await isRefused("another's key");
      before = await refusals();
      await sds.set({ roots: validationSecret(other.rootPem) });
      if (subject === "Envoy") {
        await isRefused("the bundle");
        assert.deepEqual([await taken(caller), await taken(stranger)], [true, false]);
      } else {
        await sds.acknowledged("roots");
        await eventually("the new bundle is in force", () => taken(stranger));
        assert.equal(await taken(caller), false);
      }
      await sds.set({ web: certificateSecret(second), roots: validationSecret(ca.rootPem) });
      await waitForLeaf(proxy, second, caller);

      // An expired leaf after a good one: Envoy shows it.
      const expired = ca.issueLeaf({
        service: "web",
        overrides: { notAfterMs: Date.now() - HOUR_MS },
      });
      await sds.set({ web: certificateSecret(expired) });
      if (subject === "Envoy") {
        await sds.acknowledged("web");
        await waitForLeaf(proxy, expired, caller);
      } else {
        const { error } = await sds.refused("web");
        assert.match(error?.message ?? "", /expired/);
        await waitForLeaf(proxy, second, caller);
      }
      await sds.set({ web: certificateSecret(first) });
      await waitForLeaf(proxy, first, caller);
    });
  }

  test(`${subject}: an initial_fetch_timeout of 0 never opens, whatever fails`, async () => {
    const leaf = ca.issueLeaf({ service: "web" });
    await using echo = await startEcho({ host: "127.0.0.1" });
    await using sds = await startSdsPeer();
    await sds.set({ web: certificateSecret(leaf) });
    const port = await freePort("127.0.0.1");
    await using proxy = await startProxy({
      sds: sds.address,
      inbound: { tls: mutualTls("delta", 0), target: echo, port },
    });
    await sds.acknowledged("web");
    assert.equal(await proxy.place("tls_in"), undefined, "its roots are not there");
    await sds.stop();
    await pause(500);
    assert.equal(await proxy.place("tls_in"), undefined, "the server is away");
    await sds.set({ roots: validationSecret(ca.rootPem) });
    await sds.start();
    await waitForLeaf(proxy, leaf, caller, { timeoutMs: 60_000 });
  });

  test(`${subject}: the first secret cannot be used, and one that can comes later`, async () => {
    const leaf = ca.issueLeaf({ service: "web" });
    const broken = { ...leaf, keyPem: ca.issueLeaf({ service: "web" }).keyPem };
    await using echo = await startEcho({ host: "127.0.0.1" });
    await using sds = await startSdsPeer();
    await sds.set({ web: certificateSecret(broken), roots: validationSecret(ca.rootPem) });
    const port = await freePort("127.0.0.1");
    await using proxy = await startProxy({
      sds: sds.address,
      inbound: { tls: mutualTls("delta", 60_000), target: echo, port },
    });
    // Envoy does not look at it before the roots are there, too.
    const answer = await sds.answered("web");
    if (subject === "Postern") assert.ok(answer.error);
    // The secret's arrival ends the waiting: every caller is refused.
    const place = await eventually("the listener is open", () => proxy.place("tls_in"));
    assert.equal((await probeTls(place, caller)).accepted, false);
    await sds.set({ web: certificateSecret(leaf) });
    await waitForLeaf(proxy, leaf, caller);
  });

  test(`${subject}: one of two certificates has not come`, async () => {
    const [here, late] = ["here.example", "late.example"].map((name) =>
      ca.issueLeaf({ service: "web", overrides: { dnsNames: [name] } })
    );
    assert.ok(here && late);
    await using echo = await startEcho({ host: "127.0.0.1" });
    await using sds = await startSdsPeer();
    await sds.set({ here: certificateSecret(here) });
    const port = await freePort("127.0.0.1");
    const options = { api: "delta", initialFetchTimeoutMs: 2_000 } as const;
    await using proxy = await startProxy({
      sds: sds.address,
      inbound: {
        tls: {
          common_tls_context: {
            tls_certificate_sds_secret_configs: [
              sdsSecret("here", options),
              sdsSecret("late", options),
            ],
          },
        },
        target: echo,
        port,
      },
    });
    const place = await eventually("the listener is open", () => proxy.place("tls_in"));
    // One is enough for both.
    const outcome = await probeTls(place);
    assert.ok(outcome.accepted && outcome.serial === serialOf(here.certPem));
    await sds.set({ late: certificateSecret(late) });
    await sds.acknowledged("late");
    await eventually("the late one is shown where it is asked for", async () => {
      const named = await probeTls(place, { servername: "late.example" });
      return named.accepted && named.serial === serialOf(late.certPem);
    });
  });
}
