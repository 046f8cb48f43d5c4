/** Policies and tokens as tests set them up, and their rights. @module */

import type { Api, Call } from "../../../../src/dev/http/api.ts";
import { param } from "../../../../src/dev/http/api.ts";
import { isObject, type JsonObject, objectsAt, textAt } from "../../../../src/dev/json.ts";
import { HttpRefusal } from "../../../../src/dev/refusal.ts";
import { type Acl, TOKEN_UNKNOWN, tokenJson } from "./acl.ts";
import { type AclOf, rightsOf, secretOf } from "./acl_of.ts";

export function addAclRoutes(api: Api, aclOf: AclOf): void {
  const required = (call: Call): Acl => {
    const acl = aclOf(call.env);
    if (!acl.enabled) throw new HttpRefusal(401, "ACL support disabled");
    return acl;
  };
  const writable = (call: Call): Acl => {
    const acl = required(call);
    rightsOf(call, acl).require("acl", "write", "");
    return acl;
  };
  api.get("/v1/acl/token/self", (call) => {
    const token = required(call).find(secretOf(call));
    if (!token) throw new HttpRefusal(403, TOKEN_UNKNOWN);
    return Response.json(tokenJson(token), { headers: { "X-Consul-Index": "1" } });
  });
  api.put("/v1/acl/policy", async (call) => {
    const acl = writable(call);
    const policy = await bodyOf(call);
    acl.addPolicy(textAt(policy, "Name"), textAt(policy, "Rules"));
    return Response.json({ ID: textAt(policy, "Name"), ...policy });
  });
  api.put("/v1/acl/token", async (call) => {
    const acl = writable(call);
    const body = await bodyOf(call);
    const names = (key: string, of: string) => objectsAt(body, key).map((item) => textAt(item, of));
    const [secretId, accessorId] = [textAt(body, "SecretID"), textAt(body, "AccessorID")];
    const token = acl.add({
      ...secretId === "" ? {} : { secretId },
      ...accessorId === "" ? {} : { accessorId },
      serviceIdentities: names("ServiceIdentities", "ServiceName"),
    }, names("Policies", "Name"));
    return Response.json(tokenJson(token));
  });
  api.delete("/v1/acl/token/:id", (call) => {
    writable(call).remove(param(call, "id"));
    return Response.json(true);
  });
  api.post("/v1/internal/acl/authorize", async (call) => {
    const rights = rightsOf(call, required(call));
    const questions: readonly JsonObject[] = await call.req.json();
    return Response.json(questions.map((question) => ({
      ...question,
      Allow: rights.allows(
        textAt(question, "Resource"),
        textAt(question, "Access") === "write" ? "write" : "read",
        textAt(question, "Segment"),
      ),
    })));
  });
}

async function bodyOf(call: Call): Promise<JsonObject> {
  const body: unknown = await call.req.json();
  return isObject(body) ? body : {};
}
