/** Logging in and out, with the auth methods and binding rules that it takes. @module */

import type { Api, Call } from "../../../../src/dev/http/api.ts";
import { isObject, type JsonObject, objectAt, textAt } from "../../../../src/dev/json.ts";
import { HttpRefusal } from "../../../../src/dev/refusal.ts";
import { tokenJson } from "./acl.ts";
import { type AclOf, rightsOf, secretOf } from "./acl_of.ts";
import { type AuthMethods, LoginRefusal } from "./auth_methods.ts";

export function addLoginRoutes(
  api: Api,
  { methods, aclOf }: { readonly methods: AuthMethods; readonly aclOf: AclOf },
): void {
  const written = async (call: Call): Promise<JsonObject> => {
    rightsOf(call, aclOf(call.env)).require("acl", "write", "");
    return await bodyOf(call);
  };
  api.put("/v1/acl/auth-method", async (call) => {
    const body = await written(call);
    methods.put(body);
    return Response.json(body);
  });
  api.put("/v1/acl/binding-rule", async (call) => {
    const body = await written(call);
    methods.bind(body);
    return Response.json(body);
  });
  api.post("/v1/acl/login", async (call) => {
    const body = await bodyOf(call);
    try {
      const token = await methods.login({
        method: textAt(body, "AuthMethod"),
        bearerToken: textAt(body, "BearerToken"),
        meta: objectAt(body, "Meta"),
      });
      return Response.json(tokenJson(token));
    } catch (error) {
      if (!(error instanceof LoginRefusal)) throw error;
      const prefix = error.kind === "no_method" ? "ACL not found: " : "";
      throw new HttpRefusal(error.kind === "bearer_token" ? 500 : 403, prefix + error.message);
    }
  });
  api.post("/v1/acl/logout", (call) => {
    const acl = aclOf(call.env);
    const secret = secretOf(call);
    if (!acl.find(secret)) throw new HttpRefusal(401, "Supplied token does not exist");
    acl.logout(secret);
    return Response.json(null);
  });
}

async function bodyOf(call: Call): Promise<JsonObject> {
  const body: unknown = await call.req.json();
  return isObject(body) ? body : {};
}
