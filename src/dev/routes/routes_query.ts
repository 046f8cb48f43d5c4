/**
 * `/v1/query`: prepared queries. Executing needs no right on the query; what is found is filtered.
 *
 * @module
 */

import {
  type Call,
  empty,
  json,
  metaHeaders,
  readBody,
  REFUSED_META,
  requireDatacenter,
  type Route,
  withMeta,
} from "../http/call.ts";
import { QUERY_SHAPE } from "../entries/prepared_queries.ts";
import { Refusal } from "../http/refusal.ts";
import { textAt } from "../http/fields.ts";

const ALL = /^\/v1\/query$/;
const ONE = /^\/v1\/query\/([^/]+)$/;

export const QUERY_ROUTES: readonly Route[] = [
  { method: "POST", path: ALL, handle: create },
  { method: "GET", path: ONE, handle: get },
  { method: "DELETE", path: ONE, handle: remove },
  { method: "GET", path: /^\/v1\/query\/([^/]+)\/execute$/, handle: execute },
  { method: "GET", path: /^\/v1\/query\/([^/]+)\/explain$/, handle: explain },
];

function create(call: Call) {
  const body = readBody(call, QUERY_SHAPE);
  call.authorizer().require("query", "write", textAt(body, "Name"));
  return json({ ID: call.state.queries.put(body) });
}

function get(call: Call) {
  const [id = ""] = call.params;
  return withMeta(() => {
    const query = call.state.queries.get(id);
    call.authorizer().require("query", "read", textAt(query, "Name"));
    return json([query], metaHeaders(call, call.state.store.tableIndex("query")));
  });
}

function remove(call: Call) {
  const [id = ""] = call.params;
  const old = call.state.queries.get(id);
  call.authorizer().require("query", "write", textAt(old, "Name"));
  call.state.queries.remove(id);
  return empty();
}

function execute(call: Call) {
  const [name = ""] = call.params;
  return withMeta(() => {
    const authorizer = call.authorizer();
    requireDatacenter(call);
    const query = call.state.queries.lookup(name);
    const connect = call.query.has("connect") && call.query.get("connect") !== "false";
    const limit = Number(call.query.get("limit") ?? "0");
    if (!Number.isInteger(limit)) throw new Refusal(400, "Invalid limit");
    const { body, filtered } = call.state.queries.execute(query, call.state.catalog, {
      connect,
      limit,
      datacenter: call.datacenter,
      visible: ({ service }) =>
        authorizer.allows("node", "read", service.node.name) &&
        authorizer.allows("service", "read", service.name),
    });
    return json(body, metaHeaders(call, 1, { filtered: filtered && authorizer.hasToken }));
  });
}

function explain(call: Call) {
  const [name = ""] = call.params;
  return withMeta(() => {
    const query = call.state.queries.lookup(name);
    call.authorizer().require("query", "read", textAt(query, "Name"));
    const body = {
      Query: query,
      Index: 1,
      LastContact: 0,
      KnownLeader: true,
      ConsistencyLevel: "leader",
      NotModified: false,
      Backend: 0,
      ResultsFilteredByACLs: false,
    };
    return json(body, { ...REFUSED_META, ...metaHeaders(call, 1) });
  });
}
