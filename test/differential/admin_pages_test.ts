/**
 * Envoy's admin pages in JSON and Postern's, beside the same Consul and registered alike, after the same
 * traffic: all of Postern's output has Envoy's key paths and types, so that a reader of Envoy's pages
 * reads these, except for the paths listed here.
 */

import assert from "node:assert/strict";
import { test } from "node:test";
import { type Consul, startConsul } from "../kit/mesh/consul.ts";
import { waitForEcho } from "../kit/wire/echo.ts";
import { answerOf, startRawOrigin } from "../kit/wire/http_raw.ts";
import { freePort } from "../kit/process/ports.ts";
import { eventually } from "../kit/process/process.ts";
import { envoySidecar } from "../kit/mesh/sidecars.ts";

/** Parts of pages that only Postern has, by page: the beginning of a path, and why it is there. */
const OURS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  "/server_info": { ".postern": "what Envoy has no field for" },
  "/config_dump": {
    ".postern": "which version it is",
    ".options": "what it was started with",
    ".source": "where the state comes from",
    ".refused": "what was not taken and why",
    ".snapshot": "the state in force in our own words",
    ".configs[]@SecretsConfigDump":
      "Consul gives Envoy its certificates inline; here they are secrets",
  },
  "/certs": {
    ".uri": "who the proxy is",
    ".trustDomains": "of its roots",
    ".leaf": "the mesh's certificate",
    ".chain": "what is sent after it",
    ".roots": "what peers are verified with",
    ".errors": "what could not be read",
    ".certificates[].name": "of the secret",
    ".certificates[].source": "of the secret",
    ".certificates[].listeners": "that use it",
    ".certificates[].upstreams": "that use it",
    ".certificates[].cert_chain[].days_left": "with decimals",
    ".certificates[].renewal":
      "who brings the next certificate, when it is due, and whether that works",
    ".certificates[].cert_chain[].near_expiry": "a third of its life is left",
    ".certificates[].ca_cert[].days_left": "with decimals",
    ".certificates[].ca_cert[].near_expiry": "a third of its life is left",
  },
};
const PAGES = ["/clusters", "/listeners", "/config_dump", "/stats", "/server_info", "/certs"];
/** Statistics named otherwise: a certificate after its secret, and all that have no name at Envoy. */
const OUR_STATISTICS = /\.ssl\.certificate\.|^[a-z_0-9]+(\{|$)/;
/** Clusters that Consul has Envoy use for itself. */
const OF_XDS = new Set(["local_agent"]);

test("admin pages have the names, types and numbers of Envoy's", async () => {
  await using mesh = await startPages();
  assert.equal(await mesh.envoy("/ready"), await mesh.postern("/ready"));
  const differences: string[] = [];
  for (const page of PAGES) {
    const query = page === "/config_dump" ? "?include_eds" : "?format=json";
    const theirs = pathsOf(JSON.parse(await mesh.envoy(page + query)));
    const ours = pathsOf(JSON.parse(await mesh.postern(page + query)));
    assert.ok(ours.size > 4, page);
    for (const [path, types] of ours) {
      const isOurs = Object.keys(OURS[page] ?? {}).some((begin) =>
        path.startsWith(begin) && !/^\w/.test(path.slice(begin.length))
      );
      const known = theirs.get(path);
      const more = known ? [...types].filter((type) => !known.has(type)) : [...types];
      if (!isOurs && more.length > 0) differences.push(`${page} ${path}: ${more}`);
    }
    for (const begin of Object.keys(OURS[page] ?? {})) {
      assert.ok([...ours.keys()].some((path) => path.startsWith(begin)), `${page} has no ${begin}`);
    }
  }
  assert.deepEqual(differences, []);

  const [theirs, ours] = [await clusterNames(mesh.envoy), await clusterNames(mesh.postern)];
  assert.deepEqual(ours.sort(), theirs.filter((name) => !OF_XDS.has(name)).sort());
  const [counted, here] = [await statistics(mesh.envoy), await statistics(mesh.postern)];
  const named = [...here].filter(([name]) => !OUR_STATISTICS.test(name));
  assert.ok(named.length > 50, `${named.length}`);
  assert.deepEqual(
    named.filter(([name, isUsed]) => counted.get(name) !== isUsed),
    [],
    "statistics that Envoy has not, or that only one of the two has counted",
  );
});

type Ask = (path: string) => Promise<string>;

async function clusterNames(ask: Ask): Promise<string[]> {
  const { cluster_statuses } = JSON.parse(await ask("/clusters?format=json"));
  return cluster_statuses.map(({ name }: { readonly name: string }) => name);
}

/**
 * Whether each statistic is anything but zero, by name without the addresses of the two instances.
 */
async function statistics(ask: Ask): Promise<ReadonlyMap<string, boolean>> {
  const { stats } = JSON.parse(await ask("/stats?format=json")) as {
    readonly stats: readonly { readonly name?: string; readonly value?: number }[];
  };
  const used = new Map<string, boolean>();
  for (const { name, value } of stats) {
    // The last element has the histograms.
    if (name === undefined) continue;
    const alike = name.replace(/127\.\d+\.\d+\.\d+_\d+/g, "ADDRESS");
    used.set(alike, used.get(alike) === true || value !== 0);
  }
  return used;
}

/** The types that each key path has somewhere; `configs[]@ClustersConfigDump.dynamic_active_clusters[]`. */
function pathsOf(json: unknown): ReadonlyMap<string, ReadonlySet<string>> {
  const paths = new Map<string, Set<string>>();
  const note = (path: string, type: string) => {
    const types = paths.get(path);
    if (types) types.add(type);
    else paths.set(path, new Set([type]));
  };
  const walk = (value: unknown, at: string): void => {
    if (Array.isArray(value)) {
      note(at, "array");
      for (const element of value) walk(element, `${at}[]`);
    } else if (typeof value === "object" && value !== null) {
      const type = "@type" in value ? `@${String(value["@type"]).split(".").at(-1)}` : "";
      note(at + type, "object");
      for (const [key, inner] of Object.entries(value)) walk(inner, `${at}${type}.${key}`);
    } else note(at, value === null ? "null" : typeof value);
  };
  walk(json, "");
  return paths;
}

const ENTRIES = [
  ...["api", "spare", "web"].map((Name) => ({ Kind: "service-defaults", Name, Protocol: "http" })),
  {
    Kind: "service-resolver",
    Name: "api",
    Failover: { "*": { Service: "spare" } },
    LoadBalancer: {
      Policy: "ring_hash",
      HashPolicies: [{ Field: "header", FieldValue: "x-user" }],
    },
  },
  {
    Kind: "service-router",
    Name: "api",
    Routes: [{
      Match: {
        HTTP: {
          PathPrefix: "/v2/",
          Methods: ["GET"],
          Header: [{ Name: "x-a", Exact: "b" }],
          QueryParam: [{ Name: "q", Present: true }],
        },
      },
      Destination: {
        Service: "spare",
        PrefixRewrite: "/",
        RequestTimeout: "10s",
        NumRetries: 2,
        RetryOnConnectFailure: true,
        RetryOnStatusCodes: [503],
        RequestHeaders: { Set: { "x-set": "1" } },
      },
    }],
  },
  {
    Kind: "service-intentions",
    Name: "web",
    Sources: [
      {
        Name: "api",
        Permissions: [
          {
            Action: "allow",
            HTTP: {
              PathPrefix: "/a",
              Methods: ["GET", "PUT"],
              Header: [{ Name: "x", Present: true }],
            },
          },
          { Action: "deny", HTTP: { PathRegex: "/b.*" } },
        ],
      },
      { Name: "other", Action: "allow" },
      { Name: "*", Action: "deny" },
    ],
  },
  ...["api", "db", "spare"].map((Name) => ({
    Kind: "service-intentions",
    Name,
    Sources: [{ Name: "web", Action: "allow" }],
  })),
];

interface Pages extends AsyncDisposable {
  readonly envoy: Ask;
  readonly postern: Ask;
}

/** Two instances of web, which have called `api` by HTTP and `db` by TCP. */
async function startPages(): Promise<Pages> {
  await using own = new AsyncDisposableStack();
  const consul = own.use(await startConsul());
  for (const entry of ENTRIES) await consul.configEntry(entry);
  const origin = own.use(await startRawOrigin(() => answerOf("ok"), { host: consul.host }));
  const echo = own.use(await consul.echo());
  const apps = { api: origin.port, spare: origin.port, db: echo.port };
  const served = Object.entries(apps).map(([name, port]) => consul.serve({ name, port }));
  for (const sidecar of await Promise.all(served)) own.use(sidecar);
  const web = async (id: string) => {
    const upstreams = [
      { name: "api", port: await freePort(consul.host) },
      { name: "db", port: await freePort(consul.host) },
    ] as const;
    await consul.register({ name: "web", id, port: origin.port, upstreams });
    return upstreams;
  };
  const [theirs, ours] = [await web("web-1"), await web("web-2")];
  const adminPort = await freePort(consul.host);
  own.use(await envoySidecar(consul, "web-1", { adminPort }));
  const postern = own.use(await consul.sidecar("web-2"));
  for (const upstreams of [theirs, ours]) await call(consul, upstreams);
  const address = await postern.adminAddress();
  const askOf = (admin: string): Ask => async (path) => {
    const reply = await fetch(`http://${admin}${path}`);
    assert.equal(reply.status, 200, path);
    return await reply.text();
  };
  const envoy = askOf(`${consul.host}:${adminPort}`);
  await eventually("Envoy has summed up its histograms, as it does every 5 s", async () => {
    return /"cumulative":\s*\d/.test(await envoy("/stats?format=json"));
  });
  const stack = own.move();
  return {
    envoy,
    postern: askOf(address),
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

async function call(
  { host }: Consul,
  [api, db]: readonly [{ readonly port: number }, { readonly port: number }],
): Promise<void> {
  await eventually("requests are answered", async () => {
    const reply = await fetch(`http://${host}:${api.port}/x`, { headers: { connection: "close" } });
    return await reply.text() === "ok";
  });
  await waitForEcho({ host, port: db.port });
}
