/**
 * The intentions for one destination, in the order in which they are tried. They are always read with an
 * index: a cached read without one stops following changes.
 *
 * Permissions and JWTs are about requests. For a TCP service, as in Consul's authorize and Envoy's TCP
 * filter, permissions deny and no JWT is demanded.
 *
 * Permissions are read strictly: a field that this version does not know may be the very condition that
 * was meant to keep a caller out, so such a permission denies every request that gets to it, and names
 * the field.
 *
 * @module
 */

import * as v from "valibot";
import { issueWords, prepareRegexes } from "../../base/mod.ts";
import {
  type HeaderMatch,
  type Intention,
  type IntentionAction,
  needsRegexes,
  type PathMatch,
  type Permission,
  permissionFault,
} from "../../policy/mod.ts";
import type { Client } from "../http/client.ts";
import type { Intentions } from "../model/values.ts";
import type { PollQuestion } from "../watch/blocking_query.ts";
import { callQuestion, isMissing } from "./questions.ts";
import {
  count,
  flag,
  list,
  map,
  object,
  readReply,
  replyInvalid,
  someText,
  text,
} from "./schema.ts";

const IntentionJson = object({
  SourceNS: text,
  SourceName: text,
  SourcePartition: text,
  SourcePeer: text,
  SourceSamenessGroup: text,
  DestinationNS: text,
  DestinationName: text,
  Action: text,
  Permissions: list(v.unknown()),
  JWT: v.nullish(v.unknown()),
  Precedence: count,
});
type IntentionJson = v.InferOutput<typeof IntentionJson>;

const MatchReply = map(v.nullable(v.array(IntentionJson)));

const HeaderJson = v.strictObject({
  Name: someText,
  Present: flag,
  Exact: text,
  Prefix: text,
  Suffix: text,
  Contains: text,
  Regex: text,
  Invert: flag,
  IgnoreCase: flag,
});

const PermissionJson = v.strictObject({
  Action: v.picklist(["allow", "deny"]),
  HTTP: v.nullish(v.strictObject({
    PathExact: text,
    PathPrefix: text,
    PathRegex: text,
    Header: list(HeaderJson),
    Methods: list(someText),
  })),
  JWT: v.nullish(v.unknown()),
});

const JwtJson = v.strictObject({
  Providers: list(v.strictObject({
    Name: someText,
    VerifyClaims: list(v.strictObject({
      Path: v.pipe(v.array(v.string()), v.nonEmpty("must not be empty")),
      Value: text,
    })),
  })),
});

/** `name` is the destination in the request. */
export function readIntentions(json: unknown, name: string): Intentions {
  const reply = readReply(MatchReply, json, `intentions for ${JSON.stringify(name)}`);
  const found = Object.hasOwn(reply, name) ? reply[name] : undefined;
  // An answer to another question must not count as "no rules", which could allow every caller.
  if (found === undefined) {
    throw replyInvalid(`intentions for ${JSON.stringify(name)}`, "it is about another service");
  }
  return (found ?? [])
    .map(toIntention)
    // Consul sorts them so; a stable sort makes sure that nothing weaker comes first.
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
    ...(action === "permissions" && { permissions: json.Permissions.map(readPermission) }),
    ...(action !== "deny" && tokens && { tokens }),
    ...(action !== "deny" && refused !== undefined && { refused }),
    precedence: json.Precedence,
  };
}

function demandOf(json: IntentionJson): ReturnType<typeof readJwt> {
  // Servers expand sameness groups; one that arrives cannot be resolved here, so it allows no caller.
  if (json.SourceSamenessGroup) {
    return { refused: "its source is a sameness group, which nobody resolved" };
  }
  return readJwt(json.JWT);
}

function actionOf(json: IntentionJson): IntentionAction {
  if (json.Permissions.length > 0) return "permissions";
  return json.Action === "allow" && !json.SourceSamenessGroup ? "allow" : "deny";
}

/** The tokens demanded, or why the demand cannot be checked; `{"Providers": null}` demands none. */
export function readJwt(jwt: unknown): Pick<Permission, "tokens" | "refused"> {
  if (jwt === null || jwt === undefined) return {};
  const result = v.safeParse(JwtJson, jwt, { abortEarly: true });
  if (!result.success) {
    const issue = result.issues[0];
    const at = v.getDotPath(issue);
    return { refused: `its JWT is not understood: ${at ?? "it"} ${issueWords(issue)}` };
  }
  const { Providers: providers } = result.output;
  if (providers.length === 0) return {};
  return {
    tokens: providers.map(({ Name: provider, VerifyClaims: claims }) => ({
      provider,
      claims: claims.map(({ Path: path, Value: value }) => ({ path, value })),
    })),
  };
}

export function readPermission(json: unknown): Permission {
  const result = v.safeParse(PermissionJson, json, { abortEarly: true });
  if (!result.success) {
    const issue = result.issues[0];
    return refusal(`${v.getDotPath(issue) ?? "it"} ${issueWords(issue)}`);
  }
  const { Action: action, HTTP: http, JWT: jwt } = result.output;
  const { PathExact: exact = "", PathPrefix: prefix = "", PathRegex: regex = "" } = http ?? {};
  const [path, ...morePaths]: readonly PathMatch[] = setOf({ exact, prefix, regex });
  const headers = (http?.Header ?? []).map(toHeader);
  const known = headers.filter((header) => header !== undefined);
  if (morePaths.length > 0) return refusal("it has more than one path");
  if (known.length < headers.length) return refusal("a header has not exactly one kind of match");
  return {
    action,
    ...(path && { path }),
    methods: (http?.Methods ?? []).map((method) => method.toUpperCase()),
    headers: known,
    ...readJwt(jwt),
  };
}

/** A deny permission for every request, because the conditions of the original are not known. */
function refusal(fact: string): Permission {
  return { action: "deny", methods: [], headers: [], refused: `it is not understood: ${fact}` };
}

/** The kinds of match that have a value. */
function setOf<const K extends string>(
  values: Readonly<Record<K, string>>,
): readonly { readonly kind: K; readonly value: string }[] {
  return (Object.entries(values) as [K, string][])
    .flatMap(([kind, value]) => value === "" ? [] : { kind, value });
}

function toHeader(json: v.InferOutput<typeof HeaderJson>): HeaderMatch | undefined {
  const { Name, Exact: exact, Prefix: prefix, Suffix: suffix, Contains: contains } = json;
  const [match, second] = [
    ...setOf({ exact, prefix, suffix, contains, regex: json.Regex }),
    ...json.Present ? [{ kind: "present", value: "" } as const] : [],
  ];
  if (!match || second) return undefined;
  return { name: Name.toLowerCase(), ...match, ignoreCase: json.IgnoreCase, invert: json.Invert };
}

/** `tenancy`: the destination's, where that is not our own. */
export function intentionsQuestion(
  client: Client,
  service: string,
  tenancy: Readonly<Record<string, string>> = {},
): PollQuestion<Intentions> {
  return callQuestion(client, {
    name: `intentions ${service}`,
    resource: "intentions",
    isCritical: true,
    // A changed rule is one that went and one that came.
    lacks: (after, before) => isMissing(after, before, (rule) => JSON.stringify(rule)),
    call: {
      what: `read the intentions for ${JSON.stringify(service)}`,
      path: "/v1/connect/intentions/match",
      query: { by: "destination", name: service, ...tenancy },
    },
    read: (json) => readIntentions(json, service),
    finish: judgeable,
  });
}

/** Records the faults of permissions in the intentions, so that every reader has the same ones. */
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
