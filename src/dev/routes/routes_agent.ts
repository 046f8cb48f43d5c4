/**
 * `/v1/agent`: local services, checks and health, and the few facts about the agent itself.
 *
 * @module
 */

import { createHash } from "node:crypto";
import { matchesBexpr } from "../http/bexpr.ts";
import { blockByHash } from "../http/blocking.ts";
import { type Call, empty, json, readBody, type Route } from "../http/call.ts";
import { stable } from "../catalog/catalog.ts";
import { proxyTopics } from "./merged.ts";
import { type JsonObject, object } from "../http/decode.ts";
import { readFilter, SERVICE_FIELDS } from "../http/filters.ts";
import { unknownService } from "../catalog/local_services.ts";
import { agentService, checkJson, type ServiceRecord, type Status } from "../catalog/records.ts";
import { Refusal } from "../http/refusal.ts";
import { textAt } from "../http/fields.ts";
import { REGISTRATION } from "../catalog/registration_shape.ts";

export const AGENT_ROUTES: readonly Route[] = [
  { method: "PUT", path: /^\/v1\/agent\/service\/register$/, handle: register },
  { method: "PUT", path: /^\/v1\/agent\/service\/deregister\/(.*)$/, handle: deregister },
  { method: "PUT", path: /^\/v1\/agent\/service\/maintenance\/(.*)$/, handle: maintenance },
  {
    method: "GET",
    path: /^\/v1\/agent\/service\/(?!register$|deregister\/|maintenance\/)(.*)$/,
    handle: service,
  },
  { method: "GET", path: /^\/v1\/agent\/services$/, handle: services },
  { method: "GET", path: /^\/v1\/agent\/checks$/, handle: checks },
  { method: "PUT", path: /^\/v1\/agent\/check\/(pass|warn|fail|update)\/(.*)$/, handle: beat },
  { method: "GET", path: /^\/v1\/agent\/health\/service\/id\/(.*)$/, handle: healthById },
  { method: "GET", path: /^\/v1\/agent\/health\/service\/name\/(.*)$/, handle: healthByName },
  { method: "GET", path: /^\/v1\/agent\/version$/, handle: version },
  { method: "GET", path: /^\/v1\/agent\/self$/, handle: self },
  { method: "GET", path: /^\/v1\/status\/leader$/, handle: () => json("127.0.0.1:8300") },
];

function register(call: Call) {
  const body = readBody(call, REGISTRATION);
  const name = textAt(body, "Name");
  if (name === "") throw new Refusal(400, "Missing service name");
  call.authorizer().require("service", "write", name);
  call.state.services.register(body);
  return empty();
}

function deregister(call: Call) {
  const [id = ""] = call.params;
  const authorizer = call.authorizer();
  const record = call.state.services.get(id);
  if (!record) throw unknownService(id);
  authorizer.require("service", "write", record.name);
  call.state.services.deregister(id);
  return empty();
}

function maintenance(call: Call) {
  const [id = ""] = call.params;
  if (id === "") throw new Refusal(400, "Missing service ID");
  const enable = call.query.get("enable");
  if (enable === null) throw new Refusal(400, "Missing value for enable");
  if (enable !== "true" && enable !== "false") {
    throw new Refusal(400, `Invalid value for enable: "${enable}"`);
  }
  const authorizer = call.authorizer();
  const record = call.state.services.get(id);
  if (!record) throw unknownService(id);
  authorizer.require("service", "write", record.name);
  call.state.services.maintenance(id, enable === "true", call.query.get("reason") ?? "");
  return empty();
}

async function service(call: Call) {
  const [id = ""] = call.params;
  const { clock, random, nodeName, datacenter } = call.world;
  const read = () => {
    const authorizer = call.authorizer();
    const record = call.state.services.get(id);
    if (!record) throw new Refusal(404, `unknown service ID: ${id}`);
    authorizer.require("service", "read", record.name);
    const body = agentService(record);
    return {
      index: 0,
      hash: contentHash(body),
      topics: [`instance:${datacenter}:${nodeName}:${id}`, ...proxyTopics(record)],
      value: body,
    };
  };
  const { value } = await blockByHash(
    { store: call.state.store, clock, random },
    call.request,
    call.blocking,
    read,
  );
  const hash = contentHash(value);
  return json({ ...value, ContentHash: hash }, { "X-Consul-Contenthash": hash });
}

/** Sixty-four bits in hex without leading zeros, as Consul writes its hash. */
function contentHash(body: JsonObject): string {
  return createHash("sha256").update(stable(body)).digest().readBigUInt64BE().toString(16);
}

function services(call: Call) {
  const authorizer = call.authorizer();
  const filter = readFilter(call.query, SERVICE_FIELDS);
  const all = call.state.services.all();
  const seen = all.filter((record) => authorizer.allows("service", "read", record.name));
  const body: Record<string, JsonObject> = {};
  for (const record of seen) {
    const item = agentService(record);
    if (!filter || matchesBexpr(filter, item)) body[record.id] = item;
  }
  return json(body, filteredHeader(authorizer.hasToken && seen.length < all.length));
}

function checks(call: Call) {
  const authorizer = call.authorizer();
  const { services, catalog } = call.state;
  const all = catalog.checksOf(services.node);
  const seen = all.filter((check) => authorizer.allows("service", "read", check.serviceName));
  const body = Object.fromEntries(
    seen.map((check) => [check.id, checkJson(services.node, check, true)] as const)
      .sort(([a], [b]) => a < b ? -1 : 1),
  );
  return json(body, filteredHeader(authorizer.hasToken && seen.length < all.length));
}

const BEATS: Readonly<Record<string, Status>> = {
  pass: "passing",
  warn: "warning",
  fail: "critical",
};

function beat(call: Call) {
  const [verb = "", id = ""] = call.params;
  const { services, catalog } = call.state;
  const authorizer = call.authorizer();
  const known = catalog.check(services.node, id);
  if (known) authorizer.require("service", "write", known.serviceName);
  if (verb !== "update") {
    services.beat(id, BEATS[verb] ?? "critical", call.query.get("note") ?? "");
    return empty();
  }
  const body = readBody(
    call,
    object({ Status: "string", Output: "string", CheckID: "string", Namespace: "string" }),
  );
  const status = textAt(body, "Status");
  if (status !== "passing" && status !== "warning" && status !== "critical") {
    throw new Refusal(400, `Invalid check status: '${status}'`);
  }
  services.beat(id, status, textAt(body, "Output"));
  return empty();
}

function healthById(call: Call) {
  const [id = ""] = call.params;
  const authorizer = call.authorizer();
  const record = call.state.services.get(id);
  if (!record) {
    return notHealthy(`ServiceId ${id} not found`, {
      AggregatedStatus: "critical",
      Service: null,
      Checks: null,
    });
  }
  authorizer.require("service", "read", record.name);
  const status = call.state.services.statusOf(id);
  return json(
    healthJson(call, record, status),
    { "X-Consul-Reason": status },
    STATUS_CODES[status],
  );
}

function healthByName(call: Call) {
  const [name = ""] = call.params;
  call.authorizer().require("service", "read", name);
  const all = call.state.services.all().filter((record) => record.name === name);
  if (all.length === 0) return notHealthy(`ServiceName ${name} Not Found`, []);
  const states = all.map((record) => ({ record, status: call.state.services.statusOf(record.id) }));
  const order: readonly Status[] = ["passing", "warning", "critical"];
  const last = states.reduce((at, { status }) => Math.max(at, order.indexOf(status)), 0);
  const overall = order[last] ?? "critical";
  const body = states.map(({ record, status }) => healthJson(call, record, status));
  return json(body, { "X-Consul-Reason": overall }, STATUS_CODES[overall]);
}

const STATUS_CODES: Readonly<Record<Status, number>> = {
  passing: 200,
  warning: 429,
  critical: 503,
};

function healthJson(call: Call, record: ServiceRecord, status: Status): JsonObject {
  const { services, catalog } = call.state;
  return {
    AggregatedStatus: status,
    Service: agentService(record),
    Checks: catalog.checksOf(services.node, record.id).map((check) =>
      checkJson(services.node, check, true)
    ),
  };
}

function notHealthy(reason: string, body: unknown) {
  return json(body, { "X-Consul-Reason": reason }, 404);
}

function version() {
  return json({ SHA: "", BuildDate: "1970-01-01T00:00:01Z", HumanVersion: "1.22.7", FIPS: "" });
}

function self(call: Call) {
  const { datacenter, nodeName, defaultIntentionPolicy } = call.world;
  call.authorizer().require("agent", "read", nodeName);
  const { node } = call.state.services;
  return json({
    Config: {
      BuildDate: "1970-01-01T00:00:01Z",
      Datacenter: datacenter,
      NodeID: node.id,
      NodeName: nodeName,
      PrimaryDatacenter: datacenter,
      Revision: "",
      Server: true,
      Version: "1.22.7",
    },
    DebugConfig: {
      ConnectSidecarMaxPort: 21255,
      ConnectSidecarMinPort: 21000,
      DefaultIntentionPolicy: defaultIntentionPolicy ?? "",
    },
    Member: { Name: nodeName, Addr: node.address, Status: 1 },
    Meta: { "consul-network-segment": "", "consul-version": "1.22.7" },
    Stats: {},
  });
}

function filteredHeader(filtered: boolean): Record<string, string> {
  return filtered ? { "X-Consul-Results-Filtered-By-Acls": "true" } : {};
}
