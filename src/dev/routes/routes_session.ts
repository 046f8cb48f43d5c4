/**
 * `/v1/session`, as far as a sign of life needs it.
 *
 * @module
 */

import { SERF_HEALTH } from "../catalog/sessions.ts";
import { type Call, json, readBody, type Route } from "../http/call.ts";
import { list, object } from "../http/decode.ts";
import { textAt, textsAt } from "../http/fields.ts";
import { Refusal } from "../http/refusal.ts";

export const SESSION_ROUTES: readonly Route[] = [
  { method: "PUT", path: /^\/v1\/session\/create$/, handle: create },
  { method: "PUT", path: /^\/v1\/session\/renew\/([^/]+)$/, handle: renew },
  { method: "PUT", path: /^\/v1\/session\/destroy\/([^/]+)$/, handle: destroy },
];

const SESSION = object({
  Name: "string",
  Node: "string",
  NodeChecks: list("string"),
  Checks: list("string"),
  TTL: "string",
  LockDelay: "any",
  Behavior: "string",
});

function create(call: Call) {
  const body = readBody(call, SESSION);
  const name = textAt(body, "Node") || call.world.nodeName;
  call.authorizer().require("session", "write", name);
  const node = call.state.catalog.node(call.datacenter, name);
  if (!node) throw new Refusal(500, "apply failed: Missing node registration");
  const id = call.state.sessions.create({
    name: textAt(body, "Name"),
    node,
    nodeChecks: "NodeChecks" in body ? textsAt(body, "NodeChecks") : [SERF_HEALTH],
    ttl: textAt(body, "TTL"),
  });
  return json({ ID: id });
}

function renew(call: Call) {
  const [id = ""] = call.params;
  requireOwn(call, id);
  const session = call.state.sessions.renew(id);
  if (!session) throw new Refusal(404, `Session id '${id}' not found`);
  return json([session]);
}

function destroy(call: Call) {
  const [id = ""] = call.params;
  requireOwn(call, id);
  call.state.sessions.destroy(id);
  return json(true);
}

function requireOwn(call: Call, id: string): void {
  const authorizer = call.authorizer();
  const node = call.state.sessions.nodeOf(id);
  if (node !== undefined) authorizer.require("session", "write", node);
}
