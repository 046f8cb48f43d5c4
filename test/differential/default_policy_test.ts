/**
 * The decision where no intention covers a caller: every combination of ACLs, `acl.default_policy` and
 * `default_intention_policy`, asked of Envoy and of Postern, beside an agent and beside servers.
 */

import assert from "node:assert/strict";
import { test } from "node:test";
import { type Consul, startConsul } from "../kit/mesh/consul.ts";
import type { ConsulOptions } from "../kit/mesh/consul_config.ts";
import type { Place } from "../kit/wire/echo.ts";
import { eventually } from "../kit/process/process.ts";
import { ready } from "../kit/process/postern.ts";
import { envoyOfNode, envoySidecar } from "../kit/mesh/sidecars.ts";
import { probeTls, readLeaf } from "../kit/wire/tls_probe.ts";

type Policy = "allow" | "deny";

/** A contradiction of Consul's: authorize allows a call that its configuration of Envoy denies. */
const ROWS = [
  ["off", "allow", "unset", "allow"],
  ["off", "allow", "allow", "allow"],
  ["off", "allow", "deny", "deny"],
  ["off", "deny", "unset", "deny"],
  ["off", "deny", "allow", "allow"],
  ["off", "deny", "deny", "deny"],
  ["on", "allow", "unset", "allow"],
  ["on", "allow", "allow", "allow"],
  ["on", "allow", "deny", "deny"],
  ["on", "deny", "unset", "deny"],
  ["on", "deny", "allow", "allow"],
  ["on", "deny", "deny", "deny"],
] as const;

function optionsOf(
  acls: "on" | "off",
  aclDefault: Policy,
  policy: Policy | "unset",
): ConsulOptions {
  return {
    ...(policy === "unset" ? {} : { defaultIntentionPolicy: policy }),
    ...(acls === "on"
      ? { acl: true, aclDefault }
      : { config: { acl: { default_policy: aclDefault } } }),
  };
}

interface Instance {
  readonly id: string;
  readonly place: Place;
}

/** An entry of the catalog on a node of its own, as beside servers. */
async function registerEntry(
  consul: Consul,
  { id, place, app }: Instance & { readonly app: Place },
): Promise<{ readonly node: string; readonly proxyId: string }> {
  const entry = { node: `vm-${id}`, proxyId: `${id}-sidecar-proxy` };
  const node = { Node: entry.node, Address: consul.host, SkipNodeUpdate: true };
  const ports = { Address: consul.host, Port: place.port };
  await consul.put("/v1/catalog/register", { ...node, Service: { ID: id, Service: "db" } });
  await consul.put("/v1/catalog/register", {
    ...node,
    Service: {
      Kind: "connect-proxy",
      ID: entry.proxyId,
      Service: "db-sidecar-proxy",
      ...ports,
      Proxy: {
        DestinationServiceName: "db",
        DestinationServiceID: id,
        LocalServiceAddress: app.host,
        LocalServicePort: app.port,
      },
    },
  });
  return entry;
}

/** Starts four sidecars of db and returns what each answers to web, which no intention covers. */
async function answersOf(
  consul: Consul,
  own: AsyncDisposableStack,
): Promise<Readonly<Record<string, string>>> {
  const app = own.use(await consul.echo());
  const run = await consul.ownToken("db");
  const places: (readonly [who: string, place: Place])[] = [];
  const instance = async (who: string, id: string): Promise<Instance> => {
    const place = await consul.place();
    places.push([who, place]);
    return { id, place };
  };
  const registered = async ({ id, place }: Instance) =>
    await consul.register({ name: "db", id, port: app.port, sidecarPort: place.port });

  const envoy = await registered(await instance("Envoy beside an agent", "db-1"));
  own.use(await envoySidecar(consul, envoy, run));
  const postern = await registered(await instance("Postern beside an agent", "db-2"));
  own.use(await consul.sidecar(postern, run));
  const entry = await instance("Envoy beside servers", "db-3");
  own.use(await envoyOfNode(consul, await registerEntry(consul, { ...entry, app }), run));
  const ours = await instance("Postern beside servers", "db-4");
  const { node, proxyId } = await registerEntry(consul, { ...ours, app });
  const port = (address: string) => address.slice(address.lastIndexOf(":") + 1);
  own.use(
    await ready(consul.run([
      ...["proxy", "-proxy-id", proxyId, "-node", node, "-admin-bind", "127.0.0.1:0"],
      ...["-servers", consul.host, "-tls-disabled"],
      ...["-http-port", port(consul.address), "-grpc-port", port(consul.grpcAddress)],
    ], { ...run, env: { CONSUL_HTTP_ADDR: "" } })),
  );

  const { CertPEM: cert, PrivateKeyPEM: key } = await readLeaf(consul, "web");
  const asked = await Promise.all(places.map(async ([who, place]) => {
    const outcome = await eventually(`${who} listens`, async () => {
      const tried = await probeTls(place, { cert, key });
      return !tried.accepted && tried.alert === "refused" ? undefined : tried;
    });
    return [who, outcome.accepted ? "allow" : "deny"] as const;
  }));
  return Object.fromEntries(asked);
}

for (const [acls, aclDefault, policy, want] of ROWS) {
  const title =
    `ACLs ${acls}, acl.default_policy ${aclDefault}, default_intention_policy ${policy}`;
  test(`${title}: ${want}`, async () => {
    await using own = new AsyncDisposableStack();
    const consul = own.use(await startConsul(optionsOf(acls, aclDefault, policy)));
    assert.deepEqual(await answersOf(consul, own), {
      "Envoy beside an agent": want,
      "Postern beside an agent": want,
      "Envoy beside servers": want,
      "Postern beside servers": want,
    });
  });
}
