/**
 * Logging in and out, and what it takes: auth methods and the rules that bind their identities.
 *
 * @module
 */

import { tokenJson } from "../acl/acl.ts";
import { LoginRefusal } from "../acl/auth_methods.ts";
import { type Call, json, readBody, type Route } from "../http/call.ts";
import { map, object } from "../http/decode.ts";
import { objectAt, textAt } from "../http/fields.ts";
import { Refusal } from "../http/refusal.ts";

export const LOGIN_ROUTES: readonly Route[] = [
  { method: "PUT", path: /^\/v1\/acl\/auth-method$/, handle: putMethod },
  { method: "PUT", path: /^\/v1\/acl\/binding-rule$/, handle: putRule },
  { method: "POST", path: /^\/v1\/acl\/login$/, handle: login },
  { method: "POST", path: /^\/v1\/acl\/logout$/, handle: logout },
];

const METHOD = object({
  Name: "string",
  Type: "string",
  Description: "string",
  DisplayName: "string",
  MaxTokenTTL: "string",
  TokenLocality: "string",
  Config: "any",
});

function putMethod(call: Call) {
  call.authorizer().require("acl", "write", "");
  const body = readBody(call, METHOD);
  call.state.methods.put(body);
  return json(body);
}

const RULE = object({
  AuthMethod: "string",
  Description: "string",
  Selector: "string",
  BindType: "string",
  BindName: "string",
});

function putRule(call: Call) {
  call.authorizer().require("acl", "write", "");
  const body = readBody(call, RULE);
  call.state.methods.bind(body);
  return json(body);
}

const LOGIN = object({ AuthMethod: "string", BearerToken: "string", Meta: map("string") });

function login(call: Call) {
  const body = readBody(call, LOGIN);
  try {
    const token = call.state.methods.login({
      method: textAt(body, "AuthMethod"),
      bearerToken: textAt(body, "BearerToken"),
      meta: objectAt(body, "Meta"),
    });
    return json(tokenJson(token));
  } catch (error) {
    if (!(error instanceof LoginRefusal)) throw error;
    switch (error.kind) {
      case "no_method":
        throw new Refusal(403, `ACL not found: ${error.message}`);
      case "unbound":
        throw new Refusal(403, error.message);
      case "bearer_token":
        throw new Refusal(500, error.message);
    }
  }
}

function logout(call: Call) {
  const secret = call.request.headers.get("x-consul-token") ?? "";
  if (!call.state.acl.find(secret)) throw new Refusal(401, "Supplied token does not exist");
  call.state.acl.logout(secret);
  return json(null);
}
