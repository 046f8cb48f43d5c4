/**
 * `/v1/config` and `/v1/discovery-chain`.
 *
 * @module
 */

import type { Access, Authorizer } from "../acl/acl.ts";
import {
  blockCall,
  type Call,
  json,
  metaHeaders,
  requireDatacenter,
  type Route,
  withMeta,
} from "../http/call.ts";
import { compileChain, NO_OVERRIDES } from "../entries/chain_compiler.ts";
import type { ChainOverrides } from "../entries/chain_targets.ts";
import { checkKind, configTopic, readEntry } from "../entries/config_entries.ts";
import { DecodeError, isObject, type JsonObject, parseJson } from "../http/decode.ts";
import { durationNs } from "../http/go_duration.ts";
import { Refusal } from "../http/refusal.ts";
import { textAt } from "../http/fields.ts";

const ONE = /^\/v1\/config\/([^/]+)\/(.+)$/;
const CHAIN = /^\/v1\/discovery-chain\/(.*)$/;

export const CONFIG_ROUTES: readonly Route[] = [
  { method: "PUT", path: /^\/v1\/config$/, handle: put },
  { method: "GET", path: ONE, handle: get },
  { method: "DELETE", path: ONE, handle: remove },
  { method: "GET", path: /^\/v1\/config\/([^/]+)$/, handle: listKind },
  { method: "GET", path: CHAIN, handle: chain },
  { method: "POST", path: CHAIN, handle: chain },
];

function put(call: Call) {
  const entry = readEntry(new TextDecoder().decode(call.request.body));
  requireAccess(call.authorizer(), textAt(entry, "Kind"), textAt(entry, "Name"), "write");
  const cas = call.query.get("cas");
  if (cas !== null && !/^\d+$/.test(cas)) throw new Refusal(400, `Invalid cas value: ${cas}`);
  return json(call.state.config.put(entry, cas === null ? undefined : Number(cas)));
}

async function get(call: Call) {
  const [kind = "", name = ""] = call.params;
  const authorizer = call.authorizer();
  checkKind(kind);
  requireAccess(authorizer, kind, name, "read");
  const { value, index } = await blockCall(call, () => ({
    index: call.state.store.tableIndex("config"),
    topics: [configTopic(kind, name)],
    value: call.state.config.find(kind, name),
  }));
  const headers = metaHeaders(call, index, { consistency: false });
  if (!value) throw new Refusal(404, `Config entry not found for "${kind}" / "${name}"`, headers);
  return json(value, headers);
}

async function listKind(call: Call) {
  const [kind = ""] = call.params;
  const authorizer = call.authorizer();
  checkKind(kind);
  const { value, index } = await blockCall(call, () => ({
    index: call.state.store.tableIndex("config"),
    topics: [`config:${kind}`],
    value: call.state.config.list(kind),
  }));
  const seen = value.filter((entry) => mayAccess(authorizer, kind, textAt(entry, "Name"), "read"));
  const filtered = authorizer.hasToken && seen.length < value.length;
  return json(seen, metaHeaders(call, index, { consistency: false, filtered }));
}

function remove(call: Call) {
  const [kind = "", name = ""] = call.params;
  const authorizer = call.authorizer();
  checkKind(kind);
  requireAccess(authorizer, kind, name, "write");
  call.state.config.remove(kind, name);
  return json({});
}

/** Which right an entry of this kind needs, in the order in which they may serve. */
function rightOn(kind: string, access: Access): { resource: string; byName: boolean } | undefined {
  switch (kind) {
    case "service-intentions":
      return { resource: "intention", byName: true };
    case "proxy-defaults":
    case "mesh":
      return access === "read" ? undefined : { resource: "mesh", byName: false };
    case "sameness-group":
      return undefined;
    case "exported-services":
    case "http-route":
    case "tcp-route":
    case "inline-certificate":
    case "file-system-certificate":
    case "jwt-provider":
      return { resource: "mesh", byName: false };
    default:
      return { resource: "service", byName: true };
  }
}

/** Whoever may be some service must know whose tokens are good. */
function isOfAnyService(authorizer: Authorizer, kind: string, access: Access): boolean {
  return kind === "jwt-provider" && access === "read" &&
    authorizer.allows("service", "write", "*");
}

function requireAccess(authorizer: Authorizer, kind: string, name: string, access: Access): void {
  if (isOfAnyService(authorizer, kind, access)) return;
  const right = rightOn(kind, access);
  if (right) authorizer.require(right.resource, access, right.byName ? name : "");
}

function mayAccess(authorizer: Authorizer, kind: string, name: string, access: Access): boolean {
  if (isOfAnyService(authorizer, kind, access)) return true;
  const right = rightOn(kind, access);
  return !right || authorizer.allows(right.resource, access, right.byName ? name : "");
}

async function chain(call: Call) {
  const [service = ""] = call.params;
  if (service === "") throw new Refusal(400, "Missing chain name");
  const overrides = call.request.method === "POST" ? readOverrides(call) : NO_OVERRIDES;
  withMeta(() => call.authorizer().require("service", "read", service));
  requireDatacenter(call);
  const { ca, catalog, config, store } = call.state;
  const datacenter = call.query.get("compile-dc") || call.datacenter;
  const { value, index } = await blockCall(call, () => {
    const compiled = compileChain({
      service,
      datacenter,
      trustDomain: ca.trustDomain,
      overrides,
      find: (kind, name) => config.find(kind, name),
      virtualIp: catalog.virtualIpOf(call.world.datacenter, service),
    });
    return { index: store.tableIndex("config"), topics: compiled.topics, value: compiled.chain };
  });
  return json({ Chain: value }, metaHeaders(call, index));
}

function readOverrides(call: Call): ChainOverrides {
  let body: JsonObject;
  try {
    const parsed = parseJson(new TextDecoder().decode(call.request.body));
    body = isObject(parsed) ? parsed : {};
  } catch (error) {
    if (!(error instanceof DecodeError)) throw error;
    throw new Refusal(400, `Request decoding failed: ${error.message}`);
  }
  const gateway = body["OverrideMeshGateway"] ?? body["override_mesh_gateway"] ?? null;
  const mode = isObject(gateway) ? textAt(gateway, "Mode") || textAt(gateway, "mode") : "";
  if (!["", "none", "local", "remote"].includes(mode)) {
    throw new Refusal(400, "Invalid OverrideMeshGateway.Mode parameter");
  }
  const timeout = body["OverrideConnectTimeout"] ?? body["override_connect_timeout"] ?? 0;
  return {
    protocol: textAt(body, "OverrideProtocol") || textAt(body, "override_protocol"),
    connectTimeoutNs: durationNs(timeout, "OverrideConnectTimeout"),
    meshGatewayMode: mode,
  };
}
