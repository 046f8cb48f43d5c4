/** `/v1/connect/intentions`: match, check, exact and the list. @module */

import {
  decide,
  deleteIntention,
  exactIntention,
  listIntentions,
  matchIntentions,
  matchTopics,
  putIntention,
} from "../entries/intentions.ts";
import { type Api, type Call, replyWhenNewer, required } from "../http/api.ts";
import { type JsonObject, textAt, withoutEmpty } from "../json.ts";
import { HttpRefusal } from "../refusal.ts";
import { decodeBody } from "../shapes.ts";
import { CONFIG, configTopic } from "../store.ts";
import type { World } from "../world.ts";

export function addIntentionRoutes(api: Api): void {
  api.get("/v1/connect/intentions/match", match);
  api.get("/v1/connect/intentions/check", (call) => {
    const { config, acl } = call.env;
    const source = { namespace: "default", service: required(call, "source") };
    const decision = decide(config, source, required(call, "destination"));
    // Consul's default here is that of the ACLs, whatever default_intention_policy says.
    return Response.json({ Allowed: decision?.allowed ?? acl.allowsByDefault });
  });
  api.get("/v1/connect/intentions/exact", (call) => {
    const [source, destination] = [required(call, "source"), required(call, "destination")];
    const found = exactIntention(call.env.config, source, destination);
    if (!found) throw new HttpRefusal(404, "Intention not found");
    return Response.json(found);
  });
  api.put("/v1/connect/intentions/exact", async (call) => {
    const [source, destination] = [required(call, "source"), required(call, "destination")];
    const body = decodeBody(await call.req.text(), "intention");
    put(call.env, { ...body, SourceName: source, DestinationName: destination });
    return Response.json(true);
  });
  api.delete("/v1/connect/intentions/exact", (call) => {
    deleteIntention(call.env.config, required(call, "source"), required(call, "destination"));
    return Response.json(true);
  });
  // The deprecated endpoint to write an intention, which the Consul CLI uses; with a slash to replace one.
  api.on(["POST", "PUT"], ["/v1/connect/intentions", "/v1/connect/intentions/"], async (call) => {
    const body = decodeBody(await call.req.text(), "intention");
    put(call.env, body);
    return Response.json({
      ID: `${textAt(body, "SourceName")}/${textAt(body, "DestinationName")}`,
    });
  });
  api.get("/v1/connect/intentions", (call) => {
    const { config, store } = call.env;
    return replyWhenNewer(call, () => ({
      index: store.indexOf(CONFIG) ?? 1,
      topics: [configTopic("service-intentions")],
      value: listIntentions(config),
    }));
  });
}

function match(call: Call): Promise<Response> {
  const by = required(call, "by");
  if (by !== "source" && by !== "destination") {
    throw new HttpRefusal(400, "'by' parameter must be one of 'source' or 'destination'");
  }
  required(call, "name");
  const { config, store } = call.env;
  const names = (call.req.queries("name") ?? []).map((name) => ({
    name,
    // A namespace may precede the service.
    service: name.split("/").at(-1) ?? "",
  }));
  return replyWhenNewer(call, () => ({
    index: store.indexOf(CONFIG) ?? 1,
    topics: names.flatMap(({ service }) => matchTopics(by, service)),
    value: Object.fromEntries(names.map(({ name, service }) => {
      const found = matchIntentions(config, by, service);
      return [name, found.length > 0 ? found : null];
    })),
  }));
}

function put({ config }: World, body: JsonObject): void {
  const source = withoutEmpty({
    Name: textAt(body, "SourceName"),
    Action: textAt(body, "Action"),
    Permissions: body["Permissions"] ?? null,
    Description: textAt(body, "Description"),
    Peer: textAt(body, "SourcePeer"),
  });
  putIntention(config, textAt(body, "DestinationName"), source);
}
