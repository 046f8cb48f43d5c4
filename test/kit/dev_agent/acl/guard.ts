/**
 * The rights that each endpoint demands, in front of the agent's own endpoints: requests without them
 * are refused, and entries that the token may not see are left out of lists.
 *
 * @module
 */

import {
  type Api,
  type Call,
  has,
  indexHeaders,
  indexOf,
  param,
  required,
} from "../../../../src/dev/http/api.ts";
import { isObject, type JsonObject, objectAt, textAt } from "../../../../src/dev/json.ts";
import { HttpRefusal } from "../../../../src/dev/refusal.ts";
import type { World } from "../../../../src/dev/world.ts";
import { type Access, type Authorizer, TOKEN_UNKNOWN } from "./acl.ts";
import { type AclOf, rightsOf, secretOf } from "./acl_of.ts";

/** Throws where a right is missing. */
type Need = (call: Call, rights: Authorizer) => void | Promise<void>;

/** The part of a reply's body that may be seen. */
type Visible = (body: unknown, rights: Authorizer, call: Call) => unknown;

export function guard(api: Api, aclOf: AclOf): void {
  for (const [method, path, need] of NEEDS) {
    api.on(method, path, async (call, next) => {
      const acl = aclOf(call.env);
      await need(call, rightsOf(call, acl));
      await next();
      // A token may lose its rights while a request waits.
      if (method === "GET") await need(call, rightsOf(call, acl));
    });
  }
  for (const [path, visible] of LISTS) {
    api.get(path, async (call, next) => {
      const rights = rightsOf(call, aclOf(call.env));
      await next();
      await hide(call, rights, { visible });
    });
  }
  api.get("/v1/agent/connect/ca/leaf/:service", async (call, next) => {
    const service = param(call, "service");
    // A leaf that the agent keeps is handed to any caller, as in Consul.
    if (!call.env.ca.has(service) && !isHeld(call.env, service)) {
      rightsOf(call, aclOf(call.env)).require("service", "write", service);
    }
    await next();
  });
  api.get(
    "/v1/health/:kind{connect|service}/:name",
    (call, next) => guardHealth(call, next, aclOf),
  );
}

const NEEDS: readonly (readonly [method: string, path: string, need: Need])[] = [
  ["PUT", "/v1/agent/service/register", async (call, rights) => {
    const body: unknown = await call.req.json();
    if (!isObject(body)) return;
    rights.require("service", "write", textAt(body, "Name") || textAt(body, "name"));
  }],
  ["PUT", "/v1/agent/service/deregister/:id", ofService("write")],
  ["PUT", "/v1/agent/service/maintenance/:id", ofService("write")],
  ["GET", "/v1/agent/service/:id", ofService("read")],
  ["GET", "/v1/agent/health/service/id/:id", ofService("read")],
  ["GET", "/v1/agent/health/service/name/:name", (call, rights) => {
    rights.require("service", "read", param(call, "name"));
  }],
  ["PUT", "/v1/agent/check/:verb/:id", (call, rights) => {
    const check = call.env.services.node.check(param(call, "id"));
    if (check) rights.require("service", "write", textAt(check.facts, "ServiceName"));
  }],
  ["GET", "/v1/agent/self", (call, rights) => {
    rights.require("agent", "read", call.env.services.node.record.name);
  }],
  ["GET", "/v1/connect/ca/configuration", (_call, rights) => {
    rights.require("operator", "read", "");
  }],
  ["PUT", "/v1/connect/ca/configuration", (_call, rights) => {
    rights.require("operator", "write", "");
  }],
  ["POST", "/v1/agent/connect/authorize", async (call, rights) => {
    const body: unknown = await call.req.json();
    if (isObject(body)) rights.require("service", "write", textAt(body, "Target"));
  }],
  [
    "GET",
    "/v1/connect/intentions/match",
    withIndex((call, rights) => {
      for (const name of call.req.queries("name") ?? []) {
        rights.require("intention", "read", name.split("/").at(-1) ?? "");
      }
    }),
  ],
  ["GET", "/v1/connect/intentions/check", ofIntention("read")],
  ["GET", "/v1/connect/intentions/exact", ofIntention("read")],
  ["PUT", "/v1/connect/intentions/exact", ofIntention("write")],
  ["DELETE", "/v1/connect/intentions/exact", ofIntention("write")],
  ["PUT", "/v1/config", async (call, rights) => {
    const body: unknown = await call.req.json();
    const entry = isObject(body) ? body : {};
    requireEntry(rights, {
      kind: textAt(entry, "Kind") || textAt(entry, "kind"),
      name: textAt(entry, "Name") || textAt(entry, "name"),
      access: "write",
    });
  }],
  ["GET", "/v1/config/:kind/:name", ofEntry("read")],
  ["DELETE", "/v1/config/:kind/:name", ofEntry("write")],
  ["GET", "/v1/discovery-chain/:name", withIndex(ofChain)],
  ["POST", "/v1/discovery-chain/:name", withIndex(ofChain)],
  ["POST", "/v1/query", async (call, rights) => {
    const body: unknown = await call.req.json();
    if (isObject(body)) rights.require("query", "write", textAt(body, "Name"));
  }],
  ["GET", "/v1/query/:id", ofQuery("read")],
  ["DELETE", "/v1/query/:id", ofQuery("write")],
];

const LISTS: readonly (readonly [path: string, visible: Visible])[] = [
  ["/v1/agent/services", (body, rights) => fields(body, rights, "Service")],
  ["/v1/agent/checks", (body, rights) => fields(body, rights, "ServiceName")],
  [
    "/v1/connect/intentions",
    (body, rights) =>
      items(body, (item) => rights.allows("intention", "read", textAt(item, "DestinationName"))),
  ],
  [
    "/v1/config/:kind",
    (body, rights, call) =>
      items(body, (entry) =>
        mayEntry(rights, {
          kind: param(call, "kind"),
          name: textAt(entry, "Name"),
          access: "read",
        })),
  ],
  ["/v1/catalog/services", (body, rights) =>
    isObject(body)
      ? Object.fromEntries(
        Object.entries(body).filter(([name]) => rights.allows("service", "read", name)),
      )
      : body],
  [
    "/v1/catalog/:kind{connect|service}/:name",
    (body, rights, call) =>
      rights.allows("service", "read", param(call, "name"))
        ? items(body, (row) => seesBoth(rights, textAt(row, "Node"), textAt(row, "ServiceName")))
        : [],
  ],
  ["/v1/query/:name/execute", (body, rights) => {
    if (!isObject(body)) return body;
    const { Nodes: nodes = null } = body;
    return { ...body, Nodes: items(nodes, (entry) => seesEntry(rights, entry)) };
  }],
];

/** Whether the agent keeps the leaf for a sidecar of its own. */
function isHeld({ services }: World, service: string): boolean {
  return services.all().some(({ kind, proxy }) =>
    kind === "connect-proxy" && textAt(proxy ?? {}, "DestinationServiceName") === service
  );
}

/** The streaming backend refuses nothing: it answers an empty list. */
async function guardHealth(
  call: Call,
  next: () => Promise<void>,
  aclOf: AclOf,
): Promise<Response | undefined> {
  const mesh = param(call, "kind") === "connect";
  const streaming = mesh && !has(call, "merge-central-config") &&
    (indexOf(call) > 0 || has(call, "cached"));
  const rights = aclOf(call.env).authorizer(secretOf(call));
  if (!rights) {
    if (!streaming) throw new HttpRefusal(403, TOKEN_UNKNOWN);
    return Response.json([], { headers: indexHeaders(1) });
  }
  const isAllowed = rights.allows("service", "read", param(call, "name"));
  if (mesh && !streaming && !isAllowed) throw new HttpRefusal(403, "Permission denied");
  await next();
  const visible: Visible = (body) =>
    isAllowed ? items(body, (entry) => seesEntry(rights, entry)) : [];
  await hide(call, rights, { visible, isSilent: streaming });
  return undefined;
}

/** Replaces the body by its visible part, and announces that something is missing. */
async function hide(
  call: Call,
  rights: Authorizer,
  { visible, isSilent = false }: { readonly visible: Visible; readonly isSilent?: boolean },
): Promise<void> {
  if (call.res.status !== 200) return;
  const before = await call.res.text();
  const after = JSON.stringify(visible(JSON.parse(before), rights, call));
  call.res = new Response(after, call.res);
  if (after.length === before.length || isSilent || !rights.hasToken) return;
  call.header("X-Consul-Results-Filtered-By-Acls", "true");
}

function items(body: unknown, isVisible: (item: JsonObject) => boolean): JsonObject[] {
  return Array.isArray(body) ? body.filter((item) => isObject(item) && isVisible(item)) : [];
}

/** Fields of an object whose value names, under `key`, a service that may be read. */
function fields(body: unknown, rights: Authorizer, key: string): unknown {
  if (!isObject(body)) return body;
  return Object.fromEntries(
    Object.entries(body).filter(([, value]) =>
      isObject(value) && rights.allows("service", "read", textAt(value, key))
    ),
  );
}

function seesEntry(rights: Authorizer, entry: JsonObject): boolean {
  const [node, service] = [objectAt(entry, "Node"), objectAt(entry, "Service")];
  return seesBoth(rights, textAt(node, "Node"), textAt(service, "Service"));
}

function seesBoth(rights: Authorizer, node: string, service: string): boolean {
  return rights.allows("node", "read", node) && rights.allows("service", "read", service);
}

function ofService(access: Access): Need {
  return (call, rights) => {
    const record = call.env.services.get(param(call, "id"));
    if (record) rights.require("service", access, record.name);
  };
}

function ofIntention(access: Access): Need {
  return (call, rights) => rights.require("intention", access, required(call, "destination"));
}

function ofEntry(access: Access): Need {
  return (call, rights) =>
    requireEntry(rights, { kind: param(call, "kind"), name: param(call, "name"), access });
}

function ofChain(call: Call, rights: Authorizer): void {
  rights.require("service", "read", param(call, "name"));
}

function ofQuery(access: Access): Need {
  return (call, rights) => {
    const query = call.env.queries.get(param(call, "id"));
    rights.require("query", access, textAt(query, "Name"));
  };
}

/** The refusals of `need` carry an index that is none to go on from. */
function withIndex(need: Need): Need {
  return async (call, rights) => {
    try {
      await need(call, rights);
    } catch (error) {
      if (!(error instanceof HttpRefusal)) throw error;
      throw new HttpRefusal(error.status, error.message, REFUSED_HEADERS);
    }
  };
}

/** Headers of some refusals: they look like those of a reply to go on from. */
export const REFUSED_HEADERS: Readonly<Record<string, string>> = {
  "X-Consul-Index": "1",
  "X-Consul-Knownleader": "false",
  "X-Consul-Lastcontact": "0",
  "X-Consul-Query-Backend": "blocking-query",
};

interface EntryAccess {
  readonly kind: string;
  readonly name: string;
  readonly access: Access;
}

/** The right that an entry needs; undefined: none. */
function rightOn({ kind, name, access }: EntryAccess): readonly [string, string] | undefined {
  switch (kind) {
    case "service-intentions":
      return ["intention", name];
    case "proxy-defaults":
    case "mesh":
      return access === "read" ? undefined : ["mesh", ""];
    case "jwt-provider":
      return ["mesh", ""];
    default:
      return ["service", name];
  }
}

/** A token that may be some service may know whose tokens are good. */
function isOfAnyService(rights: Authorizer, { kind, access }: EntryAccess): boolean {
  return kind === "jwt-provider" && access === "read" && rights.allows("service", "write", "*");
}

function requireEntry(rights: Authorizer, entry: EntryAccess): void {
  if (isOfAnyService(rights, entry)) return;
  const right = rightOn(entry);
  if (right) rights.require(right[0], entry.access, right[1]);
}

function mayEntry(rights: Authorizer, entry: EntryAccess): boolean {
  const right = rightOn(entry);
  return isOfAnyService(rights, entry) || !right || rights.allows(right[0], entry.access, right[1]);
}
