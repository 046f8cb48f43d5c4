import assert from "node:assert/strict";
import test from "node:test";
import { type Place, startEcho } from "../kit/wire/echo.ts";
import { sdsSecret, type TlsProxyDescription } from "../kit/peers/envoy_tls.ts";
import { type PosternTls, startPosternTls } from "../kit/peers/postern_tls.ts";
import { eventually, pause } from "../kit/process/process.ts";
import { promptly } from "../kit/clock/promptly.ts";
import type { SdsPeer } from "../kit/secrets/sds_peer.ts";
import { trustDomainOf, withSpireAgent, workloadState } from "../kit/secrets/spire_agent.ts";
import { probeTls } from "../kit/wire/tls_probe.ts";
import { clientPair, TlsSession, TlsTraffic } from "../kit/wire/tls_session.ts";
import { waitForLeaf } from "../kit/peers/tls_subjects.ts";

const own = trustDomainOf("own.example");
const caller = clientPair(own.svid("api"));
const NOTHING = { trustDomain: own.name, svids: [], bundles: {} };
/** A back-off would last longer. */
const BACK_LIMIT_MS = 5_000;

function startFrom(
  source: "workload" | "sds",
  options: { readonly agent: SdsPeer; readonly socket: string; readonly target: Place },
): Promise<PosternTls> {
  const { agent, socket, target } = options;
  const sds: TlsProxyDescription = {
    sds: agent.address,
    inbound: {
      tls: {
        require_client_certificate: true,
        common_tls_context: {
          tls_certificate_sds_secret_configs: [sdsSecret("default", { api: "delta" })],
          validation_context_sds_secret_config: sdsSecret("ROOTCA", { api: "delta" }),
        },
      },
      target,
    },
  };
  const tls = { source: "workload", socket: `unix://${socket}` };
  return startPosternTls(source === "sds" ? sds : { inbound: { tls, target } });
}

/** Until the agent has ended a stream of that method with that status, after entry number `since`. */
async function refused(
  agent: SdsPeer,
  { method, code }: { readonly method: string; readonly code: number },
  since: number,
): Promise<void> {
  await eventually(`${method} is refused`, async () => {
    const { entries } = await agent.log(since);
    return entries.some((entry) => entry.method === method && entry.error?.code === code);
  });
}

for (
  const [source, refusal] of [
    ["workload", { method: "FetchX509SVID", code: 7 }],
    ["sds", { method: "StreamSecrets", code: 3 }],
  ] as const
) {
  test(`${source}: an entry deleted and created again at once fails no connection`, async () => {
    await withSpireAgent(async (agent, socket) => {
      await using echo = await startEcho({ host: "127.0.0.1" });
      const first = own.svid("web");
      await agent.setWorkload(workloadState([first], own));
      await using proxy = await startFrom(source, { agent, socket, target: echo });
      const place = await waitForLeaf(proxy, first, caller, { timeoutMs: 60_000 });
      await using traffic = new TlsTraffic(place, { client: caller, pauseMs: 5 });
      for (let round = 0; round < 3; round++) {
        const next = own.svid("web");
        const since = (await agent.log()).entries.length;
        await agent.setWorkload(NOTHING);
        await refused(agent, refusal, since);
        await agent.setWorkload(workloadState([next], own));
        await waitForLeaf(proxy, next, caller, { timeoutMs: 60_000 });
      }
      const { errors, handshakes } = await traffic.stop({ atLeast: 50 });
      assert.deepEqual(errors, [], `of ${handshakes}`);
    });
  });
}

test("Workload API: an entry that is deleted for good is served for the grace, and then no more", async () => {
  await promptly("it is closed", 4_000, () =>
    withSpireAgent(async (agent, socket) => {
      await using echo = await startEcho({ host: "127.0.0.1" });
      const leaf = own.svid("web");
      await agent.setWorkload(workloadState([leaf], own));
      await using proxy = await startFrom("workload", { agent, socket, target: echo });
      const place = await waitForLeaf(proxy, leaf, caller, { timeoutMs: 60_000 });
      using open = await TlsSession.open(place, { client: caller });
      const { entries } = await agent.log();
      await agent.setWorkload(NOTHING);
      const deletedMs = performance.now();
      await refused(agent, { method: "FetchX509SVID", code: 7 }, entries.length);
      assert.ok(await open.ends({ timeoutMs: 30_000 }));
      const servedMs = performance.now() - deletedMs;
      assert.ok(servedMs >= 1_900, `closed after ${servedMs} ms`);
      assert.equal((await probeTls(place, caller)).accepted, false);
      const asked = (await agent.log(entries.length)).entries
        .filter(({ event, method }) => event === "open" && method === "FetchX509SVID").length;
      assert.ok(asked >= 4 && asked <= 16, `asked ${asked} times`);
      return servedMs;
    }));
});

test("an agent away for half a minute interrupts nothing, and its new secrets are served within 5 s of its return", async () => {
  await withSpireAgent(async (agent, socket) => {
    await using echo = await startEcho({ host: "127.0.0.1" });
    const first = own.svid("web");
    await agent.setWorkload(workloadState([first], own));
    const start = (source: "workload" | "sds") =>
      startFrom(source, { agent, socket, target: echo });
    await using workload = await start("workload");
    await using sds = await start("sds");
    const proxies = [workload, sds];
    const places = await Promise.all(
      proxies.map((proxy) => waitForLeaf(proxy, first, caller, { timeoutMs: 60_000 })),
    );
    const [ofWorkload, ofSds] = places;
    assert.ok(ofWorkload && ofSds);
    await promptly("the agent is back", BACK_LIMIT_MS, async () => {
      await agent.stop();
      await using a = new TlsTraffic(ofWorkload, { client: caller, pauseMs: 50 });
      await using b = new TlsTraffic(ofSds, { client: caller, pauseMs: 50 });
      // Agents later than their proxies.
      await using lateWorkload = await start("workload");
      await using lateSds = await start("sds");
      // Something due then happens in up to half a minute.
      await pause(30_000);
      assert.equal((await probeTls(ofWorkload, caller)).accepted, true);

      const next = own.svid("web");
      await agent.setWorkload(workloadState([next], own));
      await agent.start();
      const backMs = performance.now();
      await Promise.all(
        [...proxies, lateWorkload, lateSds].map((proxy) =>
          waitForLeaf(proxy, next, caller, { timeoutMs: 60_000 })
        ),
      );
      const tookMs = performance.now() - backMs;
      for (const traffic of [a, b]) {
        const { errors, handshakes } = await traffic.stop({ atLeast: 20 });
        assert.deepEqual(errors, [], `of ${handshakes}`);
      }
      return tookMs;
    });
  });
});
