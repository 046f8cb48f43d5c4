/**
 * `/v1/connect/intentions`: match, check, exact, the list, and the deprecated way to write one.
 *
 * @module
 */

import { randomUUID } from "node:crypto";
import {
  blockCall,
  type Call,
  json,
  metaHeaders,
  readBody,
  type Route,
  withMeta,
} from "../http/call.ts";
import { list, map, object } from "../http/decode.ts";
import {
  decide,
  deleteIntention,
  exactIntention,
  listIntentions,
  matchIntentions,
  matchTopics,
  putIntention,
} from "../entries/intentions.ts";
import { dropEmpty } from "../catalog/records.ts";
import { Refusal } from "../http/refusal.ts";
import { textAt } from "../http/fields.ts";

const PATH = /^\/v1\/connect\/intentions$/;
const EXACT = /^\/v1\/connect\/intentions\/exact$/;

export const INTENTION_ROUTES: readonly Route[] = [
  { method: "GET", path: /^\/v1\/connect\/intentions\/match$/, handle: match },
  { method: "GET", path: /^\/v1\/connect\/intentions\/check$/, handle: check },
  { method: "GET", path: EXACT, handle: exact },
  { method: "PUT", path: EXACT, handle: putExact },
  { method: "DELETE", path: EXACT, handle: deleteExact },
  { method: "GET", path: PATH, handle: listAll },
  { method: "POST", path: PATH, handle: create },
];

const INTENTION = object({
  ID: "string",
  Description: "string",
  SourceNS: "string",
  SourceName: "string",
  SourcePeer: "string",
  DestinationNS: "string",
  DestinationName: "string",
  SourceType: "string",
  Action: "string",
  Permissions: list("any"),
  Meta: map("string"),
  Precedence: "number",
  CreatedAt: "string",
  UpdatedAt: "string",
  CreateIndex: "number",
  ModifyIndex: "number",
});

async function match(call: Call) {
  const by = required(call, "by");
  if (by !== "source" && by !== "destination") {
    throw new Refusal(500, "'by' parameter must be one of 'source' or 'destination'");
  }
  required(call, "name");
  const names = call.query.getAll("name");
  const authorizer = withMeta(() => call.authorizer());
  // The key is the name as asked; only its last part is a service.
  const service = (name: string) => name.split("/").at(-1) ?? "";
  withMeta(() => names.forEach((name) => authorizer.require("intention", "read", service(name))));
  const { value, index } = await blockCall(call, () => ({
    index: call.state.store.tableIndex("config"),
    topics: names.flatMap((name) => matchTopics(by, service(name))),
    value: Object.fromEntries(names.map((name) => {
      const found = matchIntentions(call.state.config, by, service(name));
      return [name, found.length > 0 ? found : null];
    })),
  }));
  return json(value, metaHeaders(call, index));
}

function check(call: Call) {
  const source = required(call, "source");
  const destination = required(call, "destination");
  const type = call.query.get("source-type") ?? "consul";
  if (type !== "consul") throw new Refusal(500, `unsupported SourceType: "${type}"`);
  call.authorizer().require("intention", "read", destination);
  // The default here is that of the ACLs alone, whatever default_intention_policy says.
  const decision = decide(
    call.state.config,
    { namespace: "default", service: source },
    destination,
  );
  return json({ Allowed: decision?.allowed ?? call.state.acl.allowsByDefault });
}

function exact(call: Call) {
  const source = required(call, "source");
  const destination = required(call, "destination");
  call.authorizer().require("intention", "read", destination);
  const found = exactIntention(call.state.config, source, destination);
  if (!found) throw new Refusal(404, "Intention not found");
  return json(found);
}

function putExact(call: Call) {
  const source = required(call, "source");
  const destination = required(call, "destination");
  const body = readBody(call, INTENTION);
  call.authorizer().require("intention", "write", destination);
  putIntention(
    call.state.config,
    destination,
    dropEmpty({
      Name: source,
      Action: textAt(body, "Action"),
      Permissions: body["Permissions"] ?? null,
      Description: textAt(body, "Description"),
      Peer: textAt(body, "SourcePeer"),
    }, ["Action", "Permissions", "Description", "Peer"]),
  );
  return json(true);
}

function deleteExact(call: Call) {
  const source = required(call, "source");
  const destination = required(call, "destination");
  call.authorizer().require("intention", "write", destination);
  deleteIntention(call.state.config, source, destination);
  return json(true);
}

async function listAll(call: Call) {
  const authorizer = call.authorizer();
  const { value, index } = await blockCall(call, () => ({
    index: call.state.store.tableIndex("config"),
    topics: ["config:service-intentions"],
    value: listIntentions(call.state.config),
  }));
  const seen = value.filter((intention) =>
    authorizer.allows("intention", "read", textAt(intention, "DestinationName"))
  );
  const filtered = authorizer.hasToken && seen.length < value.length;
  return json(seen, metaHeaders(call, index, { consistency: false, filtered }));
}

function create(call: Call) {
  const body = readBody(call, INTENTION);
  const destination = textAt(body, "DestinationName");
  call.authorizer().require("intention", "write", destination);
  const id = randomUUID();
  const at = new Date(call.world.clock.now()).toISOString();
  putIntention(
    call.state.config,
    destination,
    dropEmpty({
      Name: textAt(body, "SourceName"),
      Action: textAt(body, "Action"),
      Description: textAt(body, "Description"),
      LegacyID: id,
      LegacyCreateTime: at,
      LegacyUpdateTime: at,
    }, ["Description"]),
  );
  return json({ ID: id });
}

function required(call: Call, name: string): string {
  const value = call.query.get(name) ?? "";
  if (value === "") throw new Refusal(500, `required query parameter '${name}' not set`);
  return value;
}
