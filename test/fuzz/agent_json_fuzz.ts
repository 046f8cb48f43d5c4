/**
 * Replies of the agent: whatever JSON arrives, each reader gives a value or refuses the reply, and
 * never anything else; and no refusal shows a private key.
 *
 * @module
 */

import assert from "node:assert/strict";
import { prepareRegexes, ProxyError } from "../../src/base/mod.ts";
import { readAuthorize } from "../../src/consul/replies/default_policy.ts";
import { readChain } from "../../src/consul/replies/discovery_chain.ts";
import { readSidecars } from "../../src/consul/find_sidecar.ts";
import { readInstances, readQueryResult } from "../../src/consul/replies/instances.ts";
import { readIntentions } from "../../src/consul/replies/intentions.ts";
import { readIngressEntry } from "../../src/consul/replies/ingress.ts";
import { withIngressEntry } from "../../src/consul/replies/ingress_listeners.ts";
import { readDefaults, readMesh } from "../../src/consul/replies/mesh_and_defaults.ts";
import { readJwtProvider } from "../../src/consul/replies/jwt_provider.ts";
import { readLeaf, readRoots } from "../../src/consul/replies/certificates.ts";
import { readMissing } from "../../src/consul/preflight.ts";
import { readRegistration } from "../../src/consul/replies/registration.ts";
import {
  isWhole,
  type KeptEntries,
  readKept,
  strangerIn,
} from "../../src/consul/servers/catalog/keep/entries.ts";
import {
  readNodeServices,
  readOwnRegistration,
} from "../../src/consul/servers/catalog/node_catalog.ts";
import { compilePolicy, type Intention } from "../../src/policy/mod.ts";
import jwtAuth from "../../plugins/jwt_auth/jwt_auth.ts";
import rateLimit from "../../plugins/rate_limit/rate_limit.ts";
import type { Defaults, JwtProvider } from "../../src/consul/mod.ts";
import type { PluginDefinition } from "../../src/plugin/api.ts";
import { entryPlugins } from "../../src/source/consul/entry_plugins.ts";
import { judgeTokens } from "../../src/source/consul/token_providers.ts";
import { fixture, fixtureText } from "../kit/consul/scripted_agent.ts";
import { locateJsonError } from "../../src/wire/mod.ts";
import type { FuzzTarget } from "./fuzz.ts";

await prepareRegexes();

const GATEWAY = readRegistration(fixture("agent_service_ingress"), "igw-1");

const READERS: readonly ((json: unknown) => unknown)[] = [
  readAuthorize,
  readChain,
  (json) => readSidecars(json, "web-1"),
  (json) => readInstances(json, "api"),
  (json) => readIntentions(json, "db"),
  (json) => judgeBy(readIntentions(json, "api")),
  (json) => withIngressEntry(GATEWAY, readIngressEntry(json, "igw")),
  readLeaf,
  readMesh,
  (json) => limitsOf(readDefaults(json, { kind: "service-defaults", name: "db" })),
  (json) => tokensOf(readJwtProvider(json)),
  (json) => readMissing(json, []),
  (json) => readQueryResult(json, "geo-db"),
  (json) => readRegistration(json, "web-1-sidecar-proxy"),
  readRoots,
  (json) => readOwnRegistration(json, { node: "virt-1", proxyId: "web-1-sidecar-proxy" }),
  (json) => lookAt(readKept(readNodeServices(json, "virt-1").services, [])),
  (json) => lookAt(readKept([], json)),
];

/**
 * The limits made of an entry that the plugin takes: an entry that it refused would hold up all that
 * comes after.
 */
function limitsOf(serviceDefaults: Defaults | null): void {
  const known = { proxyDefaults: null, serviceDefaults };
  for (const { plugin, config } of entryPlugins(known, { service: "db", http: true }).uses) {
    if (plugin === "rate_limit") takes(rateLimit, config);
  }
}

/** The JSON found in the place of our own entries is compared, whatever it is. */
function lookAt(kept: KeptEntries): void {
  const entry = { applicationId: "web-1", nodeAddress: "10.9.9.9", httpCheckPath: "" };
  isWhole(kept, { ...entry, registration: GATEWAY }, "postern");
  strangerIn(kept, { ids: ["web-1"], sessions: new Set() });
}

function tokensOf(provider: JwtProvider | null): void {
  const source = { name: "web", namespace: "default", partition: "default", peer: "" };
  const tokens = [{ provider: "okta", claims: [] }];
  const rule: Intention = { rule: "web", source, action: "allow", tokens, precedence: 9 };
  const { intentions, use } = judgeTokens([rule], new Map([["okta", provider]]), { http: true });
  assert.ok(use !== undefined || intentions[0]?.refused !== undefined);
  if (use) takes(jwtAuth, use.config);
}

function takes({ config: schema }: PluginDefinition, config: unknown): void {
  const judged = schema["~standard"].validate(config);
  assert.ok(
    typeof judged === "object" && judged !== null && !("issues" in judged && judged.issues),
  );
}

/** Rules that were read can be judged by, and refused ones allow nothing. */
function judgeBy(intentions: readonly Intention[]): void {
  const name = { trustDomain: "td", partition: "default", namespace: "default", datacenter: "dc1" };
  const judge = compilePolicy({ intentions, defaultAction: "allow" })
    .forSource({ id: { ...name, service: "web" }, uri: "" });
  const plain = { scheme: "https", authority: "api", upgrade: "", length: 0, saysLength: false };
  for (const path of ["/exact", "/admin/x?y", "/r12"]) {
    const fields = ["x-a", "1", "X-A", "x-d", "s", "x-d"];
    const { kind, rule } = judge.decide({ ...plain, method: "GET", path, fields });
    if (/denies, since/.test(rule)) assert.equal(kind, "deny");
  }
}

const CORPUS = [
  "config_ingress_gateway",
  "authorize_default",
  "chain_rich_override_tcp",
  "chain_failover_targets",
  "agent_services",
  "health_connect",
  "intentions_match",
  "intentions_match_l7",
  "leaf",
  "config_mesh",
  "config_service_defaults",
  "config_jwt_provider",
  "config_jwt_provider_remote",
  "acl_authorize_probe",
  "prepared_query_failover",
  "agent_service_merged",
  "agent_service_tproxy",
  "roots_rsa",
  "agentless/node_services_merged",
  "agentless/health_node_virtual",
].map((name) => JSON.stringify(JSON.parse(fixtureText(`${name}.json`))));
CORPUS.push(JSON.stringify({
  RateLimits: {
    InstanceLevel: {
      RequestsPerSecond: 9,
      RequestsMaxBurst: 20,
      Routes: [
        { RequestsPerSecond: 2, PathRegex: "/a.*" },
        { RequestsPerSecond: 2, PathPrefix: "/a", RequestsMaxBurst: 1 },
        { PathExact: "/" },
      ],
    },
  },
}));
CORPUS.push(JSON.stringify({
  Issuer: "a",
  JSONWebKeySet: {
    Remote: {
      URI: "https://idp.example/keys",
      RequestTimeoutMs: 1,
      CacheDuration: "5m",
      RetryPolicy: { NumRetries: 1, RetryPolicyBackOff: { BaseInterval: 1, MaxInterval: 2e9 } },
    },
  },
}));

export const target: FuzzTarget = {
  name: "agent_json",
  corpus: CORPUS.map((text) => new TextEncoder().encode(text)),
  dictionary: ["null", "[]", "{}", "-1", "1e999", "0.5", '""', '"__proto__":', "true", "65536"],
  limitBytes: 32 << 10,
  run(input, random) {
    const text = new TextDecoder().decode(input);
    let json: unknown;
    try {
      json = JSON.parse(text);
    } catch {
      const at = locateJsonError(text);
      assert.ok(at >= 0 && at <= text.length);
      return;
    }
    const at = locateJsonError(text);
    // Deeper nesting than any of ours counts as an error.
    if (at !== text.length) assert.match(text.slice(0, at), /(?:[[{][^[{]*){32}/);
    // Also with a part swapped for another type, which damaged bytes seldom give.
    const values = [json, swapOne(json, random)];
    for (const value of values) {
      for (const read of READERS) {
        try {
          read(value);
        } catch (error) {
          assert.ok(error instanceof ProxyError, String(error));
          const right = ["agent_reply_invalid", "usage", "unsupported"].includes(error.code);
          assert.ok(right, `${error.code}: ${error.message}`);
          assert.ok(error.message.length < 1_000, "a refusal is no dump");
          assert.doesNotMatch(error.message, /PRIVATE KEY-/);
        }
      }
    }
  },
};

const STRANGE: readonly unknown[] = [null, [], {}, "", "x", 0, -1, 0.5, 1e300, true, [[]], {
  a: null,
}];

/** A copy in which one value, chosen on the way down, is another. */
function swapOne(json: unknown, random: () => number): unknown {
  if (random() < 0.15 || typeof json !== "object" || json === null) {
    return STRANGE[Math.floor(random() * STRANGE.length)];
  }
  if (Array.isArray(json)) {
    const at = Math.floor(random() * json.length);
    return json.map((item, index) => index === at ? swapOne(item, random) : item);
  }
  const keys = Object.keys(json);
  const chosen = keys[Math.floor(random() * keys.length)];
  return Object.fromEntries(
    Object.entries(json).map((
      [key, value],
    ) => [key, key === chosen ? swapOne(value, random) : value]),
  );
}
