import assert from "node:assert/strict";
import test from "node:test";
import { expectRefused, startEcho, waitForEcho, waitForRefusal } from "../kit/wire/echo.ts";
import { sdsSecret } from "../kit/peers/envoy_tls.ts";
import { startPosternTls } from "../kit/peers/postern_tls.ts";
import { freePort } from "../kit/process/ports.ts";
import { eventually, pause } from "../kit/process/process.ts";
import { assertMostlyWithin } from "../kit/clock/promptly.ts";
import {
  type AgentSvid,
  type TrustDomain,
  trustDomainOf,
  withSpireAgent,
  workloadState,
} from "../kit/secrets/spire_agent.ts";
import { probeTls } from "../kit/wire/tls_probe.ts";
import { clientPair, TlsSession, TlsTraffic } from "../kit/wire/tls_session.ts";
import { SUBJECTS, waitForLeaf } from "../kit/peers/tls_subjects.ts";

const own = trustDomainOf("own.example");
const partner = trustDomainOf("partner.example");
const stranger = trustDomainOf("stranger.example");
/** A leaf of the partner's CA, with an identity of ours. */
const forged = (() => {
  const uri = `${own.name}/api`;
  return { id: uri, ...partner.ca.issueLeaf({ service: "api", uri }) };
})();

const stateOf = (
  svids: readonly (AgentSvid & { readonly hint?: string })[],
  ...others: readonly TrustDomain[]
) => workloadState(svids, own, ...others);

for (const [subject, startProxy] of SUBJECTS) {
  test(`${subject} takes all bundles of a SPIRE agent, and no domain's CA for another's identity`, async () => {
    await withSpireAgent(async (agent) => {
      await using echo = await startEcho({ host: "127.0.0.1" });
      const [first, api, partnerApi] = [own.svid("web"), own.svid("api"), partner.svid("api")];
      await agent.setWorkload(stateOf([first], partner));
      await using proxy = await startProxy({
        sds: agent.address,
        inbound: {
          tls: {
            require_client_certificate: true,
            common_tls_context: {
              tls_certificate_sds_secret_configs: [sdsSecret(first.id, { api: "sotw" })],
              validation_context_sds_secret_config: sdsSecret("ALL", { api: "sotw" }),
            },
          },
          target: echo,
        },
      });
      const place = await waitForLeaf(proxy, first, clientPair(api), { timeoutMs: 60_000 });
      const takes = async (svid: AgentSvid) => (await probeTls(place, clientPair(svid))).accepted;
      const taken = async () => {
        const callers = [api, partnerApi, stranger.svid("api"), forged];
        return await Promise.all(callers.map(takes));
      };
      assert.deepEqual(await taken(), [true, true, false, false]);

      // Federation with the partner ends.
      await agent.setWorkload(stateOf([first]));
      await eventually("the partner is refused", async () => !(await takes(partnerApi)));
      assert.deepEqual(await taken(), [true, false, false, false]);
      await agent.setWorkload(stateOf([own.svid("web")], stranger));
      // Its id is the same, its certificate is not.
      await eventually("the stranger is taken", async () =>
        (await taken()).join() ===
          "true,false,true,false");
    });
  });
}

test("Workload API: an SVID is served, rotated without a dropped handshake, and withdrawn", async () => {
  await withSpireAgent(async (agent, socket) => {
    await using echo = await startEcho({ host: "127.0.0.1" });
    const [first, api, partnerApi] = [own.svid("web"), own.svid("api"), partner.svid("api")];
    const port = await freePort("127.0.0.1");
    await using proxy = await startPosternTls({
      inbound: { tls: { source: "workload" }, target: echo, port },
    }, { env: { SPIFFE_ENDPOINT_SOCKET: `unix://${socket}` } });
    await eventually("the agent refused us: there is no identity yet", async () => {
      const { entries } = await agent.log();
      return entries.some(({ event, error }) => event === "close" && error?.code === 7);
    });
    assert.equal(await proxy.place("tls_in"), undefined);

    await agent.setWorkload(stateOf([first]));
    const place = await waitForLeaf(proxy, first, clientPair(api), { timeoutMs: 60_000 });
    const takes = async (svid: AgentSvid) => (await probeTls(place, clientPair(svid))).accepted;
    assert.equal(await takes(partnerApi), false);
    assert.equal(await takes(forged), false);
    assert.equal((await probeTls(place)).accepted, false);

    await using traffic = new TlsTraffic(place, { client: clientPair(api), pauseMs: 5 });
    const rotatedMs: number[] = [];
    for (let i = 0; i < 10; i++) {
      const next = own.svid("web");
      await agent.setWorkload(stateOf([next], partner));
      const changedMs = performance.now();
      await waitForLeaf(proxy, next, clientPair(api), { timeoutMs: 60_000 });
      rotatedMs.push(performance.now() - changedMs);
    }
    assertMostlyWithin("it is rotated", 2_000, rotatedMs);
    // A federated domain's clients come in, and go when the federation ends.
    await eventually("the partner is taken", () => takes(partnerApi));
    assert.equal(await takes(forged), false);
    using federated = await TlsSession.open(place, { client: clientPair(partnerApi) });
    const last = own.svid("web");
    await agent.setWorkload(stateOf([last]));
    assert.ok(
      await federated.ends({ timeoutMs: 30_000 }),
      "it was open under a bundle that is gone",
    );
    assert.equal(await takes(partnerApi), false);

    // Losing the agent loses nothing.
    await agent.stop();
    await pause(500);
    await waitForLeaf(proxy, last, clientPair(api));
    const { errors, handshakes } = await traffic.stop({ atLeast: 21 });
    assert.deepEqual(errors, []);
    assert.ok(handshakes > 20, `${handshakes}`);

    await agent.setWorkload({ trustDomain: own.name, svids: [], bundles: {} });
    await agent.start();
    await eventually("withdrawn, it is served no more", async () => !(await takes(api)), {
      timeoutMs: 60_000,
    });
    const { status, body } = await proxy.postern.admin("/ready");
    assert.equal(status, 503);
    assert.match(body, /^listener inbound refuses every connection: /m);
    const back = own.svid("web");
    await agent.setWorkload(stateOf([back]));
    await waitForLeaf(proxy, back, clientPair(api), { timeoutMs: 60_000 });
    await proxy.postern.waitReady();
  });
});

test("Workload API: of several SVIDs the one wanted, by id and by hint", async () => {
  await withSpireAgent(async (agent, socket) => {
    await using echo = await startEcho({ host: "127.0.0.1" });
    const [web, db, api] = [own.svid("web"), own.svid("db"), own.svid("api")];
    await agent.setWorkload(stateOf([web, { ...db, hint: "internal" }, api]));
    for (
      const [choice, want] of [
        [{}, web],
        [{ id: api.id }, api],
        [{ hint: "internal" }, db],
      ] as const
    ) {
      await using proxy = await startPosternTls({
        inbound: {
          tls: { source: "workload", socket: `unix://${socket}`, ...choice },
          target: echo,
        },
      });
      await waitForLeaf(proxy, want, clientPair(api), { timeoutMs: 60_000 });
    }
  });
});

test("Workload API: both sides of a connection, by SPIFFE ids", async () => {
  await withSpireAgent(async (agent, socket) => {
    await using echo = await startEcho({ host: "127.0.0.1" });
    await agent.setWorkload(stateOf([own.svid("web")]));
    const tls = { source: "workload", socket: `unix://${socket}` };
    await using server = await startPosternTls({ inbound: { tls, target: echo } }, {
      intentions: [{ source: `${own.name}/web`, action: "allow" }],
    });
    const target = await eventually("it is open", () => server.place("tls_in"));
    const matching = (id: string) => ({
      ...tls,
      matchTypedSubjectAltNames: [{ sanType: "URI", matcher: { exact: id } }],
    });
    await using client = await startPosternTls({
      outbound: { tls: matching(`${own.name}/web`), target },
    });
    await using wrong = await startPosternTls({
      outbound: { tls: matching(`${own.name}/db`), target },
    });
    const place = await eventually("it is open", () => client.place("tls_out"));
    await waitForEcho(place);
    await expectRefused(await eventually("it is open", () => wrong.place("tls_out")));

    // Only `web` may call.
    await agent.setWorkload(stateOf([own.svid("db")]));
    await waitForRefusal(place);
  });
});
