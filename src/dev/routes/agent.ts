/** `/v1/agent`: local services, their checks and health, and the agent's own facts. @module */

import { createHash } from "node:crypto";
import {
  agentServiceJson,
  checkJson,
  type ServiceRecord,
  type Status,
  worstOf,
} from "../catalog/records.ts";
import { isStatus } from "../catalog/registration.ts";
import { mergedNames } from "../entries/central_config.ts";
import { type Api, blockingReadByHash, type Call, param } from "../http/api.ts";
import { parseFilter } from "../filter.ts";
import { type JsonObject, stableJson, textAt } from "../json.ts";
import { HttpRefusal } from "../refusal.ts";
import { decodeBody } from "../shapes.ts";
import { configTopic, instanceTopic } from "../store.ts";

/** The version of Consul that these answers follow. */
const VERSION = "1.22.7";

export function addAgentRoutes(api: Api): void {
  api.put("/v1/agent/service/register", async (call) => {
    call.env.services.register(decodeBody(await call.req.text(), "registration"));
    return call.body(null);
  });
  api.put("/v1/agent/service/deregister/:id", (call) => {
    call.env.services.deregister(param(call, "id"));
    return call.body(null);
  });
  api.put("/v1/agent/service/maintenance/:id", (call) => {
    const enable = call.req.query("enable");
    if (enable !== "true" && enable !== "false") {
      throw new HttpRefusal(400, "Cannot set maintenance: want enable=true or enable=false");
    }
    const reason = call.req.query("reason") ?? "";
    call.env.services.maintenance(param(call, "id"), enable === "true", reason);
    return call.body(null);
  });
  api.post("/v1/internal/acl/authorize", async (call) => {
    if (call.env.acl.token === undefined) throw new HttpRefusal(401, "ACL support disabled");
    const questions: unknown = await call.req.json();
    if (!Array.isArray(questions)) throw new HttpRefusal(400, "Request decode failed: want a list");
    // The one token may do everything.
    return call.json(questions.map((question: object) => ({ ...question, Allow: true })));
  });
  api.get("/v1/agent/service/:id", readService);
  api.get("/v1/agent/services", listServices);
  api.get("/v1/agent/checks", listChecks);
  api.put("/v1/agent/check/:verb{pass|warn|fail}/:id", (call) => {
    const status = BEATS[param(call, "verb")] ?? "critical";
    call.env.services.beat(param(call, "id"), status, call.req.query("note") ?? "");
    return call.body(null);
  });
  api.put("/v1/agent/check/update/:id", async (call) => {
    const body = decodeBody(await call.req.text(), "check_update");
    const status = textAt(body, "Status");
    if (!isStatus(status)) throw new HttpRefusal(400, `Invalid check status: '${status}'`);
    call.env.services.beat(param(call, "id"), status, textAt(body, "Output"));
    return call.body(null);
  });
  api.get("/v1/agent/health/service/id/:id", (call) => {
    const [only = null] = health(call, ({ id }) => id === param(call, "id"));
    return call.json(only);
  });
  api.get("/v1/agent/health/service/name/:name", (call) => {
    return call.json(health(call, ({ name }) => name === param(call, "name")));
  });
  api.get("/v1/agent/version", () => Response.json({ HumanVersion: VERSION }));
  api.get("/v1/agent/self", describeAgent);
  api.get("/v1/status/leader", () => Response.json("127.0.0.1:8300"));
}

async function readService(call: Call): Promise<Response> {
  const id = param(call, "id");
  const { services, datacenter } = call.env;
  const { body, hash } = await blockingReadByHash(call, () => {
    const record = services.get(id);
    if (!record) throw new HttpRefusal(404, `unknown service ID: ${id}`);
    const body = agentServiceJson(record, datacenter);
    return { body, hash: contentHash(body), topics: topicsOf(call, record) };
  });
  return Response.json({ ...body, ContentHash: hash }, {
    headers: { "X-Consul-Contenthash": hash },
  });
}

function topicsOf({ env: { services } }: Call, { id, proxy }: ServiceRecord): readonly string[] {
  return [instanceTopic(services.node.record.name, id), ...proxy ? mergeTopics(proxy) : []];
}

export function mergeTopics(proxy: JsonObject): readonly string[] {
  return [
    configTopic("proxy-defaults", "global"),
    ...mergedNames(proxy).map((name) => configTopic("service-defaults", name)),
  ];
}

/** 64 bits in hex without leading zeros, as Consul writes its hash. */
function contentHash(body: JsonObject): string {
  return createHash("sha256").update(stableJson(body)).digest().readBigUInt64BE().toString(16);
}

function listServices(call: Call): Response {
  const { services, datacenter } = call.env;
  const filter = parseFilter(call.req.query("filter") ?? "");
  const shown = services.all().map((record) =>
    [record.id, agentServiceJson(record, datacenter)] as const
  );
  return Response.json(Object.fromEntries(shown.filter(([, item]) => filter(item))));
}

function listChecks(call: Call): Response {
  const { node } = call.env.services;
  const filter = parseFilter(call.req.query("filter") ?? "");
  const shown = node.checks().map((check) =>
    [check.id, checkJson(node.record, check, true)] as const
  );
  return Response.json(Object.fromEntries(shown.filter(([, item]) => filter(item))));
}

const BEATS: Readonly<Record<string, Status>> = { pass: "passing", warn: "warning" };
const HEALTH_CODES = { passing: 200, warning: 429, critical: 503 } as const;

/** The health of services; the reply's status expresses it. */
function health(call: Call, isMeant: (record: ServiceRecord) => boolean): readonly JsonObject[] {
  const { services, datacenter } = call.env;
  const { node } = services;
  const found = services.all().filter(isMeant);
  const status = worstOf(found.flatMap(({ id }) => node.checksOf(id)));
  call.header("X-Consul-Reason", found.length === 0 ? "not found" : status);
  call.status(found.length === 0 ? 404 : HEALTH_CODES[status]);
  return found.map((record) => ({
    AggregatedStatus: services.statusOf(record.id),
    Service: agentServiceJson(record, datacenter),
    Checks: node.checksOf(record.id).map((check) => checkJson(node.record, check, true)),
  }));
}

function describeAgent(call: Call): Response {
  const { datacenter, intentionPolicy, services } = call.env;
  const { id, name, address } = services.node.record;
  return Response.json({
    Config: {
      Datacenter: datacenter,
      NodeID: id,
      NodeName: name,
      PrimaryDatacenter: datacenter,
      Server: true,
      Version: VERSION,
    },
    DebugConfig: { DefaultIntentionPolicy: intentionPolicy ?? "" },
    Member: { Name: name, Addr: address, Status: 1 },
  });
}
