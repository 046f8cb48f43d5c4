/**
 * Changes that a SPIRE agent makes on its own: it prunes a CA some time after that expired, and sends a
 * workload's identities in another order.
 */

import assert from "node:assert/strict";
import test from "node:test";
import type { CertificateOverrides } from "../kit/certs/authority.ts";
import { createAuthority } from "../kit/certs/certificates.ts";
import { startEcho } from "../kit/wire/echo.ts";
import { sdsSecret } from "../kit/peers/envoy_tls.ts";
import { startPosternTls } from "../kit/peers/postern_tls.ts";
import { eventually, pause } from "../kit/process/process.ts";
import { trustDomainOf, withSpireAgent, workloadState } from "../kit/secrets/spire_agent.ts";
import { probeTls } from "../kit/wire/tls_probe.ts";
import { clientPair, TlsSession } from "../kit/wire/tls_session.ts";
import { waitForLeaf } from "../kit/peers/tls_subjects.ts";

const own = trustDomainOf("own.example");
/** The time in which connections are opened before the CA ends. */
const CA_LIFE_MS = 8_000;

const anotherCa = (overrides: CertificateOverrides = {}) => {
  const ca = createAuthority({ trustDomain: "own.example", overrides });
  const uri = `${own.name}/api`;
  return { rootPem: ca.rootPem, client: clientPair(ca.issueLeaf({ service: "api", uri })) };
};

const SOURCES = {
  "the Workload API": (socket: string) => ({ source: "workload", socket: `unix://${socket}` }),
  SDS: () => ({
    require_client_certificate: true,
    common_tls_context: {
      tls_certificate_sds_secret_configs: [sdsSecret(`${own.name}/web`, { api: "sotw" })],
      validation_context_sds_secret_config: sdsSecret("ALL", { api: "sotw" }),
    },
  }),
};

for (const [source, tlsOf] of Object.entries(SOURCES)) {
  test(`${source}: a pruned CA that had expired ends no connection, one that was withdrawn does`, async () => {
    await withSpireAgent(async (agent, socket) => {
      await using echo = await startEcho({ host: "127.0.0.1" });
      const web = own.svid("web");
      const withdrawn = anotherCa();
      const trusting = (...more: readonly { readonly rootPem: string }[]) => ({
        ...workloadState([web], own),
        bundles: { [own.name]: [own.ca, ...more].map(({ rootPem }) => rootPem).join("") },
      });
      await agent.setWorkload(trusting(withdrawn));
      await using proxy = await startPosternTls({
        sds: agent.address,
        inbound: { tls: tlsOf(socket), target: echo },
      });
      const place = await waitForLeaf(proxy, web, withdrawn.client, { timeoutMs: 60_000 });
      const takes = async ({ client }: typeof withdrawn) =>
        (await probeTls(place, client)).accepted;
      using goes = await TlsSession.open(place, { client: withdrawn.client });

      const endsMs = Date.now() + CA_LIFE_MS;
      const expiring = anotherCa({ notAfterMs: endsMs });
      await agent.setWorkload(trusting(withdrawn, expiring));
      await eventually("callers of the new CA are taken", () => takes(expiring));
      using stays = await TlsSession.open(place, { client: expiring.client });

      // Certificates hold whole seconds.
      await pause(endsMs + 1_000 - Date.now());
      await agent.setWorkload(trusting());
      assert.ok(await goes.ends({ timeoutMs: 30_000 }), "its CA was withdrawn");
      assert.deepEqual([await takes(withdrawn), await takes(expiring)], [false, false]);
      await stays.exchange();
      // The same holds when the bundle changes once more.
      const next = anotherCa();
      await agent.setWorkload(trusting(next));
      await eventually("callers of the next CA are taken", () => takes(next));
      await stays.exchange();
    });
  });
}

test("Workload API: the identity in use stays while it is offered, in whatever order", async () => {
  await withSpireAgent(async (agent, socket) => {
    await using echo = await startEcho({ host: "127.0.0.1" });
    const caller = clientPair(own.svid("caller"));
    const offer = async (...names: readonly string[]) => {
      const svids = names.map((name) => own.svid(name));
      await agent.setWorkload(workloadState(svids, own));
      return Object.fromEntries(svids.map((svid) => [svid.id.split("/").at(-1), svid]));
    };
    const { web } = await offer("web", "api");
    await using proxy = await startPosternTls({
      inbound: { tls: { source: "workload", socket: `unix://${socket}` }, target: echo },
    });
    const shows = async (svid: typeof web) => {
      assert.ok(svid);
      await waitForLeaf(proxy, svid, caller, { timeoutMs: 60_000 });
    };
    await shows(web);
    assert.match(proxy.output, /secret loaded.* uri=spiffe:\/\/own\.example\/web /);

    await shows((await offer("api", "web")).web);
    await agent.stop();
    const afterwards = await offer("api", "web", "zoo");
    await agent.start();
    await shows(afterwards.web);
    assert.doesNotMatch(proxy.output, /another identity/);

    await shows((await offer("api", "zoo")).api);
    assert.match(
      proxy.output,
      /WARN\] +certificate rotated with another identity.* uri=\S+\/api .*old_uri=\S+\/web/,
    );
    // Once left, it is not gone back to.
    await shows((await offer("web", "api")).api);
  });
});
