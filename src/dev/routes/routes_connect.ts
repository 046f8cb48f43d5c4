/**
 * Certificates and the agent's own verdict: roots, leaves, CA configuration, authorize.
 *
 * @module
 */

import { parseDurationMs } from "../../base/mod.ts";
import { leafTopic, ROOTS_TOPIC } from "../ca/ca.ts";
import {
  blockCall,
  type Call,
  empty,
  json,
  metaHeaders,
  readBody,
  type Route,
} from "../http/call.ts";
import { object } from "../http/decode.ts";
import { decide } from "../entries/intentions.ts";
import { Refusal } from "../http/refusal.ts";
import { objectAt, textAt } from "../http/fields.ts";

export const CONNECT_ROUTES: readonly Route[] = [
  { method: "GET", path: /^\/v1\/agent\/connect\/ca\/roots$/, handle: agentRoots },
  { method: "GET", path: /^\/v1\/connect\/ca\/roots$/, handle: roots },
  { method: "GET", path: /^\/v1\/agent\/connect\/ca\/leaf\/(.*)$/, handle: leaf },
  { method: "GET", path: /^\/v1\/connect\/ca\/configuration$/, handle: configuration },
  { method: "PUT", path: /^\/v1\/connect\/ca\/configuration$/, handle: configure },
  { method: "POST", path: /^\/v1\/agent\/connect\/authorize$/, handle: authorize },
];

async function readRoots(call: Call) {
  return await blockCall(call, () => ({
    index: call.state.store.topicIndex(ROOTS_TOPIC) ?? 1,
    topics: [ROOTS_TOPIC],
    value: call.state.ca.rootsJson(),
  }));
}

async function agentRoots(call: Call) {
  const { value, index } = await readRoots(call);
  const cache: Record<string, string> = waited(call)
    ? { "X-Cache": "MISS" }
    : { Age: "0", "X-Cache": "HIT" };
  return json(value, { ...cache, ...metaHeaders(call, index, { consistency: false }) });
}

async function roots(call: Call) {
  if (call.query.get("pem") === "true") {
    return {
      status: 200,
      headers: { "Content-Type": "application/pem-certificate-chain" },
      body: call.state.ca.rootsPem(),
    };
  }
  const { value, index } = await readRoots(call);
  return json(value, metaHeaders(call, index, { consistency: false }));
}

async function leaf(call: Call) {
  const [service = ""] = call.params;
  const { ca } = call.state;
  // As in Consul, a leaf that the agent holds is handed to anybody: it holds those of its sidecars.
  const held = heldForSidecar(call, service);
  const cached = ca.isCached(service) || held;
  if (!cached && service !== "") call.authorizer().require("service", "write", service);
  const read = () => {
    const { json: value, index } = ca.leaf(service);
    return { index, topics: [leafTopic(service)], value };
  };
  const { value, index } = await blockCall(call, read, true);
  const age = String(Math.floor(ca.leaf(service).ageMs / 1000));
  const cache: Record<string, string> = held && !waited(call)
    ? { Age: age, "X-Cache": "HIT" }
    : { "X-Cache": "MISS" };
  return json(value, { ...cache, "X-Consul-Index": String(index) });
}

function heldForSidecar(call: Call, service: string): boolean {
  return call.state.services.all().some((record) =>
    record.kind === "connect-proxy" &&
    textAt(record.proxy ?? {}, "DestinationServiceName") === service
  );
}

function waited(call: Call): boolean {
  return call.blocking.index > 0;
}

function configuration(call: Call) {
  call.authorizer().require("operator", "read", "");
  return json(call.state.ca.configurationJson());
}

const CA_CONFIGURATION = object({
  Provider: "string",
  Config: "any",
  State: "any",
  ForceWithoutCrossSigning: "bool",
  CreateIndex: "number",
  ModifyIndex: "number",
});

/** A write with another key or key type rotates the CA; the embedded agent makes the key itself. */
function configure(call: Call) {
  call.authorizer().require("operator", "write", "");
  const body = readBody(call, CA_CONFIGURATION);
  const config = objectAt(body, "Config");
  const ttl = textAt(config, "LeafCertTTL");
  if (ttl !== "" && (parseDurationMs(ttl) ?? 0) < 3_600_000) {
    throw new Refusal(500, "leaf cert TTL must be greater or equal than 1h0m0s");
  }
  const provider = textAt(body, "Provider");
  if (provider !== "" && provider !== "consul") {
    throw new Refusal(500, `unknown CA provider "${provider}" in config`);
  }
  const bits = config["PrivateKeyBits"];
  if (textAt(config, "PrivateKeyType") === "rsa") call.state.ca.rotate("rsa-2048");
  else if (bits === 384) call.state.ca.rotate("ec-p384");
  else if (textAt(config, "PrivateKey") !== "" || bits === 256) call.state.ca.rotate("ec-p256");
  return empty();
}

const AUTHORIZE = object({
  Target: "string",
  ClientCertURI: "string",
  ClientCertSerial: "string",
  Namespace: "string",
  Partition: "string",
});

function authorize(call: Call) {
  const body = readBody(call, AUTHORIZE);
  const target = textAt(body, "Target");
  if (target === "") throw new Refusal(400, "Target service must be specified");
  const source = parseUri(textAt(body, "ClientCertURI"));
  if (source.partition !== "default") {
    throw new Refusal(400, `Mismatched partitions: "${source.partition}" != "default"`);
  }
  call.authorizer().require("service", "write", target);
  const { defaultIntentionPolicy } = call.world;
  const decision = decide(call.state.config, source, target) ??
    (defaultIntentionPolicy === undefined
      ? {
        allowed: call.state.acl.allowsByDefault,
        reason: "Default behavior configured by ACLs",
      }
      : { allowed: defaultIntentionPolicy === "allow", reason: "Default intention policy" });
  const known = call.state.authorized.has(target);
  call.state.authorized.add(target);
  const cache: Record<string, string> = known
    ? { Age: "0", "X-Cache": "HIT" }
    : { "X-Cache": "MISS" };
  return json({ Authorized: decision.allowed, Reason: decision.reason }, cache);
}

function parseUri(uri: string): { partition: string; namespace: string; service: string } {
  const path = /^spiffe:\/\/[^/]+(\/.*)?$/.exec(uri)?.[1];
  const service = /^(?:\/ap\/([^/]+))?\/ns\/([^/]+)\/dc\/[^/]+\/svc\/([^/]+)$/.exec(path ?? "");
  if (service) {
    return {
      partition: decodeURIComponent(service[1] ?? "default"),
      namespace: decodeURIComponent(service[2] ?? ""),
      service: decodeURIComponent(service[3] ?? ""),
    };
  }
  const other = /^(?:\/ap\/[^/]+)?\/(?:gateway\/mesh|agent\/client|agent\/server|agent)\//.test(
    path ?? "",
  );
  const signing = /^spiffe:\/\/[^/]+\.consul$/.test(uri);
  throw new Refusal(
    400,
    other || signing
      ? "ClientCertURI not a valid Service identifier"
      : "ClientCertURI not a valid Connect identifier",
  );
}
