/**
 * The parts of `/v1/acl` that set a test up, and the question what a token may do.
 *
 * @module
 */

import { type Access, tokenJson } from "../acl/acl.ts";
import { type Call, json, metaHeaders, type Route } from "../http/call.ts";
import { DecodeError, isObject, type Json, type JsonObject, parseJson } from "../http/decode.ts";
import { Refusal } from "../http/refusal.ts";
import { textAt } from "../http/fields.ts";

export const ACL_ROUTES: readonly Route[] = [
  { method: "GET", path: /^\/v1\/acl\/token\/self$/, handle: self },
  { method: "PUT", path: /^\/v1\/acl\/policy$/, handle: putPolicy },
  { method: "PUT", path: /^\/v1\/acl\/token$/, handle: putToken },
  { method: "DELETE", path: /^\/v1\/acl\/token\/([^/]+)$/, handle: deleteToken },
  { method: "POST", path: /^\/v1\/internal\/acl\/authorize$/, handle: authorize },
];

function requireAcls(call: Call): void {
  if (!call.state.acl.enabled) throw new Refusal(401, "ACL support disabled");
}

function self(call: Call) {
  requireAcls(call);
  call.authorizer();
  const secret = call.query.get("token") || call.request.headers.get("x-consul-token") || "";
  const token = call.state.acl.find(secret);
  if (!token) throw new Refusal(403, "ACL not found");
  return json(tokenJson(token), metaHeaders(call, 1, { consistency: false }));
}

function putPolicy(call: Call) {
  requireAcls(call);
  call.authorizer().require("acl", "write", "");
  const body = bodyOf(call);
  const policy = isObject(body) ? body : {};
  const name = textAt(policy, "Name");
  call.state.acl.addPolicy(name, textAt(policy, "Rules"));
  return json({
    ID: name,
    Name: name,
    Rules: textAt(policy, "Rules"),
    CreateIndex: 1,
    ModifyIndex: 1,
  });
}

function putToken(call: Call) {
  requireAcls(call);
  call.authorizer().require("acl", "write", "");
  const body = bodyOf(call);
  const fields = isObject(body) ? body : {};
  const secretId = textAt(fields, "SecretID");
  const accessorId = textAt(fields, "AccessorID");
  const token = call.state.acl.add({
    ...secretId === "" ? {} : { secretId },
    ...accessorId === "" ? {} : { accessorId },
    serviceIdentities: objects(fields["ServiceIdentities"]).map((item) =>
      textAt(item, "ServiceName")
    ),
  }, objects(fields["Policies"]).map((item) => textAt(item, "Name")));
  return json(tokenJson(token));
}

function deleteToken(call: Call) {
  requireAcls(call);
  call.authorizer().require("acl", "write", "");
  call.state.acl.remove(call.params[0] ?? "");
  return json(true);
}

function authorize(call: Call) {
  requireAcls(call);
  const authorizer = call.authorizer();
  return json(
    objects(bodyOf(call)).map((question) => {
      const access: Access = textAt(question, "Access") === "write" ? "write" : "read";
      const segment = textAt(question, "Segment");
      return {
        Resource: textAt(question, "Resource"),
        ...segment === "" ? {} : { Segment: segment },
        Access: textAt(question, "Access"),
        Allow: authorizer.allows(textAt(question, "Resource"), access, segment),
      };
    }),
  );
}

function bodyOf(call: Call): Json {
  try {
    return parseJson(new TextDecoder().decode(call.request.body));
  } catch (error) {
    if (!(error instanceof DecodeError)) throw error;
    throw new Refusal(400, `Failed to decode request body: ${error.message}`);
  }
}

function objects(value: Json | undefined): readonly JsonObject[] {
  return Array.isArray(value) ? (value as readonly Json[]).filter(isObject) : [];
}
