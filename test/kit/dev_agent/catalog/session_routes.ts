/** `/v1/session`, as far as a sign of life needs it. @module */

import { type Api, type Call, param } from "../../../../src/dev/http/api.ts";
import { type JsonObject, textAt, textsAt } from "../../../../src/dev/json.ts";
import { HttpRefusal } from "../../../../src/dev/refusal.ts";
import { type AclOf, rightsOf } from "../acl/acl_of.ts";
import { SERF_HEALTH, type Sessions } from "./sessions.ts";

export function addSessionRoutes(
  api: Api,
  { sessions, aclOf }: { readonly sessions: Sessions; readonly aclOf: AclOf },
): void {
  const requireOwn = (call: Call, id: string) => {
    const node = sessions.nodeOf(id);
    const rights = rightsOf(call, aclOf(call.env));
    if (node !== undefined) rights.require("session", "write", node);
  };
  api.put("/v1/session/create", async (call) => {
    const body: JsonObject = await call.req.json();
    const { catalog, services } = call.env;
    const name = textAt(body, "Node") || services.node.record.name;
    rightsOf(call, aclOf(call.env)).require("session", "write", name);
    const node = catalog.nodes.get(name.toLowerCase());
    if (!node) throw new HttpRefusal(500, "apply failed: Missing node registration");
    const id = sessions.create({
      name: textAt(body, "Name"),
      node,
      nodeChecks: "NodeChecks" in body ? textsAt(body, "NodeChecks") : [SERF_HEALTH],
      ttl: textAt(body, "TTL"),
    });
    return Response.json({ ID: id });
  });
  api.put("/v1/session/renew/:id", (call) => {
    const id = param(call, "id");
    requireOwn(call, id);
    const session = sessions.renew(id);
    if (!session) throw new HttpRefusal(404, `Session id '${id}' not found`);
    return Response.json([session]);
  });
  api.put("/v1/session/destroy/:id", (call) => {
    const id = param(call, "id");
    requireOwn(call, id);
    sessions.destroy(id);
    return Response.json(true);
  });
}
