/** Roots, leaves, the configuration of the CA, and authorize. @module */

import { parseDurationMs } from "../../base/mod.ts";
import { parseServiceId } from "../../identity/mod.ts";
import { decide } from "../entries/intentions.ts";
import {
  type Api,
  blockingRead,
  type Call,
  param,
  type Read,
  replyWhenNewer,
} from "../http/api.ts";
import { type JsonObject, objectAt, objectsAt, textAt } from "../json.ts";
import { HttpRefusal } from "../refusal.ts";
import { decodeBody } from "../shapes.ts";
import { leafTopic, ROOTS } from "../store.ts";
import type { World } from "../world.ts";

export function addConnectRoutes(api: Api): void {
  api.get("/v1/agent/connect/ca/roots", (call) => replyWhenNewer(call, () => readRoots(call)));
  api.get("/v1/connect/ca/roots", async (call) => {
    const isPem = call.req.query("pem") === "true";
    if (!isPem) return await replyWhenNewer(call, () => readRoots(call));
    return pemReply((await blockingRead(call, () => readRoots(call))).value);
  });
  api.get("/v1/agent/connect/ca/leaf/:service", leaf);
  api.get("/v1/connect/ca/configuration", (call) => Response.json(call.env.ca.configurationJson()));
  api.put("/v1/connect/ca/configuration", async (call) => {
    configure(call.env, decodeBody(await call.req.text(), "ca_configuration"));
    return call.body(null);
  });
  api.post("/v1/agent/connect/authorize", async (call) => {
    const body = decodeBody(await call.req.text(), "authorization");
    const { allowed, reason } = authorize(call.env, body);
    return Response.json({ Authorized: allowed, Reason: reason });
  });
}

function readRoots({ env: { ca, store } }: Call): Read<JsonObject> {
  return { index: store.indexOf(ROOTS) ?? 1, topics: [ROOTS], value: ca.rootsJson() };
}

function pemReply(roots: JsonObject): Response {
  const pem = objectsAt(roots, "Roots").map((root) => textAt(root, "RootCert")).join("");
  return new Response(pem, { headers: { "Content-Type": "application/pem-certificate-chain" } });
}

async function leaf(call: Call): Promise<Response> {
  const service = param(call, "service");
  const { ca } = call.env;
  const { value, index } = await blockingRead(call, () => {
    const { json, index } = ca.leaf(service);
    return { index, topics: [leafTopic(service)], value: json };
  }, { isExact: true });
  return Response.json(value, { headers: { "X-Consul-Index": String(index) } });
}

/** Another key, or key type, rotates the CA; the key itself is made here. */
function configure({ ca }: World, body: JsonObject): void {
  const config = objectAt(body, "Config");
  const ttl = textAt(config, "LeafCertTTL");
  if (ttl !== "" && (parseDurationMs(ttl) ?? 0) < 3_600_000) {
    throw new HttpRefusal(400, "Cannot configure the CA: LeafCertTTL is below one hour");
  }
  const provider = textAt(body, "Provider");
  if (provider !== "" && provider !== "consul") {
    throw new HttpRefusal(400, `Cannot configure the CA: there is no provider "${provider}" here`);
  }
  const bits = config["PrivateKeyBits"];
  if (textAt(config, "PrivateKeyType") === "rsa") ca.rotate("rsa-2048");
  else if (bits === 384) ca.rotate("ec-p384");
  else if (bits === 256 || textAt(config, "PrivateKey") !== "") ca.rotate("ec-p256");
}

function authorize(world: World, body: JsonObject) {
  const target = textAt(body, "Target");
  if (target === "") throw new HttpRefusal(400, "Target service must be specified");
  const source = parseServiceId(textAt(body, "ClientCertURI"));
  if (source.kind === "refused" || source.id.partition !== "default") {
    throw new HttpRefusal(400, "ClientCertURI not a valid Service identifier");
  }
  const { config, intentionPolicy, acl } = world;
  return decide(config, source.id, target) ??
    (intentionPolicy === undefined
      ? { allowed: acl.allowsByDefault, reason: "Default behavior configured by ACLs" }
      : { allowed: intentionPolicy === "allow", reason: "Default intention policy" });
}
