/**
 * The rules about who may connect to one destination, in the order in which they are to be tried.
 * Read with an index always: a cached read without one stops following changes.
 *
 * Permissions and what asks for a JWT are about requests. On a TCP service, as Consul's authorize and
 * Envoy's TCP filter have it, permissions deny and no JWT is asked for.
 *
 * @module
 */

import * as v from "valibot";
import { prepareRegexes } from "../../base/mod.ts";
import {
  type Intention,
  type IntentionAction,
  needsRegexes,
  type Permission,
  permissionFault,
} from "../../policy/mod.ts";
import type { PollQuestion } from "../watch/blocking_query.ts";
import type { Client } from "../http/client.ts";
import { answerOf, blockingQuery, readQuery } from "../http/query.ts";
import { isMissing } from "./missing.ts";
import { readJwt, readPermission } from "./permissions.ts";
import { count, map, object, readReply, replyInvalid, text } from "./schema.ts";
import type { Intentions } from "../types.ts";

const IntentionJson = object({
  SourceNS: text,
  SourceName: text,
  SourcePartition: text,
  SourcePeer: text,
  SourceSamenessGroup: text,
  DestinationNS: text,
  DestinationName: text,
  Action: text,
  Permissions: v.nullish(v.array(v.unknown()), []),
  JWT: v.nullish(v.unknown()),
  Precedence: count,
});
type IntentionJson = v.InferOutput<typeof IntentionJson>;

const MatchReply = map(v.nullable(v.array(IntentionJson)));

/** `name` is the destination as it was asked for. */
export function readIntentions(json: unknown, name: string): Intentions {
  const reply = readReply(MatchReply, json, `intentions for ${JSON.stringify(name)}`);
  const found = reply && Object.hasOwn(reply, name) ? reply[name] : undefined;
  // Not the answer to our question: taking it for "no rules" could let everybody in.
  if (found === undefined) {
    throw replyInvalid(`intentions for ${JSON.stringify(name)}`, "it is about another service");
  }
  return (found ?? [])
    .map(toIntention)
    // Consul sorts them so; a stable sort makes sure that nothing weaker can come first.
    .sort((a, b) => b.precedence - a.precedence);
}

function toIntention(json: IntentionJson): Intention {
  const namespace = json.SourceNS || "default";
  const partition = json.SourcePartition || "default";
  const action = actionOf(json);
  const peer = json.SourcePeer && ` of peer ${json.SourcePeer}`;
  const destination = `${json.DestinationNS || "default"}/${json.DestinationName}`;
  const { tokens, refused } = demandOf(json);
  return {
    rule: `${namespace}/${json.SourceName}${peer} => ${destination} ` +
      `(precedence ${json.Precedence}, ${action})`,
    source: { name: json.SourceName, namespace, partition, peer: json.SourcePeer },
    action,
    ...(action === "permissions" && { permissions: (json.Permissions ?? []).map(readPermission) }),
    ...(action !== "deny" && tokens && { tokens }),
    ...(action !== "deny" && refused !== undefined && { refused }),
    precedence: json.Precedence,
  };
}

function demandOf(json: IntentionJson): ReturnType<typeof readJwt> {
  // Servers expand sameness groups; one that arrives cannot be resolved here, so it allows nobody.
  if (json.SourceSamenessGroup) {
    return { refused: "its source is a sameness group, which nobody resolved" };
  }
  return readJwt(json.JWT);
}

function actionOf(json: IntentionJson): IntentionAction {
  if (json.Permissions && json.Permissions.length > 0) return "permissions";
  return json.Action === "allow" && !json.SourceSamenessGroup ? "allow" : "deny";
}

/** `tenancy`: of the destination, where that is not our own. */
export function intentionsQuestion(
  client: Client,
  service: string,
  tenancy: Readonly<Record<string, string>> = {},
): PollQuestion<Intentions> {
  return {
    name: `intentions ${service}`,
    resource: "intentions",
    critical: true,
    dropped: false,
    cursor: "index",
    // A rule that says something else is one that went and one that came.
    lacks: (after, before) => isMissing(after, before, (rule) => JSON.stringify(rule)),
    async poll(request) {
      const read = readQuery(client, { stale: true });
      const query = { by: "destination", name: service, ...tenancy, ...read.query };
      const reply = await client.call({
        resource: "intentions",
        what: `read the intentions for ${JSON.stringify(service)}`,
        path: "/v1/connect/intentions/match",
        ...blockingQuery(request, { ...read, query }),
      });
      const answer = answerOf(reply, request, (json) => readIntentions(json, service));
      return { ...answer, value: await judgeable(answer.value) };
    },
  };
}

/** With what is wrong with permissions written down, so that everybody sees it the same way. */
async function judgeable(intentions: Intentions): Promise<Intentions> {
  if (intentions.some(({ permissions = [] }) => needsRegexes(permissions))) await prepareRegexes();
  return intentions.map((intention) => {
    const { permissions } = intention;
    return permissions ? { ...intention, permissions: permissions.map(withFault) } : intention;
  });
}

function withFault(permission: Permission): Permission {
  const refused = permissionFault(permission);
  return refused === undefined ? permission : { ...permission, refused };
}
