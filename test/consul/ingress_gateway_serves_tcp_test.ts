import test from "node:test";
import assert from "node:assert/strict";
import { createAuthority } from "../kit/certs/certificates.ts";
import { EchoClient, expectRefused, waitForEcho, waitForRefusal } from "../kit/wire/echo.ts";
import { IngressMesh, toDb } from "../kit/mesh/ingress.ts";
import { eventually } from "../kit/process/process.ts";
import { inlineCertificate } from "../kit/secrets/sds_server.ts";
import { probeTls, serialOf } from "../kit/wire/tls_probe.ts";
import { TlsSession, TlsTraffic } from "../kit/wire/tls_session.ts";

const HELLO = new TextEncoder().encode("hello");
const AUTHORITY = createAuthority();
const issue = () => AUTHORITY.issueLeaf({ service: "shop" });
const sds = (CertResource: string) => ({ SDS: { CertResource } });

test("listeners of an ingress entry serve by SDS, each with its own certificate, and rotate", async () => {
  await using mesh = await IngressMesh.start();
  const [wide, narrow, plain] = [await mesh.place(), await mesh.place(), await mesh.place()];
  const [first, other, second] = [issue(), issue(), issue()];
  mesh.sds.set(inlineCertificate("wide", first), inlineCertificate("narrow", other));
  // The cluster is the gateway's; which certificate, also a listener's own.
  await mesh.register();
  await mesh.entry({
    TLS: { SDS: { ClusterName: "sds-cluster", CertResource: "wide" } },
    Listeners: [toDb(wide.port), toDb(narrow.port, sds("narrow"))],
  });
  await using gateway = await mesh.run();
  const serial = async (place: typeof wide) => {
    const outcome = await probeTls(place, { servername: "shop.example" });
    return outcome.accepted ? outcome.serial : outcome.alert;
  };
  await eventually("db is reached", async () => await serial(wide) === serialOf(first.certPem));
  await eventually("db is reached", async () => await serial(narrow) === serialOf(other.certPem));
  await gateway.process.waitFor(
    /The cluster [^ ]*zipkin[^ ]* of envoy_extra_static_clusters_json/,
    { timeoutMs: 30_000 },
  );
  assert.doesNotMatch(gateway.output, /has envoy_extra_static_clusters_json|sds-cluster.*ignored/);

  const traffic = new TlsTraffic(wide, { servername: "shop.example" });
  using open = await TlsSession.open(wide);
  mesh.sds.set(inlineCertificate("wide", second));
  await eventually("the new certificate", async () => {
    return await serial(wide) === serialOf(second.certPem);
  });
  assert.equal(await serial(narrow), serialOf(other.certPem));
  await open.exchange();
  const { errors, handshakes, exchanges } = await traffic.stop({ atLeast: 20 });
  assert.deepEqual(errors, []);
  assert.ok(handshakes > 4 && exchanges > handshakes, `${handshakes}, ${exchanges}`);

  // Callers of the gateway need no identity; the intentions of db are about the gateway.
  await mesh.consul.intention("igw", "db", "deny");
  assert.ok(await open.ends({ timeoutMs: 30_000 }));
  await mesh.consul.intention("igw", "db", "allow");
  await eventually("db again", async () => await serial(wide) === serialOf(second.certPem));

  // In plain text, once the entry asks for it; the other listeners do not notice.
  using kept = await TlsSession.open(narrow);
  await mesh.entry({
    TLS: { SDS: { ClusterName: "sds-cluster" } },
    Listeners: [toDb(narrow.port, sds("narrow"))],
  });
  await eventually("the listener is gone", async () => await serial(wide) === "refused");
  await kept.exchange();
  await mesh.entry({ Listeners: [toDb(plain.port)] });
  await waitForEcho(plain);
});

test("an ingress entry adds, moves and removes listeners without touching the others", async () => {
  await using mesh = await IngressMesh.start();
  const [one, two] = [await mesh.place(), await mesh.place()];
  await mesh.register({});
  // Found as by Envoy's command line; the entry comes later.
  await using gateway = await mesh.run(["connect", "envoy", "-gateway=ingress", "-service", "igw"]);
  await gateway.process.waitFor(/ingress-gateway entry.*nothing is listened for/, {
    timeoutMs: 30_000,
  });
  await mesh.entry({ Listeners: [toDb(one.port)] });
  await waitForEcho(one);
  const open = await EchoClient.open(one);
  await open.exchange(HELLO);

  await mesh.entry({ Listeners: [toDb(one.port), toDb(two.port)] });
  await waitForEcho(two);
  await open.exchange(HELLO);
  await mesh.entry({ Listeners: [toDb(one.port)] });
  await waitForRefusal(two);
  await open.exchange(HELLO);
  await eventually(
    "both are logged",
    () => gateway.output.match(/listener started/g)?.length === 2,
  );

  const { status } = await mesh.consul.call("DELETE", "/v1/config/ingress-gateway/igw");
  assert.equal(status, 200);
  await waitForRefusal(one);
  await mesh.entry({ Listeners: [toDb(one.port)] });
  await waitForEcho(one);
  await open.finish();
});

test("a listener that an ingress gateway cannot serve is refused by name; the rest serves", async () => {
  await using mesh = await IngressMesh.start();
  const places = await Promise.all(Array.from({ length: 4 }, () => mesh.place()));
  const [good, own, unknown, clear] = places.map(({ port }) => port);
  await mesh.register(mesh.envoyConfig(JSON.stringify({
    name: "in-clear",
    load_assignment: {
      endpoints: [{
        lb_endpoints: [{
          endpoint: { address: { socket_address: { address: "192.0.2.1", port_value: 1 } } },
        }],
      }],
    },
  })));
  const of = (ClusterName: string) => ({ SDS: { ClusterName, CertResource: "a" } });
  await mesh.entry({
    Listeners: [
      toDb(good ?? 0),
      toDb(own ?? 0, { Enabled: true }),
      toDb(unknown ?? 0, of("nobody")),
      toDb(clear ?? 0, of("in-clear")),
    ],
  });
  await using gateway = await mesh.run();
  const [served, ...refused] = places;
  assert.ok(served);
  await waitForEcho(served);
  for (const place of refused) await expectRefused(place);
  const { body } = await gateway.admin("/config_dump");
  for (
    const reason of [
      "Listeners[1].TLS cannot be served: the agent's HTTP API has no certificate",
      "use TLS.SDS, or a Postern configuration file",
      'Listeners[2].TLS.SDS.ClusterName names \\"nobody\\", which is no SDS server',
      'Listeners[3].TLS.SDS.ClusterName names \\"in-clear\\", which cannot be used',
      "secrets would cross the network in clear",
    ]
  ) assert.ok(body.includes(reason), `${reason} in ${body}`);
});
